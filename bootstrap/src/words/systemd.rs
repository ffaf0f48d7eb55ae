//! Word splitting of systemd.
//!
//! Source: systemd.exec(5) and systemd.service(5); for details that they omit, `src/basic/env-file.c`, `extract-word.c`
//! and `env-util.c` of systemd 252, which matches AL2023. AL2's version (219) does not differ in anything used here.

pub use super::environment_file::{Variable, environment_file};
use super::{Letter, Word};

/// Reason why systemd refuses a text. It logs only a warning in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A quote is never closed.
    #[error("a quote is never closed")]
    OpenQuote,
    /// A backslash does not begin a known escape.
    #[error("a backslash stands before a letter that it cannot escape")]
    Escape,
}

pub(super) const WHITESPACE: [char; 4] = [' ', '\t', '\n', '\r'];

pub(super) fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && chars.all(|char| char == '_' || char.is_ascii_alphanumeric())
}

/// Returns the last value of a variable, which applies.
#[must_use]
pub fn last<'v>(variables: &'v [Variable], name: &str) -> Option<&'v Variable> {
    variables.iter().rfind(|variable| variable.name == name)
}

// === Words ===

/// Escape handling of a split.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    /// A backslash takes the next letter literally. An open quote or a trailing backslash is accepted.
    Relaxed,
    /// C escapes only; any other escape is an error.
    C,
    /// C escapes; a backslash before any other letter is kept.
    CAndOthers,
}

/// Splits the value of a variable that is a whole word of `ExecStart=` (`$ARGS`): at blanks, with quotes and one level
/// of backslashes removed; an open quote is closed at the end.
#[must_use]
pub fn split_value(value: &[Letter]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = after_blanks(value);
    // Relaxed splitting does not fail.
    while let (Some(first), Ok((text, after))) = (rest.first(), word(rest, Escapes::Relaxed)) {
        words.push(Word { text, at: first.at });
        rest = after_blanks(after);
    }
    words
}

pub(super) fn after_blanks(value: &[Letter]) -> &[Letter] {
    let blank = value.iter().take_while(|letter| WHITESPACE.contains(&letter.char)).count();
    value.get(blank..).unwrap_or_default()
}

/// Returns the first word, and the text after it.
pub(super) fn word(value: &[Letter], escapes: Escapes) -> Result<(String, &[Letter]), Refused> {
    let mut text = String::new();
    let mut quote = None;
    let mut at = 0;
    while let Some(letter) = value.get(at) {
        at += 1;
        match (letter.char, quote) {
            ('\\', _) => match escapes {
                Escapes::Relaxed => {
                    text.extend(value.get(at).map(|next| next.char));
                    at += 1;
                }
                Escapes::C | Escapes::CAndOthers => match c_escape(&value[at..]) {
                    Some((char, length)) => {
                        text.push(char);
                        at += length;
                    }
                    None if escapes == Escapes::C => return Err(Refused::Escape),
                    None => {
                        text.push('\\');
                        text.extend(value.get(at).map(|next| next.char));
                        at += 1;
                    }
                },
            },
            (char, Some(open)) if char == open => quote = None,
            (char @ ('\'' | '"'), None) => quote = Some(char),
            (char, None) if WHITESPACE.contains(&char) => return Ok((text, &value[at..])),
            (char, _) => text.push(char),
        }
    }
    if quote.is_some() && escapes != Escapes::Relaxed {
        return Err(Refused::OpenQuote);
    }
    Ok((text, &[]))
}

/// Decodes a C escape after its backslash; returns the character and the number of letters of the escape.
fn c_escape(rest: &[Letter]) -> Option<(char, usize)> {
    let simple = match rest.first()?.char {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        's' => ' ',
        char @ ('\\' | '"' | '\'') => char,
        'x' => return coded(&rest[1..], 2, 16).map(|char| (char, 3)),
        'u' => return coded(&rest[1..], 4, 16).map(|char| (char, 5)),
        'U' => return coded(&rest[1..], 8, 16).map(|char| (char, 9)),
        '0'..='7' => return coded(rest, 3, 8).map(|char| (char, 3)),
        _ => return None,
    };
    Some((simple, 1))
}

fn coded(rest: &[Letter], digits: usize, radix: u32) -> Option<char> {
    let text: String = rest.get(..digits)?.iter().map(|letter| letter.char).collect();
    if !text.chars().all(|char| char.is_digit(radix)) {
        return None;
    }
    u32::from_str_radix(&text, radix).ok().filter(|code| *code != 0).and_then(char::from_u32)
}
