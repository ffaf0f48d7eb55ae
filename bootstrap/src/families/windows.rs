//! Windows: a PowerShell script that calls Start-EKSBootstrap.ps1.

use crate::finding::{Findings, Severity};
use crate::likeness;
use crate::network::Network;
use crate::parsed::{Argument, ParsedBootstrap, Stated};
use crate::place::{Place, Source, line_of, line_text};
use crate::tree::{self, Tree};
use crate::userdata::{PartKind, UserData};
use crate::verdicts;
use crate::words::powershell::{PowerShellWord, reach, split_command_line, statements};
use crate::words::reach::Stop;

/// Parameters of Start-EKSBootstrap.ps1 that take a value. Source: awslabs/amazon-eks-ami, Windows bootstrap script.
const PARAMETERS: [&str; 10] = [
    "EKSClusterName",
    "KubeletExtraArgs",
    "KubeProxyExtraArgs",
    "Endpoint",
    "APIServerEndpoint",
    "Base64ClusterCA",
    "DNSClusterIP",
    "ServiceCIDR",
    "ExcludedSnatCIDRs",
    "ContainerRuntime",
];
/// Parameters that every PowerShell function has: those with a value here, switches in [`SWITCHES`]. Source:
/// about_CommonParameters of PowerShell.
const COMMON: [&str; 9] = [
    "ErrorAction",
    "WarningAction",
    "InformationAction",
    "ErrorVariable",
    "WarningVariable",
    "InformationVariable",
    "OutVariable",
    "OutBuffer",
    "PipelineVariable",
];
const SWITCHES: [&str; 2] = ["Verbose", "Debug"];

/// Reads the script.
pub(crate) fn read(user_data: &UserData, bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    let Some((script, source)) = script(user_data, findings) else { return };
    let statements = statements(&script);
    let call = statements.iter().find(|words| is_call(words));
    let line = call.and_then(|words| words.first()).map(|word| word.line);
    // Inner tags are no PowerShell.
    let stop = reach::stop(&script).filter(|stop| {
        !findings.has(&verdicts::WN11) && (stop.cause.is_fault() || line.is_some_and(|line| line >= stop.from))
    });
    if let Some(stop) = stop {
        stops(stop, &statements, &source, findings);
    }
    let Some(call) = call else {
        let message = "the script does not call Start-EKSBootstrap.ps1";
        if findings.has(&verdicts::WN11) || stop.is_some() {
            return;
        }
        // The content of another script is not available here.
        return match statements.iter().find(|words| runs_something_else(words)).and_then(|words| words.first()) {
            Some(word) => {
                let message = format!("{message}, unless something that it runs does");
                findings.add_as(Severity::Warning, &verdicts::WN12, message, source.at(word.line), &word.text);
            }
            None => findings.add(&verdicts::WN12, message, source.anywhere(), ""),
        };
    };
    bootstrap.configures_kubelet = true;
    read_call(call, &source, bootstrap, findings);
}

/// Reports that PowerShell stops before the call.
fn stops(stop: Stop, statements: &[Vec<PowerShellWord>], source: &Source, findings: &mut Findings) {
    let cause = stop.cause;
    let text = (source.at(stop.line), cause.token());
    if cause.is_fault() {
        let message = format!("{cause}, so PowerShell runs nothing of the script");
        let fix = "correct the script: PowerShell parses all of it before it runs any of it";
        return findings.add_with_fix_as(Severity::Error, &verdicts::WN12, message, fix, text);
    }
    let runs_before = |words: &Vec<PowerShellWord>| {
        words.first().is_some_and(|word| word.line < stop.from) && runs_something_else(words)
    };
    let mut message = format!("{cause} before it calls Start-EKSBootstrap.ps1");
    let mut severity = Severity::Error;
    if statements.iter().any(runs_before) {
        message.push_str(", unless something that it runs does");
        severity = Severity::Warning;
    }
    let fix = format!("remove `{}`, or let it depend on a condition", cause.token());
    findings.add_with_fix_as(severity, &verdicts::WN12, message, &fix, text);
}

