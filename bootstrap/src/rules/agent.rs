//! The agent's own document in user data. None of its values is shown, because it holds a secret.

use std::net::IpAddr;

use crate::agent_config::{API_VERSION, Document, KIND, documents};
use crate::family::Family;
use crate::finding::{Findings, Severity};
use crate::kubelet::labels::{is_label_key, is_label_value};
use crate::kubelet::schema::{AGENT_CONFIG, FieldFaultKind};
use crate::kubelet::taints::Taint;
use crate::place::{Place, Source};
use crate::rules::cluster::is_pem;
use crate::tree::{self, Tree};
use crate::userdata::{UserData, base64};
use crate::verdicts;

/// Judges the document, and reports a second one.
pub(crate) fn check(user_data: &UserData, family: Family, findings: &mut Findings) {
    for (index, Document { text, source }) in documents(user_data).into_iter().enumerate() {
        let Ok(text) = text else {
            let message = "the agent's configuration is not base64";
            findings.add(&verdicts::UD31, message, source.anywhere(), "");
            continue;
        };
        if index > 0 {
            let message = "there are two configurations for the agent; neither is used, except for `reportOnly: true`";
            findings.add(&verdicts::UD31, message, source.at(1), "");
        }
        document(&text, &source, family, findings);
    }
}

fn document(text: &str, source: &Source, family: Family, findings: &mut Findings) {
    let tree = match tree::yaml(text) {
        Ok(tree) => tree,
        Err(fault) => {
            let message = "the agent's configuration is neither YAML nor JSON";
            return findings.add(&verdicts::UD31, message, source.at(fault.line.unwrap_or(1)), "");
        }
    };
    for (key, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        if tree.get(key).and_then(Tree::text) != Some(expected) {
            let line = tree.entry(key).map_or(1, |(line, _)| line);
            let message = format!("{key} of the agent's configuration must be `{expected}`");
            findings.add(&verdicts::UD31, message, source.at(line.max(1)), key);
        }
    }
    for fault in AGENT_CONFIG.check(&tree, None) {
        let path = &fault.path;
        let (severity, message) = match &fault.kind {
            FieldFaultKind::Unknown { nearest: Some(nearest) } => {
                (Severity::Error, format!("the agent has no field `{path}`; did you mean `{nearest}`?"))
            }
            // A newer controller may send fields that this agent does not know.
            FieldFaultKind::Unknown { nearest: None } | FieldFaultKind::OtherVersion { .. } => {
                (Severity::Warning, format!("the agent has no field `{path}`"))
            }
            FieldFaultKind::Type { wanted, found } => {
                (Severity::Error, format!("field `{path}` must be {wanted}, not {found}"))
            }
            FieldFaultKind::Twice => (Severity::Warning, format!("field `{path}` occurs twice; the last one counts")),
        };
        findings.add_as(severity, &verdicts::UD31, message, source.at(fault.line.max(1)), path);
    }
    if let Some(spec) = tree.get("spec") {
        Spec { source, family, findings }.check(spec);
    } else {
        findings.add(&verdicts::UD31, "the agent's configuration has no `spec`", source.at(1), "spec");
    }
}

/// Judge of the values, with the destination of its findings.
struct Spec<'f> {
    source: &'f Source,
    family: Family,
    findings: &'f mut Findings,
}

