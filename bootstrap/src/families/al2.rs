//! AL2: a shell script that calls bootstrap.sh.

use std::collections::BTreeMap;

use crate::finding::Findings;
use crate::network::Network;
use crate::parsed::{Argument, ParsedBootstrap, Stated};
use crate::place::{Source, line_text};
use crate::rules::config::dns_fault;
use crate::script_commands::{bootstrap_call, commands_of};
use crate::userdata::{Part, UserData};
use crate::verdicts;
use crate::words::letters;
use crate::words::shell::{Command, ShellWord};
use crate::words::systemd::{last, split_value};
use crate::words::unit::{directives, environment_directive};

/// Options of bootstrap.sh whose value is the next word. Source: bootstrap.sh of the last AL2 release of
/// awslabs/amazon-eks-ami.
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

/// The containerd configuration, which bootstrap.sh writes, and bootstrap.sh itself.
const RACED: [&str; 2] = ["/etc/containerd/config.toml", "/etc/eks/bootstrap.sh"];

/// Reads the scripts of a document.
pub(crate) fn read(user_data: &UserData, bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    for part in &user_data.parts {
        let commands = commands_of(part);
        for command in &commands {
            patches(command, part, findings);
        }
        let found = commands.iter().enumerate().find_map(|(index, it)| Some((index, bootstrap_call(it)?)));
        if let Some((index, (words, at))) = found {
            call(&words[at + 1..], &words[at], part, bootstrap, findings);
            cut_off(commands.get(index + 1..).unwrap_or_default(), part, bootstrap, findings);
        }
    }
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

/// Reports options that a line end separates from the call: its backslash is missing, or a blank follows it.
fn cut_off(after: &[Command], part: &Part, bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    let is_option = |command: &&Command| command.words.first().is_some_and(|word| word.text.starts_with("--"));
    for command in after.iter().take_while(is_option) {
        let Some(first) = command.words.first() else { continue };
        let place = part.source.at(first.line);
        for word in &command.words {
            bootstrap.lose(word.text.strip_prefix("--kubelet-extra-args=").unwrap_or(&word.text), &place);
        }
        let name = short(&first.text);
        let message = format!("`{name}` does not reach bootstrap.sh: the line before does not continue on this one");
        let fix = "end every line of the call but the last with a backslash, and nothing after it";
        findings.add_with_fix(&verdicts::UD17, message, fix, place, line_text(&part.text, first.line));
    }
}

/// Parses a call as the loop of the script does: a known option takes the next word, every other word is positional,
/// and only the first positional word is used.
fn call(
    words: &[ShellWord],
    script: &ShellWord,
    part: &Part,
    bootstrap: &mut ParsedBootstrap,
    findings: &mut Findings,
) {
    bootstrap.configures_kubelet = true;
    bootstrap.needs_pod_table = true;
    let mut positional = Vec::new();
    let (mut extra, mut uses_table) = (None, None);
    let mut options = BTreeMap::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if OPTIONS.contains(&word.text.as_str()) || word.text == USE_MAX_PODS {
            let Some(value) = rest.next() else {
                let message = format!("`{}` has no value, so bootstrap.sh exits", word.text);
                let fix = "write the value after the option, or remove the option";
                findings.add_with_fix(&verdicts::UD38, message, fix, part.source.at(word.line), &word.text);
                break;
            };
            let stated = || Some(Stated { text: value.text.clone(), place: part.source.at(value.line) });
            if !value.is_open {
                options.insert(word.text.as_str(), value);
            }
            match word.text.as_str() {
                "--apiserver-endpoint" => bootstrap.endpoint = stated(),
                "--b64-cluster-ca" => bootstrap.certificate_authority = stated(),
                "--service-ipv4-cidr" | "--service-ipv6-cidr" => bootstrap.service_cidr = stated(),
                "--kubelet-extra-args" => extra = Some(value),
                USE_MAX_PODS => {
                    bootstrap.needs_pod_table = value.text != "false";
                    uses_table = Some(value);
                }
                _ => {}
            }
            // A value that the shell expands cannot be judged.
            for stated in [&mut bootstrap.endpoint, &mut bootstrap.certificate_authority, &mut bootstrap.service_cidr] {
                stated.take_if(|stated| stated.text.contains(['$', '`']));
            }
        } else {
            positional.push(word);
        }
    }
    judge_positional(&positional, script, part, bootstrap, findings);
    refused(&options, part, findings);
    if let Some(extra) = extra {
        extra_args(extra, &part.source, bootstrap, findings);
        if uses_table.is_none_or(|value| !value.is_open) {
            reserved_by_table(bootstrap, findings);
        }
    }
}

/// Judges the positional words, of which the first names the cluster.
fn judge_positional(
    positional: &[&ShellWord],
    script: &ShellWord,
    part: &Part,
    bootstrap: &mut ParsedBootstrap,
    findings: &mut Findings,
) {
    // An expansion that only the shell can do may yield options: an array, or a value that is split into words.
    let is_all = |text: &str| ["[@]}", "[*]}", "$@", "$*"].iter().any(|it| text.ends_with(it));
    for (index, word) in positional.iter().enumerate().filter(|(_, word)| word.is_open) {
        if is_all(&word.text) || (index > 0 && word.text.starts_with(['$', '`'])) {
            let place = part.source.at(word.line);
            bootstrap.arguments.push(Argument { text: word.text.clone(), place, is_open: true });
        }
    }
    for (index, word) in positional.iter().enumerate().filter(|(_, word)| word.text.starts_with('-')) {
        let name = word.text.split('=').next().unwrap_or_default();
        let value = word.text.split_once('=').map(|(_, value)| value).filter(|_| OPTIONS.contains(&name));
        bootstrap.lose(value.unwrap_or(&word.text), &part.source.at(word.line));
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
            bootstrap.cluster_name = Some(Stated { text: name.text.clone(), place: part.source.at(name.line) });
        }
        Some(_) => {}
    }
}

