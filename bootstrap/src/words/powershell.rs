//! The calls of a PowerShell script with their parameters, and how Windows programs split a command line.
//!
//! Source: about_Quoting_Rules, about_Parsing and about_Parameters of PowerShell; "Parsing C++ command-line arguments"
//! of Microsoft's C++ documentation, which Go's os package follows.

use std::collections::BTreeMap;

use super::cursor::{Cursor, LONGEST_VALUE, MOST_EXPANDED, MOST_WORDS};

use super::{Word, letters};

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
}

/// The statements of a script as words. An assignment of a literal is remembered and put in further down.
#[must_use]
pub fn statements(script: &str) -> Vec<Vec<PowerShellWord>> {
    let mut reader = Reader { script: Cursor::new(script), variables: BTreeMap::new(), room: MOST_EXPANDED };
    let mut statements = Vec::new();
    let mut current: Vec<PowerShellWord> = Vec::new();
    for _ in 0..MOST_WORDS {
        match reader.next() {
            Token::Word(word) => current.push(word),
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
    variables: BTreeMap<String, String>,
    /// How many bytes of variables may still be put in.
    room: usize,
}

impl Reader {
    /// Ends a statement: `$name = literal` is remembered.
    fn finish(&mut self, current: &mut Vec<PowerShellWord>, statements: &mut Vec<Vec<PowerShellWord>>) {
        let statement = std::mem::take(current);
        let equals = statement.iter().position(|word| word.text == "=" && !word.is_quoted);
        if let Some(at) = equals.filter(|at| *at > 0) {
            // `[string]$Name` is one word.
            let name = statement[at - 1].text.rsplit('$').next().unwrap_or_default().to_lowercase();
            match &statement[at + 1..] {
                [value] if !value.is_open && value.text.len() <= LONGEST_VALUE => {
                    self.variables.insert(name, value.text.clone());
                }
                _ => drop(self.variables.remove(&name)),
            }
        }
        if !statement.is_empty() {
            statements.push(statement);
        }
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
                Some(_) => return Token::Word(self.word()),
            }
        }
    }

    fn word(&mut self) -> PowerShellWord {
        let mut word = PowerShellWord { text: String::new(), line: self.script.line, is_quoted: false, is_open: false };
        // Base64 ends in `=` too: only what can be assigned to is ended by one.
        let is_target = matches!(self.script.peek(0), Some('$' | '[' | '='));
        while let Some(char) = self.script.peek(0) {
            match char {
                ' ' | '\t' | '\r' | '\n' | ';' | '|' => break,
                '\'' | '\u{2018}' | '\u{2019}' => {
                    self.script.take();
                    word.is_quoted = true;
                    self.single_quoted(&mut word);
                }
                '"' | '\u{201c}' | '\u{201d}' => {
                    self.script.take();
                    word.is_quoted = true;
                    self.double_quoted(&mut word);
                }
                '`' => {
                    self.script.take();
                    word.text.extend(self.script.take());
                }
                '$' => self.variable(&mut word),
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
                '$' => self.variable(word),
                _ => {
                    self.script.take();
                    word.text.push(char);
                }
            }
        }
    }

    fn variable(&mut self, word: &mut PowerShellWord) {
        self.script.take();
        let mut name = String::new();
        let is_braced = self.script.peek(0) == Some('{');
        if is_braced {
            self.script.take();
        }
        while let Some(char) = self.script.peek(0).filter(|char| char.is_alphanumeric() || matches!(char, '_' | ':')) {
            name.push(char);
            self.script.take();
        }
        if is_braced && self.script.peek(0) == Some('}') {
            self.script.take();
        }
        if let Some(value) = self.variables.get(&name.to_lowercase()).filter(|value| value.len() <= self.room) {
            self.room -= value.len();
            let value = value.clone();
            word.text.push_str(&value);
        } else {
            word.is_open = true;
            word.text.push('$');
            word.text.push_str(&name);
        }
    }
}

/// Splits a command line as Windows programs do: at blanks; double quotes group and vanish; a backslash counts only
/// before a double quote.
#[must_use]
pub fn split_command_line(line: &str) -> Vec<Word> {
    let letters = letters(line);
    let mut words = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        if matches!(letters[at].char, ' ' | '\t') {
            at += 1;
            continue;
        }
        let start = letters[at].at;
        let (mut text, mut is_quoted) = (String::new(), false);
        while let Some(letter) = letters.get(at) {
            match letter.char {
                ' ' | '\t' if !is_quoted => break,
                '\\' => {
                    let count = letters[at..].iter().take_while(|letter| letter.char == '\\').count();
                    at += count;
                    if letters.get(at).is_some_and(|letter| letter.char == '"') {
                        text.extend(std::iter::repeat_n('\\', count / 2));
                        if count % 2 == 1 {
                            text.push('"');
                            at += 1;
                        }
                    } else {
                        text.extend(std::iter::repeat_n('\\', count));
                    }
                    continue;
                }
                '"' => {
                    // Two quotes inside quotes are one that stays.
                    if is_quoted && letters.get(at + 1).is_some_and(|next| next.char == '"') {
                        text.push('"');
                        at += 1;
                    } else {
                        is_quoted = !is_quoted;
                    }
                }
                char => text.push(char),
            }
            at += 1;
        }
        words.push(Word { text, at: start });
    }
    words
}
