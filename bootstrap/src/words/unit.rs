//! Parser of a systemd unit with its drop-ins, up to the arguments of the process.
//!
//! Source: systemd.syntax(7), systemd.unit(5), systemd.exec(5), systemd.service(5); for details that they omit,
//! `src/shared/conf-parser.c`, `src/core/load-fragment.c` and `src/basic/env-util.c` of systemd 252.

use super::systemd::{
    Escapes, Refused, Variable, WHITESPACE, after_blanks, environment_file, is_name, last, split_value, word,
};
use super::{Letter, Word, letters, text};

/// Resolver of specifiers such as `%H`: `None` for an unknown letter, which is left unchanged.
pub type Specifiers<'s> = &'s dyn Fn(char) -> Option<String>;

/// Leaves specifiers unchanged, for documents that have not been read on a machine yet.
#[must_use]
pub fn unresolved(_: char) -> Option<String> {
    None
}

/// Reason why a unit has no command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandFault {
    /// An environment file does not exist.
    #[error("`{0}` is not there")]
    Missing(String),
    /// The unit has no `ExecStart=`.
    #[error("the unit has no ExecStart")]
    Nothing,
    /// The unit has several `ExecStart=`, which requires `Type=oneshot`.
    #[error("the unit has {0} lines ExecStart")]
    Several(usize),
    /// systemd refuses the line.
    #[error("systemd refuses `ExecStart={0}`")]
    Refused(String),
}

/// Returns the variables that a unit sets for its service; later ones override earlier ones.
///
/// # Errors
/// Returns an error if an environment file does not exist.
pub fn environment(
    unit: &str,
    read: &dyn Fn(&str) -> Option<String>,
    specifiers: Specifiers<'_>,
) -> Result<Vec<Variable>, CommandFault> {
    let mut variables = Vec::new();
    for line in directives(unit, "Service", "Environment") {
        variables.extend(environment_directive(&line, specifiers));
    }
    for path in directives(unit, "Service", "EnvironmentFile") {
        let path = resolved(&path, specifiers);
        let (path, may_be_absent) = path.strip_prefix('-').map_or((path.as_str(), false), |path| (path, true));
        match read(path) {
            // Files come after `Environment=`, whatever the order of the lines (systemd.exec(5)).
            Some(text) => variables.extend(environment_file(&text)),
            None if may_be_absent => {}
            None => return Err(CommandFault::Missing(path.to_owned())),
        }
    }
    for line in directives(unit, "Service", "UnsetEnvironment") {
        for (name, value) in assignments(&line, specifiers) {
            variables.retain(|it| it.name != name || value.as_ref().is_some_and(|value| text(&it.value) != *value));
        }
    }
    Ok(variables)
}

/// Returns the value of a variable, if it is set and not empty.
#[must_use]
pub fn value_of(variables: &[Variable], name: &str) -> Option<String> {
    last(variables, name).map(|it| text(&it.value)).filter(|value| !value.is_empty())
}

/// Returns the command line of a service, beginning with the program.
///
/// `unit` is the text of the unit with its drop-ins, as printed by `systemctl cat`; `read` returns the text of a file,
/// if it exists.
///
/// # Errors
/// Returns the reason why systemd would not start the service.
pub fn command_line(
    unit: &str,
    read: &dyn Fn(&str) -> Option<String>,
    specifiers: Specifiers<'_>,
) -> Result<Vec<String>, CommandFault> {
    let variables = environment(unit, read, specifiers)?;
    let commands = directives(unit, "Service", "ExecStart");
    let command = commands.last().ok_or(CommandFault::Nothing)?;
    let is_oneshot = directives(unit, "Service", "Type").last().is_some_and(|it| it == "oneshot");
    if commands.len() > 1 && !is_oneshot {
        return Err(CommandFault::Several(commands.len()));
    }
    let words = exec_start(command, &variables, specifiers).map_err(|_| CommandFault::Refused(command.clone()))?;
    Ok(words.into_iter().map(|word| word.text).collect())
}

/// Parses the value of `Environment=`: assignments, quoted like words. If systemd cannot read a word, the assignments
/// before it apply; that word and all words after it do not.
#[must_use]
pub fn environment_directive(line: &str, specifiers: Specifiers<'_>) -> Vec<Variable> {
    let variable = |(name, value, at): (String, Option<String>, usize)| {
        let value = value?.chars().map(|char| Letter { char, at }).collect::<Vec<_>>();
        is_name(&name).then_some(Variable { name, value })
    };
    words_of(line, specifiers).filter_map(variable).collect()
}

/// Returns names, with their values if they have any.
fn assignments(line: &str, specifiers: Specifiers<'_>) -> Vec<(String, Option<String>)> {
    words_of(line, specifiers).map(|(name, value, _)| (name, value)).collect()
}

fn words_of(line: &str, specifiers: Specifiers<'_>) -> impl Iterator<Item = (String, Option<String>, usize)> {
    let line = letters(line);
    let mut rest = after_blanks(&line);
    let mut found = Vec::new();
    while let (Some(first), Ok((text, after))) = (rest.first(), word(rest, Escapes::C)) {
        let text = resolved(&text, specifiers);
        let (name, value) = text.split_once('=').map_or((text.as_str(), None), |(name, value)| (name, Some(value)));
        found.push((name.to_owned(), value.map(ToOwned::to_owned), first.at));
        rest = after_blanks(after);
    }
    found.into_iter()
}