/// Returns the script that EC2Launch runs.
fn script(user_data: &UserData, findings: &mut Findings) -> Option<(String, Source)> {
    let text = user_data.text();
    let source = Source::whole(user_data.anywhere().source);
    let lower = text.to_ascii_lowercase();
    let Some(opening) = lower.find("<powershell>") else {
        if let Some((script, line)) = script_of_tasks(text) {
            return Some((script, Source { first_line: line, ..source }));
        }
        let message = "the user data has no `<powershell>`";
        let has_script = user_data.of_kind(PartKind::PowerShell).next().is_some();
        if !has_script {
            findings.add(&verdicts::WN09, message, source.at(1), line_text(text, 1));
        }
        return None;
    };
    let start = opening + "<powershell>".len();
    let closing = lower.get(start..).and_then(|rest| rest.find("</powershell>")).map(|at| start + at);
    if closing.is_none() {
        let line = line_of(text, opening);
        findings.add(&verdicts::WN09, "`<powershell>` is never closed", source.at(line), line_text(text, line));
    }
    let script = text.get(start..closing.unwrap_or(text.len())).unwrap_or_default();
    if let Some(second) = lower.get(start..).and_then(|rest| rest.find("<powershell>")).map(|at| start + at) {
        let line = line_of(text, second);
        let message = "there is a second `<powershell>` inside or after the first one";
        findings.add(&verdicts::WN11, message, source.at(line), line_text(text, line));
    }
    Some((script.to_owned(), Source { first_line: line_of(text, start), ..source }))
}

/// Returns the script of an EC2Launch v2 task document (`tasks` with `executeScript`), and the line at which it begins.
/// Of several scripts, the one that calls the bootstrap is returned. Source: EC2 User Guide, EC2Launch v2 task
/// definitions.
fn script_of_tasks(text: &str) -> Option<(String, usize)> {
    let tree = tree::yaml(text).ok()?;
    let is = |tree: &Tree, key: &str, value: &str| {
        tree.get(key).and_then(Tree::text).is_some_and(|text| text.eq_ignore_ascii_case(value))
    };
    let tasks = tree.get("tasks")?.items().iter().filter(|task| is(task, "task", "executeScript"));
    let inputs = tasks.filter_map(|task| task.get("inputs")).flat_map(Tree::items);
    let contents = inputs.filter(|input| is(input, "type", "powershell")).filter_map(|input| input.get("content"));
    let scripts: Vec<(&str, usize)> = contents.filter_map(|it| Some((it.text()?, it.line))).collect();
    let is_bootstrap = |script: &str| statements(script).iter().any(|words| is_call(words));
    let (script, line) = scripts.iter().find(|(script, _)| is_bootstrap(script)).or_else(|| scripts.first())?;
    // A block scalar begins in the line after its indicator.
    let first = script.lines().next().unwrap_or_default().trim();
    let lines = text.lines().enumerate().skip(line.saturating_sub(1));
    let begins = lines.filter(|(_, text)| text.trim_end().ends_with(first)).map(|(index, _)| index + 1).next();
    Some(((*script).to_owned(), begins.unwrap_or(*line)))
}

/// Returns true if a statement runs the script, by its name or by a variable that holds it.
fn is_call(words: &[PowerShellWord]) -> bool {
    let is_script = |word: &PowerShellWord| {
        let text = word.text.to_ascii_lowercase();
        text.ends_with("start-eksbootstrap.ps1") || text.contains("eksbootstrapscriptfile")
    };
    let is_assigned = words.iter().any(|word| word.text == "=" && !word.is_quoted);
    !is_assigned && words.iter().take(2).any(is_script)
}

