//! Calls of a PowerShell script with their parameters, and the command-line splitting of Windows programs.
//!
//! Source: about_Quoting_Rules, about_Parsing and about_Parameters of PowerShell; "Parsing C++ command-line arguments"
//! of Microsoft's C++ documentation, which Go's os package follows.

mod assignment;
mod command_line;
mod expression;
pub(crate) mod reach;

use std::collections::{BTreeMap, BTreeSet};

pub use self::command_line::split_command_line;
use self::expression::Value;
use super::cursor::{Cursor, LONGEST_VALUE, MOST_EXPANDED, MOST_WORDS};

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerShellWord {
    /// The word without its quotes, with variables expanded.
    pub text: String,
    /// Line of the script, from 1.
    pub line: usize,
    /// True if the word was quoted: a parameter name is never quoted.
    pub is_quoted: bool,
    /// True if part of the word is known only when the script runs.
    pub is_open: bool,
    /// True if the word directly follows the closing quote of the previous word: PowerShell ends an argument that
    /// begins with a quote at the next quote.
    pub is_attached: bool,
}

impl PowerShellWord {
    fn at(line: usize) -> Self {
        Self { text: String::new(), line, is_quoted: false, is_open: false, is_attached: false }
    }

    /// Creates a word from a value. It counts as quoted, so that it is never read as a parameter.
    fn of(value: &Value, line: usize) -> Self {
        let (text, is_open) = value.text();
        Self { text, line, is_quoted: true, is_open, is_attached: false }
    }
}

/// Returns the statements of a script as words. Assignments of literals are stored, and expanded in later statements.
#[must_use]
pub fn statements(script: &str) -> Vec<Vec<PowerShellWord>> {
    let mut reader = Reader {
        script: Cursor::new(script),
        variables: BTreeMap::new(),
        room: MOST_EXPANDED,
        assigned: None,
        attempts: MOST_EXPANDED,
        depth: 0,
        set_names: assignment::set_names(script),
    };
    let mut statements = Vec::new();
    let mut current: Vec<PowerShellWord> = Vec::new();
    for _ in 0..MOST_WORDS {
        match reader.next() {
            Token::Word(word) if word.is_operator() => {
                reader.assignment();
                current.push(word);
            }
            Token::Word(word) => current.extend(reader.splatted(word)),
            Token::Separator => reader.finish(&mut current, &mut statements),
            Token::End => break,
        }
    }
    reader.finish(&mut current, &mut statements);
    statements
}

enum Token {
    Word(PowerShellWord),
    Separator,
    End,
}

struct Reader {
    script: Cursor,
    /// Variables by name in lower case, because PowerShell ignores case.
    variables: BTreeMap<String, Value>,
    /// Number of bytes of variables that may still be expanded.
    room: usize,
    /// The variable that the statement assigns to, and the value if it is known.
    assigned: Option<(String, Option<Value>)>,
    /// Number of characters that may still be read in failed attempts to parse an expression.
    attempts: usize,
    /// Nesting depth of the current expression.
    depth: usize,
    /// Variables that the script sets anywhere; `None` if they cannot be determined.
    set_names: Option<BTreeSet<String>>,
}

impl PowerShellWord {
    fn is_operator(&self) -> bool {
        !self.is_quoted && matches!(self.text.as_str(), "=" | "+=")
    }
}

impl Reader {
    /// Ends a statement and stores its assignment.
    fn finish(&mut self, current: &mut Vec<PowerShellWord>, statements: &mut Vec<Vec<PowerShellWord>>) {
        let statement = std::mem::take(current);
        if let Some((name, value)) = self.assigned.take() {
            match value.filter(|value| value.size() <= LONGEST_VALUE) {
                Some(value) => drop(self.variables.insert(name, value)),
                None => drop(self.variables.remove(&name)),
            }
        }
        if !statement.is_empty() {
            statements.push(statement);
        }
    }

    /// Parses the expression that begins here and ends before a character that `ends` accepts; otherwise reads nothing.
    fn attempt(&mut self, is_inside: bool, ends: impl Fn(Option<char>) -> bool) -> Option<Value> {
        let (start, room) = (self.script.mark(), self.room);
        if self.attempts == 0 {
            return None;
        }
        let value = self.expression(is_inside);
        while matches!(self.script.peek(0), Some(' ' | '\t' | '\r')) {
            self.script.take();
        }
        let value = value.filter(|_| ends(self.script.peek(0)));
        if value.is_none() {
            self.attempts = self.attempts.saturating_sub(self.script.since(start) + 1);
            self.script.reset(start);
            self.room = room;
        }
        value
    }

