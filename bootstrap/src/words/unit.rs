//! systemd's reading of a unit with its drop-ins, down to the arguments that the process gets.
//!
//! Source: systemd.syntax(7), systemd.unit(5), systemd.exec(5), systemd.service(5); where they are silent,
//! `src/shared/conf-parser.c`, `src/core/load-fragment.c` and `src/basic/env-util.c` of systemd 252.

use super::systemd::{
    Escapes, Refused, Variable, WHITESPACE, after_blanks, environment_file, is_name, last, split_value, word,
};
use super::{Letter, Word, letters, text};

/// What `%H` and its like stand for: `None` for a letter that is not known, which stays as it is.
pub type Specifiers<'s> = &'s dyn Fn(char) -> Option<String>;

/// Leaves specifiers as they are: for documents that no machine has read yet.
#[must_use]
pub fn unresolved(_: char) -> Option<String> {
    None
}

/// Why there is no command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandFault {
    /// An environment file is not there.
    #[error("`{0}` is not there")]
    Missing(String),
    /// Nothing is started.
    #[error("the unit has no ExecStart")]
    Nothing,
    /// Two are started, which only `Type=oneshot` may.
    #[error("the unit has {0} lines ExecStart")]
    Several(usize),
    /// systemd refuses the line.
    #[error("systemd refuses `ExecStart={0}`")]
    Refused(String),
}

/// The variables that a unit gives to its service, later ones over earlier ones.
///
/// # Errors
/// An environment file is not there.
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

/// The value of a variable, if it has one that is not empty.
#[must_use]
pub fn value_of(variables: &[Variable], name: &str) -> Option<String> {
    last(variables, name).map(|it| text(&it.value)).filter(|value| !value.is_empty())
}

/// The command line of a service, the program first.
///
/// `unit` is the text of the unit with its drop-ins, as `systemctl cat` prints it; `read` gives the text of a file, if it
/// is there.
///
/// # Errors
/// systemd would not start it: why.
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

/// The right side of `Environment=`: assignments, quoted as words are. What stands before a word that systemd cannot read
/// counts; that word and all after it do not.
#[must_use]
pub fn environment_directive(line: &str, specifiers: Specifiers<'_>) -> Vec<Variable> {
    let variable = |(name, value, at): (String, Option<String>, usize)| {
        let value = value?.chars().map(|char| Letter { char, at }).collect::<Vec<_>>();
        is_name(&name).then_some(Variable { name, value })
    };
    words_of(line, specifiers).filter_map(variable).collect()
}

/// Names, with their values if they have any.
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

/// The lines of a unit that set `key` in `section`, continuations joined. An empty value forgets what came before.
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
    // A carriage return ends a line as a line feed does.
    for line in unit.split(['\n', '\r']) {
        let trimmed = line.trim_start_matches(WHITESPACE);
        if is_heading(trimmed) {
            // What the file before has left open ends with it.
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

/// Whether a line is what `systemctl cat` puts before each file: `# /etc/systemd/system/kubelet.service.d/10.conf`.
fn is_heading(line: &str) -> bool {
    line.strip_prefix("# /").is_some_and(|path| {
        path.contains("systemd/") && !path.contains(' ') && [".service", ".conf"].iter().any(|it| path.ends_with(it))
    })
}

/// The arguments of a command line of `ExecStart=`, the program first, with these variables.
///
/// # Errors
/// The line is broken: systemd then refuses the unit.
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
        // An escape that nobody knows is a warning, and stays as it is written.
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
        // The name that the process is told to have.
        arguments.remove(1);
    }
    if is_literal {
        return Ok(arguments);
    }
    Ok(arguments.into_iter().flat_map(|word| expanded(word, variables)).collect())
}

/// `$NAME` alone becomes the words of its value; inside a word `${NAME}` becomes the value as it is.
fn expanded(word: Word, variables: &[Variable]) -> Vec<Word> {
    match word.text.strip_prefix('$').filter(|name| !name.starts_with(['{', '$'])) {
        Some(name) => last(variables, name).map(|variable| split_value(&variable.value)).unwrap_or_default(),
        None => vec![Word { text: substitute(&word.text, variables), at: word.at }],
    }
}

/// `${NAME}` inside a word becomes the value as it is, and nothing if it is not set; `$$` is a dollar.
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

/// A text with its specifiers resolved; `%%` is a percent sign.
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
