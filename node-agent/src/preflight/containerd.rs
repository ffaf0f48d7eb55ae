//! Checks of containerd's configuration on the machine.

use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::place::Source;
use muster_bootstrap::verdicts;

use super::Facts;

const CONFIG: &str = "/etc/containerd/config.toml";
const CONFIG_ON_WINDOWS: &str = r"C:\Program Files\containerd\config.toml";

/// State of the sandbox (pause) image in containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// The image is present.
    Present,
    /// The image is absent.
    Absent,
}

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(text) = &facts.machine.containerd_config {
        let is_windows = facts.family.is_some_and(muster_bootstrap::Family::is_windows);
        let place = |line| Source::whole(if is_windows { CONFIG_ON_WINDOWS } else { CONFIG }).at(line);
        match text.parse::<toml::Table>() {
            Err(error) => {
                let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
                let stands = text.lines().nth(line - 1).unwrap_or_default().trim();
                let message = format!("containerd's configuration is not TOML: {}", error.message());
                found.push(Finding::new(&verdicts::CR01, &message, Some((place(line), stands))));
            }
            Ok(config) => {
                let version = config.get("version").and_then(toml::Value::as_integer).unwrap_or(1);
                let plugins = config.get("plugins").and_then(toml::Value::as_table);
                let old = plugins.into_iter().flat_map(|it| it.keys()).find(|key| !key.starts_with("io.containerd."));
                if let Some(name) = old.filter(|_| version >= 2) {
                    let message = format!("plugin `{name}` is named as in version 1");
                    found.push(Finding::new(&verdicts::CR01, &message, Some((place(1), name))));
                }
            }
        }
    }
    if let Some(config) = facts.machine.containerd_config.as_ref().and_then(|text| text.parse().ok()) {
        found.extend(handler(&config));
        found.extend(sandbox(&config, facts));
    }
    let is_old = facts.machine.containerd_version.as_ref().is_some_and(|it| it.starts_with("1."));
    if let Some(version) = facts.flags.version.filter(|it| is_old && it.0 >= 36) {
        let text = facts.machine.containerd_version.clone().unwrap_or_default();
        let message = format!("containerd {text} with a kubelet of {version}");
        found.push(Finding::new(
            &verdicts::CR13,
            &message,
            Some((Source::whole("containerd --version").anywhere(), &text)),
        ));
    }
    found
}

/// Returns the configuration of a plugin. Configuration version 3 has two CRI plugins, version 2 has one.
fn plugin<'c>(config: &'c toml::Table, name: &str) -> Option<&'c toml::Table> {
    config.get("plugins")?.get(name)?.as_table()
}

/// Checks that the default runtime is configured.
fn handler(config: &toml::Table) -> Option<Finding> {
    let cri = plugin(config, "io.containerd.cri.v1.runtime").or_else(|| plugin(config, "io.containerd.grpc.v1.cri"))?;
    let containerd = cri.get("containerd")?;
    let name = containerd.get("default_runtime_name")?.as_str()?;
    let runtimes = containerd.get("runtimes").and_then(toml::Value::as_table);
    // `runc` needs no configuration.
    if name == "runc" || runtimes.is_some_and(|all| all.contains_key(name)) {
        return None;
    }
    let message = format!("containerd's default runtime `{name}` is not configured");
    let place = Source::whole(CONFIG).anywhere();
    Some(Finding::new(&verdicts::CR08, &message, Some((place, &format!("default_runtime_name = \"{name}\"")))))
}

/// Returns the sandbox image of the configuration.
#[must_use]
pub fn sandbox_image(config: &toml::Table) -> Option<&str> {
    let new = plugin(config, "io.containerd.cri.v1.images").and_then(|it| it.get("pinned_images")?.get("sandbox"));
    new.or_else(|| plugin(config, "io.containerd.grpc.v1.cri")?.get("sandbox_image"))?.as_str()
}

/// Checks that the sandbox image is present when the kubelet is about to start (containerd's unit imports it), or comes
/// from a registry that the node can pull from.
fn sandbox(config: &toml::Table, facts: &Facts) -> Option<Finding> {
    let image = sandbox_image(config).filter(|_| facts.sandbox == Some(Sandbox::Absent) && facts.is_bootstrapped)?;
    let place = || Source::whole("containerd, images").anywhere();
    if image.starts_with("localhost/") {
        let message = format!("image `{image}` is not there, and no registry has it");
        return Some(Finding::new(&verdicts::CR05, &message, Some((place(), image))));
    }
    let of_registry = image.split_once(".dkr.ecr.").and_then(|(_, rest)| rest.split('.').next())?;
    let own = facts.metadata.instance().map(|it| it.region.as_str()).filter(|own| *own != of_registry)?;
    let message = format!("the image of pod sandboxes comes from {of_registry}, and the node is in {own}");
    let finding = Finding::new(&verdicts::CR04, &message, Some((place(), image)));
    Some(finding.with_severity(Severity::Warning))
}