    /// Skips the parentheses that begin here; if they are not closed, reads nothing and returns false.
    fn parentheses(&mut self) -> bool {
        let start = self.script.mark();
        if self.attempts == 0 {
            return false;
        }
        let mut depth = 0_usize;
        while let Some(char) = self.script.take() {
            match char {
                '(' => depth += 1,
                ')' if depth == 1 => return true,
                ')' => depth -= 1,
                '\'' | '"' => while self.script.take().is_some_and(|inner| inner != char) {},
                _ => {}
            }
        }
        self.attempts = self.attempts.saturating_sub(self.script.since(start));
        self.script.reset(start);
        false
    }

    fn next(&mut self) -> Token {
        loop {
            match self.script.peek(0) {
                None => return Token::End,
                Some(' ' | '\t' | '\r') => {
                    self.script.take();
                }
                // A backtick at the end of a line continues it.
                Some('`')
                    if matches!(
                        (self.script.peek(1), self.script.peek(2)),
                        (Some('\n'), _) | (Some('\r'), Some('\n'))
                    ) =>
                {
                    while self.script.take().is_some_and(|char| char != '\n') {}
                }
                Some('<') if self.script.peek(1) == Some('#') => {
                    while self.script.peek(0).is_some()
                        && !(self.script.peek(0) == Some('#') && self.script.peek(1) == Some('>'))
                    {
                        self.script.take();
                        if self.script.peek(0) == Some('#') && self.script.peek(1) == Some('>') {
                            break;
                        }
                    }
                    self.script.take();
                    self.script.take();
                }
                Some('#') => {
                    while self.script.peek(0).is_some_and(|char| char != '\n') {
                        self.script.take();
                    }
                }
                Some('\n' | ';' | '|' | '{' | '}') => {
                    self.script.take();
                    return Token::Separator;
                }
                // `@{`, whose entries are separate statements, unless it is a known expression.
                Some('@') if self.script.peek(1) == Some('{') => {
                    let line = self.script.line;
                    match self.attempt(true, |_| true) {
                        Some(value) => return Token::Word(PowerShellWord::of(&value, line)),
                        None => drop(self.script.take()),
                    }
                }
                Some('(') => {
                    let line = self.script.line;
                    let is_end = |char: Option<char>| char.is_none_or(|char| " \t\r\n;|{})".contains(char));
                    if let Some(value) = self.attempt(false, is_end) {
                        return Token::Word(PowerShellWord::of(&value, line));
                    }
                    return Token::Word(self.word());
                }
                Some(_) => return Token::Word(self.word()),
            }
        }
    }

    fn word(&mut self) -> PowerShellWord {
        let mut word = PowerShellWord::at(self.script.line);
        word.is_attached = matches!(self.script.peek_back(1), Some('"' | '\''));
        if self.script.peek(0) == Some('@') && matches!(self.script.peek(1), Some('\'' | '"')) {
            let start = self.script.mark();
            if self.attempts > 0 && self.here_string(&mut word).is_some() {
                word.is_quoted = true;
                return word;
            }
            self.attempts = self.attempts.saturating_sub(self.script.since(start) + 1);
            self.script.reset(start);
            word = PowerShellWord::at(self.script.line);
        }
        // Base64 may end in `=`: only an assignable target is ended by one.
        let is_target = matches!(self.script.peek(0), Some('$' | '[' | '=' | '+'));
        while let Some(char) = self.script.peek(0) {
            match char {
                ' ' | '\t' | '\r' | '\n' | ';' | '|' => break,
                '\'' | '\u{2018}' | '\u{2019}' => {
                    self.script.take();
                    word.is_quoted = true;
                    let is_first = word.text.is_empty();
                    self.single_quoted(&mut word);
                    if is_first && self.is_cut() {
                        break;
                    }
                }
                '"' | '\u{201c}' | '\u{201d}' => {
                    self.script.take();
                    word.is_quoted = true;
                    let is_first = word.text.is_empty();
                    self.double_quoted(&mut word);
                    if is_first && self.is_cut() {
                        break;
                    }
                }
                // The value of a call or an expression is known only when the script runs.
                '(' => {
                    if !self.parentheses() {
                        self.script.take();
                        word.text.push('(');
                        continue;
                    }
                    word.text.push_str("$(…)");
                    word.is_open = true;
                }
                // `-Name:value`
                ':' if is_parameter(&word) => {
                    self.script.take();
                    break;
                }
                '+' if is_target && self.script.peek(1) == Some('=') => {
                    if word.text.is_empty() {
                        self.script.take();
                        self.script.take();
                        word.text.push_str("+=");
                    }
                    break;
                }
                '`' => {
                    self.script.take();
                    word.text.extend(self.script.take());
                }
                '$' => self.put_in(&mut word),
                '=' if is_target && !word.text.starts_with('-') => {
                    // `$a='b'` is an assignment without blanks.
                    if word.text.is_empty() {
                        self.script.take();
                        word.text.push('=');
                    }
                    break;
                }
                _ => {
                    self.script.take();
                    word.text.push(char);
                }
            }
        }
        word
    }

