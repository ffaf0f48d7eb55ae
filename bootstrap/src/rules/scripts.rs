//! Scripts of Linux images: whether they run, whether they start the bootstrap, and commands without effect.

use crate::family::Family;
use crate::finding::{Findings, Severity};
use crate::place::line_text;
use crate::script_commands::{bootstrap_call, commands_of};
use crate::userdata::{Part, PartKind, UserData};
use crate::verdicts;
use crate::words::reach::Stop;
use crate::words::shell::{Command, commands, reach};

#[cfg(test)]
mod tests;

/// Judges the scripts. `is_all` is true if only the document can start the bootstrap.
pub(crate) fn check(user_data: &UserData, family: Family, is_all: bool, findings: &mut Findings) {
    for part in &user_data.parts {
        // A part that calls bootstrap.sh is meant to be a script, whatever its first line is.
        let is_script = part.kind == PartKind::Shell
            || (family == Family::Al2 && part.kind == PartKind::Other && calls_bootstrap(&commands(&part.text)));
        if is_script {
            interpreter(part, family, findings);
        }
        if family == Family::Al2023 {
            in_vain(part, findings);
        }
    }
    if family == Family::Al2 && is_all {
        bootstrap(user_data, findings);
    }
}

fn calls_bootstrap(commands: &[Command]) -> bool {
    commands.iter().any(|it| bootstrap_call(it).is_some())
}

/// Checks for `#!`. The kernel requires it at the first byte, whatever kind of part cloud-init detects. Source:
/// execve(2); cloud-init, `subp` (`Exec format error. Missing #! in script?`).
fn interpreter(part: &Part, family: Family, findings: &mut Findings) {
    if part.text.starts_with("#!") || part.text.trim().is_empty() {
        return;
    }
    let line = part.text.lines().position(|line| !line.trim().is_empty()).unwrap_or_default() + 1;
    let message = if part.text.trim_start().starts_with("#!") {
        "there is text before `#!`, so the script cannot be executed"
    } else {
        "the script does not begin with `#!`, so it cannot be executed"
    };
    let starts_node = family == Family::Al2 && calls_bootstrap(&commands(&part.text));
    let severity = if starts_node { Severity::Error } else { Severity::Warning };
    findings.add_as(severity, &verdicts::UD34, message, part.source.at(line), line_text(&part.text, line));
}

/// Configuration files of AL2, and variables that its bootstrap.sh reads.
const OF_AL2: [&str; 3] =
    ["/etc/kubernetes/kubelet/kubelet-config.json", "/etc/eks/eni-max-pods.txt", "/30-kubelet-extra-args.conf"];
const VARIABLES: [&str; 3] = ["KUBELET_EXTRA_ARGS", "BOOTSTRAP_EXTRA_ARGS", "USE_MAX_PODS"];

/// Reports commands that have an effect on AL2 but not on AL2023.
fn in_vain(part: &Part, findings: &mut Findings) {
    for command in commands_of(part) {
        let Some(first) = command.words.first() else { continue };
        let place = || part.source.at(first.line);
        let shown = || command.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        if is_nodeadm_init(&command) {
            findings.add(&verdicts::UD11, "the script calls `nodeadm init`", place(), shown());
        }
        if first.text == "export"
            && let Some(name) = VARIABLES.into_iter().find(|name| {
                command.words.iter().any(|word| word.text.split_once('=').is_some_and(|(set, _)| set == *name))
            })
        {
            let message = format!("`{name}` is a variable of AL2's bootstrap.sh; on AL2023 nothing reads it");
            findings.add(&verdicts::UD35, message, place(), shown());
        }
        if let Some(path) = OF_AL2.into_iter().find(|path| command.words.iter().any(|it| it.text.ends_with(path))) {
            let message = format!("`{path}` is a file of AL2; on AL2023 nothing reads it");
            findings.add(&verdicts::UD35, message, place(), shown());
        }
    }
}

/// Returns true if a line that is no comment names bootstrap.sh.
fn is_mention(line: &str) -> bool {
    line.contains("bootstrap.sh") && !line.trim_start().starts_with('#')
}

/// Checks that some part of the document calls AL2's bootstrap.sh.
fn bootstrap(user_data: &UserData, findings: &mut Findings) {
    let mentions = |part: &Part| part.text.lines().any(is_mention);
    let scripts: Vec<&Part> = user_data.of_kind(PartKind::Shell).collect();
    let stopped: Vec<(&Part, Stop)> = scripts.iter().filter_map(|part| Some((*part, stop(part)?))).collect();
    let is_stopped = |part: &Part| stopped.iter().any(|(it, _)| it.number == part.number);
    let called = user_data.parts.iter().any(|part| calls_bootstrap(&commands_of(part)) && !is_stopped(part))
        || user_data.of_kind(PartKind::Other).any(|part| calls_bootstrap(&commands(&part.text)));
    let settings = || user_data.of_kind(PartKind::CloudInit);
    // A file that cloud-init writes may call it.
    if called || settings().any(mentions) {
        return;
    }
    if let Some((part, stop)) = stopped.first() {
        return stops(part, *stop, &scripts, findings);
    }
    let hidden = scripts.iter().find_map(|part| {
        let command = commands(&part.text).into_iter().find(runs_something_else)?;
        Some((part.source.at(command.words.first()?.line), command.words.first()?.text.clone()))
    });
    let include = settings().find(|part| part.text.trim_start().starts_with("#include"));
    let named = scripts.iter().find(|part| mentions(part));
    let (severity, place, text) = match (hidden, include.or(named.copied())) {
        (Some((place, text)), _) => (Severity::Warning, place, text),
        (None, Some(part)) => (Severity::Warning, part.source.at(1), line_text(&part.text, 1).to_owned()),
        (None, None) => (Severity::Error, user_data.anywhere(), String::new()),
    };
    let message = match severity {
        Severity::Warning => "the user data does not call bootstrap.sh, unless something that it runs does",
        _ => "the user data does not call bootstrap.sh, so the node never joins",
    };
    findings.add_as(severity, &verdicts::UD33, message, place, text);
}

