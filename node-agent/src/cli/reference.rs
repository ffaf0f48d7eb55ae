//! Generator of `docs/agent.md` from the definition of the command line. The test below keeps the file current.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use super::arguments::Arguments;

/// Description of the document that `validate` prints, and of its fields.
const DOCUMENT: &str = include_str!("reference/document.md");

fn reference() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut text = String::from(
        "<!-- Written by a test of muster-agent (src/cli/reference.rs). Edit the sources it names. -->\n# muster-agent\n",
    );
    for subcommand in command.get_subcommands() {
        describe(&mut text, subcommand);
    }
    text.push('\n');
    text.push_str(DOCUMENT);
    text
}

fn describe(text: &mut String, command: &Command) {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "\n## `muster-agent {}`\n\n{}\n", command.get_name(), about.trim_end());
    text.push_str("\n| option | meaning |\n|---|---|\n");
    for argument in command.get_arguments().filter(|it| it.get_id() != "help") {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let values: Vec<String> =
            argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
        let takes_value = argument.get_action().takes_values();
        let values =
            if takes_value && !values.is_empty() { format!(". One of {}", values.join(", ")) } else { String::new() };
        let _ = writeln!(text, "| `{}` | {help}{values} |", spelling(argument));
    }
}

fn spelling(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    let name = argument.get_value_names().unwrap_or_default().first().map(ToString::to_string).unwrap_or_default();
    if argument.get_action().takes_values() { format!("{flags} {name}").trim().to_owned() } else { flags }
}

#[test]
fn the_reference_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/agent.md");
    let current = reference();
    if std::fs::read_to_string(path).unwrap_or_default() != current {
        std::fs::write(path, current).unwrap();
        panic!("docs/agent.md was out of date and has been written anew: look at the difference and commit it");
    }
}

#[test]
fn the_definition_is_sound() {
    Arguments::command().debug_assert();
}