/// Returns true if a statement runs something that the document does not show: another script, or a value that is known
/// only on the node.
fn runs_something_else(words: &[PowerShellWord]) -> bool {
    const RUNNERS: [&str; 7] =
        ["invoke-expression", "iex", "invoke-command", "start-process", "powershell", "pwsh", "cmd"];
    let Some(first) = words.first() else { return false };
    let name = first.text.to_ascii_lowercase();
    let name = name.trim_end_matches(".exe");
    matches!(name, "&" | ".")
        || RUNNERS.contains(&name)
        || words.iter().any(|word| {
            let text = word.text.to_ascii_lowercase();
            text == "iex" || text == "invoke-expression" || (text.ends_with(".ps1") && !text.contains("://"))
        })
}

/// Reads a call, with the parameter binding of PowerShell.
fn read_call(call: &[PowerShellWord], source: &Source, bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    let mut words =
        call.iter().skip(if call.first().is_some_and(|word| word.text == "&" || word.text == ".") { 2 } else { 1 });
    let mut given: Vec<&str> = Vec::new();
    let mut positional = Vec::new();
    // The value of `@name` is not always known.
    let mut is_open = false;
    let mut dns = None;
    while let Some(word) = words.next() {
        let place = source.at(word.line);
        let Some(name) = word.text.strip_prefix('-').filter(|_| !word.is_quoted) else {
            if word.is_open && !word.is_quoted && word.text.starts_with('@') || word.text == "$(…)" && !word.is_quoted
            {
                is_open = true;
                bootstrap.arguments.push(Argument { text: "$(…)".to_owned(), place, is_open: true });
            } else if is_redirection(word) {
                // The file may be a word of its own.
                if word.text.ends_with('>') {
                    words.next();
                }
            } else if !word.is_attached {
                positional.push(word);
            }
            continue;
        };
        let name = name.trim_end_matches(':');
        let Some(parameter) = parameter(name) else {
            if SWITCHES.iter().any(|switch| switch.eq_ignore_ascii_case(name)) {
                continue;
            }
            if COMMON.iter().any(|common| common.eq_ignore_ascii_case(name)) {
                words.next();
                continue;
            }
            findings.add(&verdicts::WN04, unknown(name), place, &word.text);
            if let Some(value) = words.clone().next().filter(|next| next.is_quoted || !next.text.starts_with('-')) {
                bootstrap.lose(&value.text, &source.at(value.line));
                words.next();
            }
            continue;
        };
        let Some(value) = words.next() else { break };
        if given.contains(&parameter) {
            let message = format!("`-{parameter}` is given twice, which PowerShell refuses");
            let fix = format!("give `-{parameter}` once, with all that it should have");
            findings.add_with_fix(&verdicts::WN04, message, &fix, place, &word.text);
        }
        given.push(parameter);
        let stated = || (!value.is_open).then(|| Stated { text: value.text.clone(), place: source.at(value.line) });
        match parameter {
            "EKSClusterName" => bootstrap.cluster_name = stated(),
            "APIServerEndpoint" => bootstrap.endpoint = stated(),
            "Base64ClusterCA" => bootstrap.certificate_authority = stated(),
            "ServiceCIDR" => bootstrap.service_cidr = stated(),
            "DNSClusterIP" => dns = stated(),
            "KubeletExtraArgs" => {
                let cut = words.clone().next().filter(|next| next.is_attached);
                extra_args(value, cut, source, bootstrap, findings);
            }
            _ => {}
        }
    }
    // The cluster name is the first parameter, so a value without a name is bound to it.
    if let Some(name) = positional.first().filter(|_| !given.contains(&"EKSClusterName")) {
        given.push("EKSClusterName");
        bootstrap.cluster_name =
            (!name.is_open).then(|| Stated { text: name.text.clone(), place: source.at(name.line) });
    }
    let line = call.first().map_or(1, |word| word.line);
    if !is_open {
        missing(&given, &source.at(line), findings);
    }
    if let Some(dns) = dns {
        cluster_dns(&dns, bootstrap, findings);
    }
}

