//! Parsing of the command line into [`Arguments`]. Errors of clap are reworded in the style of all other messages, with
//! a hint.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches};
use muster_api::likeness::nearest_of;

use super::arguments::Arguments;
use super::failure::Failure;

/// Result of a command line without arguments to run.
#[derive(Debug)]
pub(super) enum Unparsed {
    /// Help or the version was requested, or no argument given: clap has the text and the exit code.
    Answer(clap::Error),
    /// The command line is invalid.
    Wrong(Failure),
}

/// Returns the command line definition of `muster`. A negative number is parsed as the value of the preceding option,
/// and refused as such, instead of as an option.
pub(super) fn command() -> Command {
    let takes_numbers = |argument: clap::Arg| {
        let takes_values = argument.get_long().is_some() && argument.get_action().takes_values();
        if takes_values { argument.allow_negative_numbers(true) } else { argument }
    };
    Arguments::command().mut_subcommands(|subcommand| subcommand.mut_args(takes_numbers))
}

/// Parses the command line `typed`, which begins with the name of the program.
pub(super) fn parse(typed: Vec<OsString>) -> Result<Arguments, Unparsed> {
    let typed = with_two_dashes(typed);
    let parsed =
        command().try_get_matches_from(typed.clone()).and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Unparsed::Answer(error)
        }
        _ => Unparsed::Wrong(Failure::Usage(message(&error, &typed))),
    })
}

/// Adds the second dash to long options of `run` that have one: Karpenter, like any program in Go, takes both forms.
fn with_two_dashes(mut typed: Vec<OsString>) -> Vec<OsString> {
    let command = command();
    let is_run = typed.get(1).is_some_and(|word| word == "run");
    let Some(run) = command.find_subcommand("run").filter(|_| is_run) else { return typed };
    for word in typed.iter_mut().skip(2) {
        let long = word.to_str().and_then(|text| text.strip_prefix('-'));
        let name = long.and_then(|text| text.split('=').next());
        if run.get_arguments().any(|argument| argument.get_long().is_some() && argument.get_long() == name) {
            let mut with = OsString::from("-");
            with.push(&*word);
            *word = with;
        }
    }
    typed
}

fn message(error: &clap::Error, typed: &[OsString]) -> String {
    let texts = |kind: ContextKind| -> Vec<String> {
        match error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(all)) => all.clone(),
            _ => Vec::new(),
        }
    };
    let text = |kind: ContextKind| texts(kind).into_iter().next().unwrap_or_default();
    let argument = quoted(&text(ContextKind::InvalidArg));
    let value = text(ContextKind::InvalidValue);
    let help = help_of(typed);
    let (problem, hint) = match error.kind() {
        ErrorKind::InvalidValue if value.is_empty() => {
            (format!("{argument} needs a value"), one_of(&texts(ContextKind::ValidValue)))
        }
        ErrorKind::InvalidValue => {
            let nearest = texts(ContextKind::SuggestedValue).into_iter().next();
            let nearest = nearest.map(|nearest| format!("did you mean `{nearest}`?"));
            let valid = one_of(&texts(ContextKind::ValidValue));
            let hint = nearest.into_iter().chain(valid).reduce(|nearest, valid| format!("{nearest} Or {valid}"));
            (format!("{argument} does not take the value `{value}`"), hint)
        }
        ErrorKind::ValueValidation => {
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            let problem = match cause.as_str() {
                // The standard library's messages are about parsing.
                "invalid digit found in string" => "is not a whole number".to_owned(),
                "cannot parse integer from empty string" | "cannot parse float from empty string" => {
                    "is not a number".to_owned()
                }
                "invalid float literal" => "is not a number".to_owned(),
                "number too large to fit in target type" => "is too large".to_owned(),
                "number too small to fit in target type" => "is too small".to_owned(),
                cause if cause.starts_with(&format!("{value} ")) => cause[value.len() + 1..].to_owned(),
                cause => format!("is refused: {cause}"),
            };
            let least = (value.starts_with('-') && !problem.contains(".."))
                .then(|| "write a number of zero or more".to_owned());
            (format!("{argument}: `{value}` {problem}"), least)
        }
        ErrorKind::UnknownArgument => {
            let nearest = texts(ContextKind::SuggestedArg).into_iter().next();
            let what = if argument.starts_with("`-") { "unknown option" } else { "unexpected argument" };
            (format!("{what} {argument}"), nearest.map(|nearest| format!("did you mean {}?", quoted(&nearest))))
        }
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand);
            let command = command();
            // Not clap's measure, which finds `explain` closer to `plna` than `plan`.
            let nearest = nearest_of(command.get_subcommands().map(Command::get_name), &word);
            (format!("unknown command `{word}`"), nearest.map(|nearest| format!("did you mean `{nearest}`?")))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<String> = texts(ContextKind::InvalidArg).iter().map(|text| quoted(text)).collect();
            let verb = if missing.len() == 1 { "is" } else { "are" };
            (format!("{} {verb} required", missing.join(" and ")), None)
        }
        ErrorKind::ArgumentConflict => match text(ContextKind::PriorArg) {
            other if quoted(&other) == argument => {
                (format!("{argument} is given twice"), Some("keep one of the two".to_owned()))
            }
            other => (
                format!("{argument} cannot be given together with {}", quoted(&other)),
                Some("keep one of the two".to_owned()),
            ),
        },
        ErrorKind::NoEquals => (format!("the value of {argument} must follow a `=`"), None),
        ErrorKind::InvalidUtf8 => ("an argument is not valid UTF-8".to_owned(), None),
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            (line.trim_start_matches("error: ").to_owned(), None)
        }
    };
    format!("{problem}\n\nhint: {}", hint.unwrap_or(help))
}