impl Spec<'_> {
    fn check(mut self, spec: &Tree) {
        if let Some((line, mode)) = spec.entry("mode")
            && let Some(mode) = mode.text()
        {
            if !matches!(mode, "delegate" | "native") {
                self.refuse(line, "spec.mode", "must be `delegate` or `native`");
            } else if mode == "native" && self.family.is_windows() {
                let message = "the native bootstrap is not on this platform: the image's own script runs";
                let place = self.place(line);
                self.findings.add_as(Severity::Warning, &verdicts::UD31, message, place, "spec.mode");
            }
        }
        if let Some((line, controller)) = spec.entry("controller").filter(|(_, it)| it.is_map()) {
            self.controller(line, controller);
        }
        let Some(expect) = spec.get("expect") else { return };
        for key in ["taints", "startupTaints"] {
            for taint in expect.get(key).map(Tree::items).unwrap_or_default() {
                if taint.text().is_some_and(|text| text.parse::<Taint>().is_err()) {
                    self.refuse(taint.line, &format!("spec.expect.{key}"), "must hold taints `key=value:Effect`");
                }
            }
        }
        for (key, line, value) in expect.get("labels").map(Tree::entries).unwrap_or_default() {
            if !is_label_key(key) || value.text().is_some_and(|text| !is_label_value(text)) {
                self.refuse(*line, "spec.expect.labels", "must hold labels as a Node has them");
            }
        }
        for (name, line, count) in expect.get("resources").map(Tree::entries).unwrap_or_default() {
            if !is_label_key(name) || count.integer().is_some_and(|count| count < 0) {
                self.refuse(*line, "spec.expect.resources", "must hold names of resources, each with a number");
            }
        }
    }

    fn controller(&mut self, line: usize, controller: &Tree) {
        let field = |key: &str| format!("spec.controller.{key}");
        for key in ["address", "certificateAuthority", "launchToken"] {
            if controller.get(key).is_none_or(|value| value.text() == Some("")) {
                let (place, path) = (self.place(line), field(key));
                self.findings.add(&verdicts::UD31, format!("the agent's configuration lacks `{path}`"), place, path);
            }
        }
        let stated = |key: &str| {
            let (line, value) = controller.entry(key)?;
            Some((line, value.text().filter(|text| !text.is_empty())?))
        };
        if let Some((line, address)) = stated("address") {
            match host(address) {
                None => self.refuse(line, &field("address"), "must be `host:port`, without a scheme or a path"),
                Some(host) if !is_reachable(host) => {
                    let message = "nodes cannot reach a controller at this address: it is local to a machine, or a name that \
                                   only pods can resolve";
                    let fix = "write the address of a load balancer, or a name that the VPC's DNS knows";
                    let (severity, evidence) = (Severity::Warning, (self.place(line), field("address")));
                    self.findings.add_with_fix_as(severity, &verdicts::UD31, message, fix, evidence);
                }
                Some(_) => {}
            }
        }
        if let Some((line, authority)) = stated("certificateAuthority")
            && !is_pem(authority.as_bytes())
        {
            let is_encoded = base64(authority.trim().as_bytes()).is_some_and(|bytes| is_pem(&bytes));
            let wrong = if is_encoded {
                "must be the PEM text itself, not base64 of it"
            } else {
                "must be a certificate in PEM, from `-----BEGIN CERTIFICATE-----` to `-----END CERTIFICATE-----`"
            };
            self.refuse(line, &field("certificateAuthority"), wrong);
        }
    }

    fn place(&self, line: usize) -> Place {
        self.source.at(line.max(1))
    }

    fn refuse(&mut self, line: usize, path: &str, wrong: &str) {
        let place = self.place(line);
        self.findings.add(&verdicts::UD31, format!("field `{path}` {wrong}"), place, path);
    }
}

/// Returns the host of `host:port`.
fn host(address: &str) -> Option<&str> {
    let (host, port) = address.rsplit_once(':')?;
    port.parse::<u16>().ok().filter(|port| *port > 0)?;
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().ok().map(|_| inner);
    }
    let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
    (!host.is_empty() && host.chars().all(is_name)).then_some(host)
}

/// Returns true if a node can reach the host: a node uses the VPC's DNS resolver, which does not know cluster Services.
fn is_reachable(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(it)) => !it.is_loopback() && !it.is_unspecified() && !it.is_link_local(),
        Ok(IpAddr::V6(it)) => !it.is_loopback() && !it.is_unspecified(),
        Err(_) => {
            let host = host.trim_end_matches('.').to_ascii_lowercase();
            host != "localhost" && !host.ends_with(".svc") && !host.ends_with(".cluster.local")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in
            ["muster.example.com:8443", "10.0.0.1:443", "[fd00::1]:443", "nlb-1.elb.eu-west-1.amazonaws.com:443"]
        {
            assert!(host(good).is_some_and(is_reachable), "{good}");
        }
        for bad in ["https://muster:8443", "muster", "muster:0", "muster:99999", ":443", "fd00::1:443:x", "a b:1"] {
            assert_eq!(host(bad), None, "{bad}");
        }
        for lost in ["127.0.0.1:443", "localhost:443", "muster.kube-system.svc:443", "[::1]:443", "169.254.1.1:80"] {
            assert!(host(lost).is_some_and(|host| !is_reachable(host)), "{lost}");
        }
    }
}