/// Returns true if the interpreter of a script is one whose grammar is known.
fn is_of_shell(text: &str) -> bool {
    let Some(line) = text.lines().next().and_then(|line| line.strip_prefix("#!")) else { return false };
    let mut words = line.split_whitespace().map(base).filter(|word| *word != "env");
    words.next().is_some_and(|name| matches!(name, "bash" | "sh" | "dash"))
}

/// Returns the place at which the shell stops before it gets to the call of bootstrap.sh, or to what looks like one and
/// is behind a syntax error.
fn stop(part: &Part) -> Option<Stop> {
    if !is_of_shell(&part.text) {
        return None;
    }
    let stop = reach::stop(&part.text)?;
    let call = commands(&part.text).iter().find_map(|it| bootstrap_call(it).map(|(words, at)| words[at].line));
    let named = || part.text.lines().position(is_mention).map(|index| index + 1);
    let line = if stop.cause.is_fault() { call.or_else(named) } else { call };
    // What runs before may be a call in another form, or cut the rest out of the script and run that.
    let mut before = part.text.lines().take(stop.from.saturating_sub(1));
    let is_used = before.any(|line| is_mention(line) || line.contains("$0") || line.contains("BASH_SOURCE"));
    line.filter(|line| *line >= stop.from && !is_used).map(|_| stop)
}

/// Reports that the shell stops before the call.
fn stops(part: &Part, stop: Stop, scripts: &[&Part], findings: &mut Findings) {
    let may_call = |it: &Part| {
        let end = if it.number == part.number { stop.from } else { usize::MAX };
        commands(&it.text).iter().any(|command| {
            command.words.first().is_some_and(|word| word.line < end)
                && bootstrap_call(command).is_none()
                && runs_something_else(command)
        })
    };
    let cause = stop.cause;
    let (mut message, fix) = if cause.is_fault() {
        let message = format!("{cause}, so the shell never runs the call of bootstrap.sh");
        (message, "correct the script (`bash -n` finds syntax errors)".to_owned())
    } else {
        let fix = format!("remove `{}`, or let it depend on a condition", cause.token());
        (format!("{cause} before it calls bootstrap.sh"), fix)
    };
    let mut severity = Severity::Error;
    if scripts.iter().any(|it| may_call(it)) {
        message.push_str(", unless something that it runs does");
        severity = Severity::Warning;
    }
    findings.add_with_fix_as(severity, &verdicts::UD33, message, &fix, (part.source.at(stop.line), cause.token()));
}

/// Returns true if a command is `nodeadm init`.
pub(crate) fn is_nodeadm_init(command: &Command) -> bool {
    program(command) == Some("nodeadm") && command.words.iter().any(|word| word.text == "init")
}

/// Returns the name of the program, after wrappers such as `sudo`.
fn program(command: &Command) -> Option<&str> {
    const WRAPPERS: [&str; 6] = ["sudo", "exec", "env", "nohup", "time", "command"];
    let mut words = command.words.iter().map(|word| word.text.as_str());
    words.find(|text| !WRAPPERS.contains(text) && !text.starts_with('-') && !text.contains('=')).map(base)
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns true if a command runs something that the document does not show: another file, or a value that is known
/// only on the node.
fn runs_something_else(command: &Command) -> bool {
    const INTERPRETERS: [&str; 12] = [
        "bash",
        "sh",
        "eval",
        "source",
        ".",
        "python",
        "python3",
        "perl",
        "ansible-playbook",
        "chef-client",
        "puppet",
        "salt-call",
    ];
    /// Files that only set variables, and folders of programs.
    const KNOWN: [&str; 8] = [
        "/etc/os-release",
        "/etc/environment",
        "/etc/profile",
        "/usr/",
        "/bin/",
        "/sbin/",
        "/opt/aws/",
        "/etc/init.d/",
    ];
    let is_known = |text: &str| KNOWN.iter().any(|known| text.starts_with(known));
    let Some(name) = program(command) else { return false };
    let Some(word) = command.words.iter().find(|word| base(&word.text) == name) else { return false };
    if INTERPRETERS.contains(&name) {
        return !command
            .words
            .iter()
            .any(|word| word.text.starts_with('/') && is_known(&word.text) && word.text.contains("/etc/"));
    }
    (word.is_open && word.text.contains(['$', '`'])) || (word.text.contains('/') && !is_known(&word.text))
}