/// Returns the name of `--seed <N>` without its value, in backticks.
fn quoted(argument: &str) -> String {
    let name =
        if argument.starts_with('-') { argument.split([' ', '=', '[']).next().unwrap_or(argument) } else { argument };
    let name = name.trim_end_matches("...");
    format!("`{}`", name.trim_start_matches('<').trim_end_matches('>'))
}

fn one_of(values: &[String]) -> Option<String> {
    let all = values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
    (!values.is_empty()).then(|| format!("write one of {all}"))
}

/// Returns the hint on help for the command that was typed.
fn help_of(typed: &[OsString]) -> String {
    let command = Arguments::command();
    let named = typed.get(1).and_then(|name| name.to_str()).and_then(|name| command.find_subcommand(name));
    match named {
        Some(subcommand) => format!("`muster {} --help` shows its options", subcommand.get_name()),
        None => "`muster --help` shows the commands".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> String {
        match parse(["muster"].into_iter().chain(words.split_whitespace()).map(OsString::from).collect()) {
            Err(Unparsed::Wrong(failure)) => {
                assert_eq!(failure.exit_code(), 2);
                failure.to_string()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_typed_wrong_is_named_with_a_hint() {
        let all = [
            "simulate -f a --seed -1",
            "simulate -f a --seed 1.5",
            "simulate -f a --seed 99999999999999999999",
            "simulate -f a --seed 1 --seed 2",
            "simulate -f a --sed 1",
            "simulate -f a --seed",
            "simulate -f a -o xml",
            "simulate -f a -o jsn",
            "simulate -f a -o",
            "simulate -f a b",
            "simulate -f a -z",
            "simulate",
            "simulat -f a",
            "pack",
            "plna",
            "exlpain pod a",
            "--verbose",
            "plan -f a --context b",
            "explain cluster x -f a",
            "explain",
            "completions cobol",
            "run --metrics-port 70000",
            "run --metrics-port -1",
            "run --enable-profiling maybe",
            "run --enable-profiling=maybe",
            "run --max-hourly-price much",
        ];
        let all: Vec<String> = all.iter().map(|words| format!("$ muster {words}\n{}", said(words))).collect();
        insta::assert_snapshot!(all.join("\n\n"));
    }

    #[test]
    fn options_of_run_may_have_one_dash() {
        let typed =
            ["muster", "run", "-metrics-port=9000", "-log-level", "debug", "--cloud=kwok", "-disable-leader-election"];
        let parsed = parse(typed.map(OsString::from).to_vec()).unwrap();
        let super::super::arguments::Command::Run(run) = parsed.command else { panic!() };
        assert_eq!(
            (run.metrics_port, run.log.log_level.as_str(), run.lease.disable_leader_election),
            (9000, "debug", true)
        );
        // Other commands have short options.
        let typed = ["muster", "plan", "-f", "a", "-strict"];
        assert!(parse(typed.map(OsString::from).to_vec()).is_err());
    }

    #[test]
    fn values_of_run_may_be_written_as_karpenter_writes_them() {
        let run = |word: &str| match parse(["muster", "run", word].map(OsString::from).to_vec()) {
            Ok(Arguments { command: super::super::arguments::Command::Run(run) }) => run,
            other => panic!("{word}: {other:?}"),
        };
        for (word, expected) in [
            ("1", true),
            ("t", true),
            ("T", true),
            ("TRUE", true),
            ("true", true),
            ("True", true),
            ("0", false),
            ("f", false),
            ("F", false),
            ("FALSE", false),
            ("false", false),
            ("False", false),
        ] {
            assert_eq!(run(&format!("--isolated-vpc={word}")).ec2.isolated_vpc, expected, "{word}");
            let warmup = run(&format!("--disable-controller-warmup={word}")).ineffective.disable_controller_warmup;
            assert_eq!(warmup, expected, "{word}");
        }
        assert!(run("--isolated-vpc").ec2.isolated_vpc && !run("--eks-control-plane").ec2.isolated_vpc);
        for word in ["BestEffort", "besteffort", "best-effort"] {
            let policy = run(&format!("--min-values-policy={word}")).policies.min_values_policy;
            assert_eq!(policy, super::super::arguments::MinValuesPolicy::BestEffort, "{word}");
        }
        assert_eq!(
            run("--preference-policy=Ignore").policies.preference_policy,
            super::super::arguments::PreferencePolicy::Ignore
        );
    }

    #[test]
    fn no_message_of_clap_gets_through() {
        // Each option of each command, with a value that none accepts, and without one.
        for subcommand in command().get_subcommands() {
            for option in subcommand.get_arguments().filter_map(|one| one.get_long()).filter(|name| *name != "help") {
                for words in [format!("--{option}=\u{1}"), format!("--{option}"), format!("--{option}x")] {
                    let typed = ["muster", subcommand.get_name(), &words].map(OsString::from);
                    if let Err(Unparsed::Wrong(failure)) = parse(typed.to_vec()) {
                        let text = failure.to_string();
                        assert!(text.matches("\n\nhint: ").count() == 1 && !text.contains("Usage:"), "{words}: {text}");
                    }
                }
            }
        }
    }
}