/// Returns the values of `key` in `section` of a unit, with continuations joined. An empty value discards the previous
/// ones.
#[must_use]
pub fn directives(unit: &str, section: &str, key: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut joined = String::new();
    let mut take = |whole: &str, current: &mut String| {
        let whole = whole.trim_matches(WHITESPACE);
        if let Some(name) = whole.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(current);
        } else if let Some((name, value)) = whole.split_once('=')
            && current == section
            && name.trim_end_matches(WHITESPACE) == key
        {
            match value.trim_start_matches(WHITESPACE) {
                "" => found.clear(),
                value => found.push(value.to_owned()),
            }
        }
    };
    // A carriage return ends a line like a line feed.
    for line in unit.split(['\n', '\r']) {
        let trimmed = line.trim_start_matches(WHITESPACE);
        if is_heading(trimmed) {
            // A line that the previous file left unfinished ends with that file.
            take(&std::mem::take(&mut joined), &mut current);
            current.clear();
        }
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        joined.push_str(line);
        let is_continued = joined.chars().rev().take_while(|char| *char == '\\').count() % 2 == 1;
        if is_continued {
            joined.pop();
            joined.push(' ');
            continue;
        }
        take(&std::mem::take(&mut joined), &mut current);
    }
    take(&joined, &mut current);
    found
}

/// Returns true if a line is the heading that `systemctl cat` prints before each file: `#
/// /etc/systemd/system/kubelet.service.d/10.conf`.
fn is_heading(line: &str) -> bool {
    line.strip_prefix("# /").is_some_and(|path| {
        path.contains("systemd/") && !path.contains(' ') && [".service", ".conf"].iter().any(|it| path.ends_with(it))
    })
}

/// Returns the arguments of a command line of `ExecStart=`, beginning with the program, with these variables expanded.
///
/// # Errors
/// Returns an error if the line is malformed: systemd then refuses the unit.
pub fn exec_start(line: &str, variables: &[Variable], specifiers: Specifiers<'_>) -> Result<Vec<Word>, Refused> {
    let line = letters(line);
    let mut rest = after_blanks(&line);
    let mut arguments: Vec<Word> = Vec::new();
    let (mut is_literal, mut has_name) = (false, false);
    while let Some(first) = rest.first() {
        let is_end = |at: usize| rest.get(at).is_none_or(|letter| WHITESPACE.contains(&letter.char));
        if !arguments.is_empty() && first.char == ';' && is_end(1) {
            break;
        }
        if !arguments.is_empty() && first.char == '\\' && rest.get(1).is_some_and(|it| it.char == ';') && is_end(2) {
            arguments.push(Word { text: ";".to_owned(), at: first.at });
            rest = after_blanks(rest.get(2..).unwrap_or_default());
            continue;
        }
        // An unknown escape causes a warning, and is kept as it is written.
        let (text, after) = word(rest, Escapes::C).or_else(|_| word(rest, Escapes::CAndOthers))?;
        rest = after_blanks(after);
        if arguments.is_empty() {
            let program = text.trim_start_matches(['@', '-', ':', '+', '!', '|']);
            let prefix = text.get(..text.len() - program.len()).unwrap_or_default();
            (is_literal, has_name) = (prefix.contains(':'), prefix.contains('@'));
            arguments.push(Word { text: resolved(program, specifiers), at: first.at });
            continue;
        }
        arguments.push(Word { text: resolved(&text, specifiers), at: first.at });
    }
    if has_name && arguments.len() > 1 {
        // The process name (`argv[0]`).
        arguments.remove(1);
    }
    if is_literal {
        return Ok(arguments);
    }
    Ok(arguments.into_iter().flat_map(|word| expanded(word, variables)).collect())
}

/// Expands variables: `$NAME` alone becomes the words of its value; inside a word `${NAME}` becomes the value unsplit.
fn expanded(word: Word, variables: &[Variable]) -> Vec<Word> {
    match word.text.strip_prefix('$').filter(|name| !name.starts_with(['{', '$'])) {
        Some(name) => last(variables, name).map(|variable| split_value(&variable.value)).unwrap_or_default(),
        None => vec![Word { text: substitute(&word.text, variables), at: word.at }],
    }
}

/// Replaces `${NAME}` inside a word by the value unsplit, or by nothing if it is not set; `$$` is a dollar sign.
fn substitute(text: &str, variables: &[Variable]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            if let Some(variable) = last(variables, name) {
                out.push_str(&super::text(&variable.value));
            }
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Resolves the specifiers of a text; `%%` is a percent sign.
fn resolved(text: &str, specifiers: Specifiers<'_>) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        match chars.next() {
            Some('%') | None => out.push('%'),
            Some(letter) => match specifiers(letter) {
                Some(value) => out.push_str(&value),
                None => out.extend(['%', letter]),
            },
        }
    }
    out
}
