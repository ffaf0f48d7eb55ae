//! Generator of `docs/cli.md` from the definition of the command line. The test below keeps the file current.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use super::arguments::Arguments;

/// Text before the commands.
const CONTRACT: &str = include_str!("reference/contract.md");
/// Documents that commands print.
const DOCUMENTS: &str = include_str!("reference/documents.md");

fn reference() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut text = String::from(
        "<!-- Written by a test of muster-controller (src/cli/reference.rs). Edit the sources it names. -->\n",
    );
    text.push_str(CONTRACT);
    text.push_str("\n## Commands\n");
    for subcommand in command.get_subcommands() {
        describe(&mut text, subcommand);
    }
    text.push('\n');
    text.push_str(DOCUMENTS);
    text
}

fn describe(text: &mut String, command: &Command) {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _ = write!(text, "\n### `muster {}`\n\n```text\n{usage}\n```\n", command.get_name());
    let about = command.get_long_about().or_else(|| command.get_about());
    if let Some(about) = about {
        let _ = write!(text, "\n{}\n", about.to_string().trim_end());
    }
    let arguments: Vec<&Arg> =
        command.get_arguments().filter(|it| it.get_id() != "help" && !it.is_hide_set()).collect();
    if arguments.is_empty() {
        return;
    }
    text.push_str("\n| option | meaning |\n|---|---|\n");
    for argument in arguments {
        let _ = writeln!(text, "| `{}` | {} |", spelling(argument).replace('|', "\\|"), meaning(argument));
    }
}

fn spelling(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let value = names.first().map(ToString::to_string).unwrap_or_default();
    if argument.is_positional() {
        return value;
    }
    let flags: Vec<String> = argument
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let takes_value = argument.get_action().takes_values();
    if takes_value { format!("{} {value}", flags.join(", ")) } else { flags.join(", ") }
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let takes_value = argument.get_action().takes_values();
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if takes_value && !values.is_empty() {
        let _ = write!(text, ". One of {}", values.join(", "));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes_value && !defaults.is_empty() {
        let _ = write!(text, ". Default: {}", defaults.join(", "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(text, ". Variable: `{}`", variable.to_string_lossy());
    }
    text
}

#[test]
fn the_reference_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
    let current = reference();
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    if stored != current {
        std::fs::write(path, current).unwrap();
        panic!("docs/cli.md was out of date and has been written anew: look at the difference and commit it");
    }
}

/// Options of `muster run` that Karpenter does not have.
const OWN: [&str; 16] = [
    "agent-address",
    "agent-health-port",
    "agent-identity-certificates",
    "agent-port",
    "cloud",
    "consolidation-payback",
    "context",
    "disable-nominations",
    "dry-run",
    "instance-types-file-path",
    "max-hourly-price",
    "max-launches-per-minute",
    "move-price",
    "output",
    "preference-price",
    "wait-for-unschedulable-mark",
];

#[test]
fn every_option_of_run_is_karpenters_or_our_own() {
    let table = include_str!("../../../docs/karpenter-1.15.tsv");
    let rows = table.lines().filter_map(|line| line.strip_prefix("option\t"));
    let told: std::collections::BTreeSet<&str> =
        rows.filter(|row| !row.contains("\tnot built\t")).filter_map(|row| row.split('\t').next()).collect();
    let mut command = Arguments::command();
    command.build();
    let run = command.find_subcommand("run").unwrap();
    let known = run.get_arguments().filter_map(Arg::get_long).filter(|name| *name != "help");
    let known: std::collections::BTreeSet<&str> = known.filter(|name| !OWN.contains(name)).collect();
    assert_eq!(told, known);
}

#[test]
fn the_definition_is_sound() {
    Arguments::command().debug_assert();
}
