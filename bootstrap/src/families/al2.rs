//! AL2: a shell script that calls bootstrap.sh.

use crate::facts::{Argument, Facts, Stated};
use crate::families::cloud_init::commands_of;
use crate::finding::Findings;
use crate::place::{Source, line_text};
use crate::userdata::{Part, UserData};
use crate::verdicts;
use crate::words::letters;
use crate::words::shell::{Command, ShellWord};
use crate::words::systemd::{last, split_value};
use crate::words::unit::{directives, environment_directive, unresolved};

/// The options of bootstrap.sh that take a value, which is the next word.
/// Source: bootstrap.sh of the last AL2 release of awslabs/amazon-eks-ami.
const OPTIONS: [&str; 18] = [
    "--apiserver-endpoint",
    "--aws-api-retry-attempts",
    "--b64-cluster-ca",
    "--cluster-id",
    "--container-runtime",
    "--containerd-config-file",
    "--dns-cluster-ip",
    "--docker-config-json",
    "--enable-docker-bridge",
    "--enable-local-outpost",
    "--ip-family",
    "--kubelet-extra-args",
    "--local-disks",
    "--mount-bpf-fs",
    "--pause-container-account",
    "--pause-container-version",
    "--service-ipv4-cidr",
    "--service-ipv6-cidr",
];
const USE_MAX_PODS: &str = "--use-max-pods";

/// Files that bootstrap.sh writes or is.
const RACED: [&str; 2] = ["/etc/containerd/config.toml", "/etc/eks/bootstrap.sh"];

/// Reads the scripts of a document.
pub(crate) fn read(user_data: &UserData, facts: &mut Facts, findings: &mut Findings) {
    for part in &user_data.parts {
        let commands = commands_of(part);
        for command in &commands {
            patches(command, part, findings);
        }
        let found = commands.iter().enumerate().find_map(|(index, it)| Some((index, bootstrap_call(it)?)));
        if let Some((index, (words, at))) = found {
            call(&words[at + 1..], &words[at], part, facts, findings);
            cut_off(commands.get(index + 1..).unwrap_or_default(), part, facts, findings);
        }
    }
}

/// The words of a call of bootstrap.sh, and which of them is the script.
pub(crate) fn bootstrap_call(command: &Command) -> Option<(&[ShellWord], usize)> {
    const WRAPPERS: [&str; 8] = ["sudo", "bash", "sh", "exec", "source", ".", "env", "nohup"];
    for (index, word) in command.words.iter().enumerate() {
        if word.text.ends_with("/bootstrap.sh") && !word.text.contains("://") {
            return Some((&command.words, index));
        }
        let is_option = word.text.starts_with('-') || word.text.contains('=');
        if !is_option && !WRAPPERS.iter().any(|wrapper| word.text.rsplit('/').next() == Some(wrapper)) {
            return None;
        }
    }
    None
}

fn patches(command: &Command, part: &Part, findings: &mut Findings) {
    let Some(program) = command.words.first() else { return };
    let edits = matches!(program.text.rsplit('/').next(), Some("sed" | "perl"))
        && command.words.iter().any(|word| word.text.starts_with("-i") || word.text == "--in-place");
    let Some(target) = command.words.iter().find(|word| RACED.contains(&word.text.as_str())).filter(|_| edits) else {
        return;
    };
    let message = format!("`{}` is edited in place", target.text);
    findings.add(&verdicts::UD22, message, part.source.at(target.line), shown(&command.words));
}

