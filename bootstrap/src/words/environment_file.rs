//! Parser of systemd environment files.
//!
//! Source: systemd.exec(5); for details that it omits, `src/basic/env-file.c` and `env-util.c` of systemd 252, which
//! matches AL2023. AL2's version (219) does not differ in anything used here.

use super::systemd::{WHITESPACE, is_name};
use super::{Letter, letters};

const NEWLINE: [char; 2] = ['\n', '\r'];

/// A variable that an environment file or a directive sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Name of the variable.
    pub name: String,
    /// Value of the variable, with the position of each letter in the file.
    pub value: Vec<Letter>,
}

/// Parses an environment file. A variable that is set twice is returned twice; the last one applies.
///
/// A quote is special only at the beginning of a value. Inside a value that did not begin with one, quotes are ordinary
/// letters, and the value ends at the end of the line: the next line is read as further variables.
#[must_use]
pub fn environment_file(text: &str) -> Vec<Variable> {
    let mut reader = Reader::default();
    for letter in letters(text) {
        reader.at = match reader.at {
            At::BeforeKey | At::Key | At::Comment | At::CommentEscape => reader.outside(letter),
            At::BeforeValue | At::Value | At::ValueEscape => reader.in_value(letter),
            At::SingleQuoted | At::DoubleQuoted | At::DoubleQuotedEscape => reader.in_quotes(letter),
        };
    }
    match reader.at {
        At::Value => reader.finish(true),
        At::BeforeValue | At::ValueEscape | At::SingleQuoted | At::DoubleQuoted | At::DoubleQuotedEscape => {
            reader.finish(false);
        }
        At::BeforeKey | At::Key | At::Comment | At::CommentEscape => {}
    }
    reader.variables
}

/// Position between two letters.
#[derive(Debug, Clone, Copy, Default)]
enum At {
    #[default]
    BeforeKey,
    Key,
    BeforeValue,
    Value,
    ValueEscape,
    SingleQuoted,
    DoubleQuoted,
    DoubleQuotedEscape,
    Comment,
    CommentEscape,
}

/// Variables read so far, and the one in progress.
#[derive(Debug, Default)]
struct Reader {
    at: At,
    name: String,
    value: Vec<Letter>,
    /// Trailing blanks of an unquoted value are dropped, but not those among its first so many letters: they precede
    /// the last backslash.
    kept: usize,
    variables: Vec<Variable>,
}

impl Reader {
    fn outside(&mut self, letter: Letter) -> At {
        let char = letter.char;
        match self.at {
            At::Key if NEWLINE.contains(&char) => {
                self.name.clear();
                At::BeforeKey
            }
            At::Key if char == '=' => {
                self.kept = 0;
                At::BeforeValue
            }
            At::Key => {
                self.name.push(char);
                At::Key
            }
            At::Comment if char == '\\' => At::CommentEscape,
            At::Comment if NEWLINE.contains(&char) => At::BeforeKey,
            At::Comment | At::CommentEscape => At::Comment,
            _ if matches!(char, '#' | ';') => At::Comment,
            _ if WHITESPACE.contains(&char) => At::BeforeKey,
            _ => {
                self.name.push(char);
                At::Key
            }
        }
    }

    fn in_value(&mut self, letter: Letter) -> At {
        let char = letter.char;
        match self.at {
            At::BeforeValue | At::Value if NEWLINE.contains(&char) => {
                self.finish(matches!(self.at, At::Value));
                At::BeforeKey
            }
            At::BeforeValue if char == '\'' => At::SingleQuoted,
            At::BeforeValue if char == '"' => At::DoubleQuoted,
            At::BeforeValue if char == '\\' => At::ValueEscape,
            At::BeforeValue if WHITESPACE.contains(&char) => At::BeforeValue,
            At::Value if char == '\\' => {
                self.kept = self.value.len();
                At::ValueEscape
            }
            At::ValueEscape => {
                if !NEWLINE.contains(&char) {
                    self.value.push(letter);
                }
                self.kept = self.value.len();
                At::Value
            }
            _ => {
                self.value.push(letter);
                At::Value
            }
        }
    }

    fn in_quotes(&mut self, letter: Letter) -> At {
        let char = letter.char;
        match self.at {
            At::SingleQuoted if char == '\'' => return At::BeforeValue,
            At::DoubleQuoted if char == '"' => return At::BeforeValue,
            At::DoubleQuoted if char == '\\' => return At::DoubleQuotedEscape,
            At::SingleQuoted | At::DoubleQuoted => self.value.push(letter),
            _ if matches!(char, '"' | '\\' | '`' | '$') => self.value.push(letter),
            _ if char != '\n' => {
                self.value.push(Letter { char: '\\', at: letter.at });
                self.value.push(letter);
            }
            _ => {}
        }
        if matches!(self.at, At::SingleQuoted) { At::SingleQuoted } else { At::DoubleQuoted }
    }

    /// Adds the variable in progress. An unquoted value loses its trailing blanks.
    fn finish(&mut self, is_bare: bool) {
        let is_blank = |letter: &Letter| WHITESPACE.contains(&letter.char);
        while is_bare && self.value.len() > self.kept && self.value.last().is_some_and(is_blank) {
            self.value.pop();
        }
        let (name, value) = (std::mem::take(&mut self.name), std::mem::take(&mut self.value));
        let name = name.trim_end_matches(WHITESPACE).to_owned();
        // A value may contain any character, control characters included.
        if is_name(&name) {
            self.variables.push(Variable { name, value });
        }
    }
}
