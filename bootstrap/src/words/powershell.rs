//! The calls of a PowerShell script with their parameters, and how Windows programs split a command line.
//!
//! Source: about_Quoting_Rules, about_Parsing and about_Parameters of PowerShell; "Parsing C++ command-line arguments"
//! of Microsoft's C++ documentation, which Go's os package follows.

mod assignment;
mod command_line;
mod expression;

use std::collections::{BTreeMap, BTreeSet};

pub use self::command_line::split_command_line;
use self::expression::Value;
use super::cursor::{Cursor, LONGEST_VALUE, MOST_EXPANDED, MOST_WORDS};

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerShellWord {
    /// The word without its quotes, variables put in.
    pub text: String,
    /// The line of the script, from 1.
    pub line: usize,
    /// Whether it stood in quotes: a parameter name never does.
    pub is_quoted: bool,
    /// Whether a part of it is known only when the script runs.
    pub is_open: bool,
    /// Whether nothing stands between it and the quote that ends the word before: PowerShell ends an argument that
    /// begins with a quote at the next one.
    pub is_attached: bool,
}

impl PowerShellWord {
    fn at(line: usize) -> Self {
        Self { text: String::new(), line, is_quoted: false, is_open: false, is_attached: false }
    }

    /// A value that is no literal, so that it is never taken for a parameter.
    fn of(value: &Value, line: usize) -> Self {
        let (text, is_open) = value.text();
        Self { text, line, is_quoted: true, is_open, is_attached: false }
    }
}

/// The statements of a script as words. An assignment of a literal is remembered and put in further down.
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
    /// By name in lower case, for PowerShell does not tell case.
    variables: BTreeMap<String, Value>,
    /// How many bytes of variables may still be put in.
    room: usize,
    /// The variable that the statement assigns to, and the value if it is known.
    assigned: Option<(String, Option<Value>)>,
    /// How many characters may still be read as expressions that turn out to be none.
    attempts: usize,
    /// How deep the expression is that is read.
    depth: usize,
    /// The variables that the script sets anywhere, if they can be told.
    set_names: Option<BTreeSet<String>>,
}

impl PowerShellWord {
    fn is_operator(&self) -> bool {
        !self.is_quoted && matches!(self.text.as_str(), "=" | "+=")
    }
}

impl Reader {
    /// Ends a statement: what it assigns is remembered.
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

    /// The expression that begins here and ends before what `ends` accepts; if there is none, nothing is read.
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

    /// Passes over what stands in the parentheses that begin here; if they are never closed, over nothing.
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
                // `@{`, whose entries are statements of their own, unless it is a known expression.
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
        // Base64 ends in `=` too: only what can be assigned to is ended by one.
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
                // What a call or an expression comes to is known when the script runs.
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

    /// Whether an argument that began with a quote is ended by the one before this, though more follows.
    fn is_cut(&self) -> bool {
        self.script
            .peek(0)
            .is_some_and(|next| next.is_alphanumeric() || matches!(next, '-' | '"' | '\'' | '$' | '/' | '='))
    }

    /// Puts the value of the variable that begins here into the word.
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

    /// The value of the variable that begins here; if it is not known, its name is put into the word.
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

/// Whether a word is a dash and a name, as parameters are.
fn is_parameter(word: &PowerShellWord) -> bool {
    let name = word.text.strip_prefix('-').filter(|_| !word.is_quoted).unwrap_or_default();
    !name.is_empty() && name.chars().all(char::is_alphanumeric)
}
