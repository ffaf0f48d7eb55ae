//! Windows: a PowerShell script that calls Start-EKSBootstrap.ps1.

use crate::facts::{Argument, Facts, Stated};
use crate::finding::{Findings, Severity};
use crate::likeness;
use crate::place::{Source, line_of, line_text};
use crate::userdata::{PartKind, UserData};
use crate::verdicts;
use crate::words::powershell::{PowerShellWord, split_command_line, statements};

/// The parameters of Start-EKSBootstrap.ps1; those that take a value.
/// Source: awslabs/amazon-eks-ami, Windows bootstrap script.
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
/// Parameters that every PowerShell function has.
const COMMON: [&str; 6] = ["Verbose", "Debug", "ErrorAction", "WarningAction", "InformationAction", "OutVariable"];

/// Reads the script.
pub(crate) fn read(user_data: &UserData, facts: &mut Facts, findings: &mut Findings) {
    let text = user_data.text();
    let source = Source::whole(user_data.anywhere().source);
    let lower = text.to_ascii_lowercase();
    let Some(opening) = lower.find("<powershell>") else {
        let message = "the user data has no `<powershell>`";
        let has_script = user_data.of_kind(PartKind::PowerShell).next().is_some();
        if !has_script {
            findings.add(&verdicts::WN09, message, source.at(1), line_text(text, 1));
        }
        return;
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
        let message = "a second `<powershell>` stands inside the first or after it";
        findings.add(&verdicts::WN11, message, source.at(line), line_text(text, line));
    }
    let source = Source { first_line: line_of(text, start), ..source };
    let statements = statements(script);
    let Some(call) = statements.iter().find(|words| is_call(words)) else {
        let message = "the script does not call Start-EKSBootstrap.ps1";
        if findings.has(&verdicts::WN11) {
            return;
        }
        // What another script does cannot be seen here.
        return match statements.iter().find(|words| runs_something_else(words)).and_then(|words| words.first()) {
            Some(word) => {
                let message = format!("{message}, unless something that it runs does");
                findings.add_as(Severity::Warning, &verdicts::WN12, message, source.at(word.line), &word.text);
            }
            None => findings.add(&verdicts::WN12, message, source.anywhere(), ""),
        };
    };
    facts.configures_kubelet = true;
    read_call(call, &source, facts, findings);
}

/// Whether a statement runs the script: by its name, or by a variable that holds it.
fn is_call(words: &[PowerShellWord]) -> bool {
    let is_script = |word: &PowerShellWord| {
        let text = word.text.to_ascii_lowercase();
        text.ends_with("start-eksbootstrap.ps1") || text.contains("eksbootstrapscriptfile")
    };
    let is_assigned = words.iter().any(|word| word.text == "=" && !word.is_quoted);
    !is_assigned && words.iter().take(2).any(is_script)
}

/// Whether a statement runs what the document does not show: another script, or what is known on the node only.
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

fn read_call(call: &[PowerShellWord], source: &Source, facts: &mut Facts, findings: &mut Findings) {
    let mut words =
        call.iter().skip(if call.first().is_some_and(|word| word.text == "&" || word.text == ".") { 2 } else { 1 });
    while let Some(word) = words.next() {
        let Some(name) = word.text.strip_prefix('-').filter(|_| !word.is_quoted) else { continue };
        let name = name.trim_end_matches(':');
        let place = source.at(word.line);
        let mut matching = PARAMETERS.iter().filter(|parameter| begins(parameter, name));
        // PowerShell takes any beginning of a name that is clear.
        let parameter =
            match (PARAMETERS.iter().find(|it| it.eq_ignore_ascii_case(name)), matching.next(), matching.next()) {
                (Some(exact), ..) => *exact,
                (None, Some(only), None) => *only,
                _ => {
                    if COMMON.iter().any(|common| common.eq_ignore_ascii_case(name)) {
                        words.next();
                        continue;
                    }
                    let plain = name.replace('-', "");
                    let meant = likeness::nearest(&plain, PARAMETERS.iter().copied());
                    let meant = meant.map(|meant| format!("; did you mean `-{meant}`?")).unwrap_or_default();
                    findings.add(
                        &verdicts::WN04,
                        format!("Start-EKSBootstrap.ps1 has no parameter `-{name}`{meant}"),
                        place,
                        &word.text,
                    );
                    if let Some(value) =
                        words.clone().next().filter(|next| next.is_quoted || !next.text.starts_with('-'))
                    {
                        facts.lose(&value.text, &source.at(value.line));
                        words.next();
                    }
                    continue;
                }
            };
        let Some(value) = words.next() else { break };
        let stated = || (!value.is_open).then(|| Stated { text: value.text.clone(), place: source.at(value.line) });
        match parameter {
            "EKSClusterName" => facts.cluster_name = stated(),
            "APIServerEndpoint" => facts.endpoint = stated(),
            "Base64ClusterCA" => facts.certificate_authority = stated(),
            "ServiceCIDR" => facts.service_cidr = stated(),
            "KubeletExtraArgs" => {
                let arguments = split_command_line(&value.text).into_iter().map(|word| Argument {
                    is_open: value.is_open && word.text.contains('$'),
                    text: word.text,
                    place: source.at(value.line),
                });
                facts.arguments.extend(arguments);
            }
            _ => {}
        }
    }
    let has = |name: &str| call.iter().any(|word| !word.is_quoted && is_parameter(name, &word.text));
    if !has("APIServerEndpoint") || !has("Base64ClusterCA") {
        let line = call.first().map_or(1, |word| word.line);
        let message = "the script has to ask EKS for the cluster's endpoint and certificate authority";
        findings.add_as(Severity::Warning, &verdicts::WN08, message, source.at(line), "Start-EKSBootstrap.ps1");
    }
    if facts.cluster_name.is_none()
        && !call.iter().any(|word| begins("EKSClusterName", word.text.trim_start_matches('-')))
    {
        let line = call.first().map_or(1, |word| word.line);
        let fix = "add `-EKSClusterName` with the name of the cluster";
        findings.add_with_fix(
            &verdicts::UD07,
            "`-EKSClusterName` is missing",
            fix,
            source.at(line),
            "Start-EKSBootstrap.ps1",
        );
    }
}

/// Whether a word is this parameter, shortened or not.
fn is_parameter(parameter: &str, word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|name| begins(parameter, name.trim_end_matches(':')))
}

fn begins(parameter: &str, name: &str) -> bool {
    !name.is_empty() && parameter.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}