    fn single_quoted(&mut self, word: &mut PowerShellWord) {
        while let Some(char) = self.script.take() {
            if matches!(char, '\'' | '\u{2018}' | '\u{2019}') {
                if !matches!(self.script.peek(0), Some('\'' | '\u{2018}' | '\u{2019}')) {
                    return;
                }
                self.script.take();
            }
            word.text.push(char);
        }
    }

    fn double_quoted(&mut self, word: &mut PowerShellWord) {
        while let Some(char) = self.script.peek(0) {
            match char {
                '"' | '\u{201c}' | '\u{201d}' => {
                    self.script.take();
                    if !matches!(self.script.peek(0), Some('"' | '\u{201c}' | '\u{201d}')) {
                        return;
                    }
                    word.text.push('"');
                    self.script.take();
                }
                '`' => {
                    self.script.take();
                    match self.script.take() {
                        Some('n') => word.text.push('\n'),
                        Some('t') => word.text.push('\t'),
                        other => word.text.extend(other),
                    }
                }
                '$' => self.put_in(word),
                _ => {
                    self.script.take();
                    word.text.push(char);
                }
            }
        }
    }

    /// Returns true if an argument that began with a quote ends here although more text follows.
    fn is_cut(&self) -> bool {
        self.script
            .peek(0)
            .is_some_and(|next| next.is_alphanumeric() || matches!(next, '-' | '"' | '\'' | '$' | '/' | '='))
    }

    /// Adds the value of the variable that begins here to the word.
    fn put_in(&mut self, word: &mut PowerShellWord) {
        if self.script.peek(1) == Some('(') {
            self.script.take();
            if self.parentheses() {
                word.is_open = true;
                word.text.push_str("$(…)");
                return;
            }
            word.text.push('$');
            return;
        }
        if let Some(value) = self.variable(word) {
            let (text, is_open) = value.text();
            word.text.push_str(&text);
            word.is_open |= is_open;
        }
    }

    /// Returns the value of the variable that begins here; if it is unknown, adds its name to the word.
    fn variable(&mut self, word: &mut PowerShellWord) -> Option<Value> {
        self.script.take();
        let mut name = String::new();
        let is_braced = self.script.peek(0) == Some('{');
        if is_braced {
            self.script.take();
        }
        while let Some(char) = self.script.peek(0).filter(|char| is_of_name(*char)) {
            name.push(char);
            self.script.take();
        }
        if is_braced && self.script.peek(0) == Some('}') {
            self.script.take();
        }
        if let Some(value) = self.variables.get(&name.to_lowercase()).filter(|value| value.size() <= self.room) {
            self.room -= value.size();
            return Some(value.clone());
        }
        if word.is_quoted && self.is_unset(&name) {
            return None;
        }
        word.is_open = true;
        word.text.push('$');
        word.text.push_str(&name);
        None
    }
}

fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | ':')
}

/// Returns true if a word is a dash and a name, like a parameter.
fn is_parameter(word: &PowerShellWord) -> bool {
    let name = word.text.strip_prefix('-').filter(|_| !word.is_quoted).unwrap_or_default();
    !name.is_empty() && name.chars().all(char::is_alphanumeric)
}