/// Reports a number of pods that is not the one for which bootstrap.sh reserves memory.
fn reserved_by_table(bootstrap: &ParsedBootstrap, findings: &mut Findings) {
    let sets_pods = |it: &&Argument| it.text.starts_with("--max-pods");
    if let Some(argument) = bootstrap.arguments.iter().find(sets_pods)
        && bootstrap.needs_pod_table
    {
        let message = "`--max-pods` is set, and bootstrap.sh reserves memory for the number of its own table";
        let fix = "add `--use-max-pods false` to the call, and reserve with `--kube-reserved` what the pods need";
        findings.add_with_fix(&verdicts::KA30, message, fix, argument.place.clone(), &argument.text);
    }
}

/// Reports values at which bootstrap.sh exits, and a cluster DNS address outside the service CIDR.
fn refused(options: &BTreeMap<&str, &ShellWord>, part: &Part, findings: &mut Findings) {
    let text = |name: &str| options.get(name).map(|word| word.text.as_str());
    let is_given = |name: &str| text(name).is_some_and(|text| !text.is_empty());
    let mut refuse = |name: &str, message: String, fix: &str| {
        let Some(word) = options.get(name) else { return };
        let shown = format!("{name} {}", word.text);
        findings.add_with_fix(&verdicts::UD38, message, fix, part.source.at(word.line), shown);
    };
    if let Some(runtime) = text("--container-runtime").filter(|it| *it != "containerd") {
        let message = format!("bootstrap.sh has no container runtime `{runtime}` for a kubelet of 1.24 or later");
        refuse("--container-runtime", message, "remove `--container-runtime`: containerd is the only one");
    }
    let family = text("--ip-family").map(str::to_lowercase);
    let family = family.as_deref();
    if let Some(family) = family.filter(|it| !matches!(*it, "ipv4" | "ipv6" | "")) {
        let message = format!("`{family}` is not an IP address family");
        refuse("--ip-family", message, "write `ipv4` or `ipv6`");
    }
    // If one of the two is missing, bootstrap.sh reads the network from the EKS API.
    let asks_nobody = is_given("--apiserver-endpoint") && is_given("--b64-cluster-ca");
    if family == Some("ipv6") && asks_nobody && !is_given("--service-ipv6-cidr") && !is_given("--dns-cluster-ip") {
        let message = "`--ip-family ipv6` needs `--service-ipv6-cidr`".to_owned();
        refuse("--ip-family", message, "add `--service-ipv6-cidr` with the cluster's service CIDR");
    }
    if family == Some("ipv4") && is_given("--service-ipv6-cidr") {
        let message = "`--service-ipv6-cidr` contradicts `--ip-family ipv4`".to_owned();
        refuse("--service-ipv6-cidr", message, "remove one of the two");
    }
    let cidr = text("--service-ipv4-cidr").filter(|_| family != Some("ipv6")).or(text("--service-ipv6-cidr"));
    if let (Some(network), Some(dns)) = (cidr.and_then(Network::read), options.get("--dns-cluster-ip"))
        && let Some(message) = dns_fault(&dns.text, network)
    {
        let fix = "remove `--dns-cluster-ip` (it is derived from the service CIDR), or write the ClusterIP of kube-dns";
        let shown = format!("--dns-cluster-ip {}", dns.text);
        findings.add_with_fix(&verdicts::KA29, message, fix, part.source.at(dns.line), shown);
    }
}

fn short(text: &str) -> String {
    text.split('=').next().unwrap_or_default().chars().take(60).collect()
}

/// Placeholder for the percent sign of a specifier, which systemd resolves on the node.
const MARK: char = '\u{e000}';

/// Marks the specifiers that systemd knows (systemd.unit(5)); others are left unchanged.
fn marked(letter: char) -> Option<String> {
    const KNOWN: &str = "abBCdDEfgGhHiIjJlLmMnNopPrRsStTuUvVwWyY";
    KNOWN.contains(letter).then(|| format!("{MARK}{letter}"))
}

/// Parses `--kubelet-extra-args`. bootstrap.sh writes it in single quotes to a drop-in, which systemd reads.
fn extra_args(extra: &ShellWord, source: &Source, bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    const VARIABLE: &str = "KUBELET_EXTRA_ARGS";
    let place = source.at(extra.line);
    let unit = format!("[Service]\nEnvironment='{VARIABLE}={}'\n", extra.text);
    let mut value = Vec::new();
    for directive in directives(&unit, "Service", "Environment") {
        if let Some(variable) = last(&environment_directive(&directive, &marked), VARIABLE) {
            value.clone_from(&variable.value);
        }
    }
    let reached = split_value(&value);
    let meant = split_value(&letters(&extra.text));
    let is_of_node = |text: &str| text.contains(MARK);
    if reached.len() < meant.len() {
        for word in meant.iter().skip(reached.len()) {
            bootstrap.lose(&word.text, &place);
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
    bootstrap.arguments.extend(reached.into_iter().map(|word| Argument {
        is_open: (extra.is_open && word.text.contains(['$', '`'])) || is_of_node(&word.text),
        text: word.text.replace(MARK, "%"),
        place: place.clone(),
    }));
}