/// Returns the message about a parameter that the script does not have.
fn unknown(name: &str) -> String {
    let plain = name.replace('-', "");
    let meant = likeness::nearest(&plain, PARAMETERS.iter().copied());
    let meant = meant.map(|meant| format!("; did you mean `-{meant}`?")).unwrap_or_default();
    format!("Start-EKSBootstrap.ps1 has no parameter `-{name}`{meant}")
}

/// Reads the value of `-KubeletExtraArgs`. `cut` is a word attached to it, which PowerShell cuts off.
fn extra_args(
    value: &PowerShellWord,
    cut: Option<&PowerShellWord>,
    source: &Source,
    bootstrap: &mut ParsedBootstrap,
    findings: &mut Findings,
) {
    let arguments = split_command_line(&value.text).into_iter().map(|word| Argument {
        is_open: value.is_open && word.text.contains('$'),
        text: word.text,
        place: source.at(value.line),
    });
    bootstrap.arguments.extend(arguments);
    if let Some(cut) = cut {
        bootstrap.lose(&cut.text, &source.at(cut.line));
        let message = "PowerShell ends the value of `-KubeletExtraArgs` at its second quote";
        let fix = "put the whole value between single quotes, with double quotes inside";
        findings.add_with_fix(&verdicts::KA34, message, fix, source.at(cut.line), &cut.text);
    }
}

/// Reports parameters that the call does not give.
fn missing(given: &[&str], place: &Place, findings: &mut Findings) {
    if !given.contains(&"APIServerEndpoint") || !given.contains(&"Base64ClusterCA") {
        let message = "the script asks EKS for the cluster's endpoint and certificate authority";
        findings.add_as(Severity::Info, &verdicts::WN08, message, place.clone(), "Start-EKSBootstrap.ps1");
    }
    if !given.contains(&"EKSClusterName") {
        let fix = "add `-EKSClusterName` with the name of the cluster";
        let message = "`-EKSClusterName` is missing";
        findings.add_with_fix(&verdicts::UD07, message, fix, place.clone(), "Start-EKSBootstrap.ps1");
    }
}

/// Returns the parameter of this name. PowerShell accepts any unambiguous prefix.
fn parameter(name: &str) -> Option<&'static str> {
    let mut matching = PARAMETERS.iter().filter(|parameter| begins(parameter, name));
    match (PARAMETERS.iter().find(|it| it.eq_ignore_ascii_case(name)), matching.next(), matching.next()) {
        (Some(exact), ..) => Some(exact),
        (None, Some(only), None) => Some(only),
        _ => None,
    }
}

/// Returns true for a redirection: `3>&1`, `*>`, or `>` with its file.
fn is_redirection(word: &PowerShellWord) -> bool {
    !word.is_quoted && word.text.trim_start_matches(|char: char| char.is_ascii_digit() || char == '*').starts_with('>')
}

fn cluster_dns(dns: &Stated, bootstrap: &ParsedBootstrap, findings: &mut Findings) {
    let Some(network) = bootstrap.service_cidr.as_ref().and_then(|cidr| Network::read(&cidr.text)) else { return };
    let message = match dns.text.parse() {
        Ok(address) if network.contains(address) => return,
        // NodeLocal DNSCache listens on a link-local address.
        Ok(std::net::IpAddr::V4(address)) if address.is_link_local() => return,
        Ok(_) => format!("cluster DNS `{}` is not in the service network", dns.text),
        Err(_) => format!("`{}` is not an address", dns.text),
    };
    let fix = "give `-DNSClusterIP` the ClusterIP of kube-dns";
    findings.add_with_fix(&verdicts::KA29, message, fix, dns.place.clone(), &dns.text);
}

fn begins(parameter: &str, name: &str) -> bool {
    !name.is_empty() && parameter.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}