fn shown(words: &[ShellWord]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Options that a line end has cut off from the call before them: a backslash that is missing, or has a blank after it.
fn cut_off(after: &[Command], part: &Part, facts: &mut Facts, findings: &mut Findings) {
    let is_option = |command: &&Command| command.words.first().is_some_and(|word| word.text.starts_with("--"));
    for command in after.iter().take_while(is_option) {
        let Some(first) = command.words.first() else { continue };
        let place = part.source.at(first.line);
        for word in &command.words {
            facts.lose(word.text.strip_prefix("--kubelet-extra-args=").unwrap_or(&word.text), &place);
        }
        let name = short(&first.text);
        let message = format!("`{name}` does not reach bootstrap.sh: the line before does not continue on this one");
        let fix = "end every line of the call but the last with a backslash, and nothing after it";
        findings.add_with_fix(&verdicts::UD17, message, fix, place, line_text(&part.text, first.line));
    }
}

/// Reads a call as the script's own loop does: a known option takes the next word, everything else is positional, and
/// of the positional words only the first is looked at.
fn call(words: &[ShellWord], script: &ShellWord, part: &Part, facts: &mut Facts, findings: &mut Findings) {
    facts.configures_kubelet = true;
    facts.needs_pod_table = true;
    let mut positional = Vec::new();
    let mut extra = None;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if OPTIONS.contains(&word.text.as_str()) || word.text == USE_MAX_PODS {
            let Some(value) = rest.next() else { break };
            let stated = || Some(Stated { text: value.text.clone(), place: part.source.at(value.line) });
            match word.text.as_str() {
                "--apiserver-endpoint" => facts.endpoint = stated(),
                "--b64-cluster-ca" => facts.certificate_authority = stated(),
                "--service-ipv4-cidr" | "--service-ipv6-cidr" => facts.service_cidr = stated(),
                "--kubelet-extra-args" => extra = Some(value),
                USE_MAX_PODS => facts.needs_pod_table = value.text != "false",
                _ => {}
            }
            // A value that the shell will fill in cannot be judged.
            for stated in [&mut facts.endpoint, &mut facts.certificate_authority, &mut facts.service_cidr] {
                stated.take_if(|stated| stated.text.contains(['$', '`']));
            }
        } else {
            positional.push(word);
        }
    }
    // What only the shell knows may hold options: an array, or a text that it splits.
    let is_all = |text: &str| ["[@]}", "[*]}", "$@", "$*"].iter().any(|it| text.ends_with(it));
    for (index, word) in positional.iter().enumerate().filter(|(_, word)| word.is_open) {
        if is_all(&word.text) || (index > 0 && word.text.starts_with(['$', '`'])) {
            let place = part.source.at(word.line);
            facts.arguments.push(Argument { text: word.text.clone(), place, is_open: true });
        }
    }
    for (index, word) in positional.iter().enumerate().filter(|(_, word)| word.text.starts_with('-')) {
        let name = word.text.split('=').next().unwrap_or_default();
        let value = word.text.split_once('=').map(|(_, value)| value).filter(|_| OPTIONS.contains(&name));
        facts.lose(value.unwrap_or(&word.text), &part.source.at(word.line));
        let place = part.source.at(word.line);
        if index == 0 {
            let message = format!("`{}` is taken for the name of the cluster", short(&word.text));
            findings.add(&verdicts::UD18, message, place.clone(), &word.text);
        }
        if value.is_some() || index > 0 {
            let message = match value {
                Some(_) => format!("bootstrap.sh drops `{name}=…`: the value must be a word of its own"),
                None => format!("bootstrap.sh drops `{}`: it is outside of the quotes of an option", short(&word.text)),
            };
            findings.add(&verdicts::UD17, message, place, &word.text);
        }
    }
    match positional.first() {
        None => {
            let place = part.source.at(script.line);
            findings.add(&verdicts::UD19, "bootstrap.sh is called without the name of a cluster", place, &script.text);
        }
        Some(name) if !name.text.starts_with('-') && !name.is_open => {
            facts.cluster_name = Some(Stated { text: name.text.clone(), place: part.source.at(name.line) });
        }
        Some(_) => {}
    }
    if let Some(extra) = extra {
        extra_args(extra, &part.source, facts, findings);
    }
}

fn short(text: &str) -> String {
    text.split('=').next().unwrap_or_default().chars().take(60).collect()
}

/// bootstrap.sh writes the arguments to a drop-in, between single quotes; systemd reads it.
fn extra_args(extra: &ShellWord, source: &Source, facts: &mut Facts, findings: &mut Findings) {
    const VARIABLE: &str = "KUBELET_EXTRA_ARGS";
    let place = source.at(extra.line);
    let unit = format!("[Service]\nEnvironment='{VARIABLE}={}'\n", extra.text);
    let mut value = Vec::new();
    for directive in directives(&unit, "Service", "Environment") {
        if let Some(variable) = last(&environment_directive(&directive, &unresolved), VARIABLE) {
            value.clone_from(&variable.value);
        }
    }
    let reached = split_value(&value);
    let meant = split_value(&letters(&extra.text));
    if reached.len() < meant.len() {
        for word in meant.iter().skip(reached.len()) {
            facts.lose(&word.text, &place);
        }
        let lost = meant.get(reached.len()).map(|word| short(&word.text)).unwrap_or_default();
        if extra.text.trim().contains('\n') {
            let message = format!("a line end in `--kubelet-extra-args` loses `{lost}`");
            findings.add(&verdicts::KA05, message, place.clone(), &extra.text);
        } else {
            let message = format!("quotes in `--kubelet-extra-args` lose `{lost}`");
            findings.add(&verdicts::KA34, message, place.clone(), &extra.text);
        }
    }
    facts.arguments.extend(reached.into_iter().map(|word| Argument {
        is_open: extra.is_open && word.text.contains(['$', '`']),
        text: word.text,
        place: place.clone(),
    }));
}
