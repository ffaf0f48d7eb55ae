//! Commands of a shell script with their words, as far as they are known without running it.
//!
//! Quotes, escapes, continuations, comments, here-documents, redirections and operators follow POSIX.1-2024, chapter 2.
//! A variable that the script has set to a literal is expanded and split like in a shell. Everything that only a shell
//! can resolve (`$(…)`, arithmetic, unset variables) stays as it is written and marks its word as open.

mod arrays;
pub(crate) mod reach;
mod redirections;

use std::collections::BTreeMap;

use self::arrays::{Assignment, add, assignment};
use super::cursor::{Cursor, LONGEST_VALUE, MOST_EXPANDED, MOST_WORDS};

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellWord {
    /// The word after expansion and quote removal.
    pub text: String,
    /// Line of the script, from 1.
    pub line: usize,
    /// True if part of the word is known only when the script runs.
    pub is_open: bool,
}

/// A simple command: its words without redirections and leading assignments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<ShellWord>,
}

/// Returns the simple commands of a script, in document order. Conditions are not evaluated: the commands of all
/// branches are returned.
#[must_use]
pub fn commands(script: &str) -> Vec<Command> {
    let mut reader = Reader {
        script: Cursor::new(script),
        variables: BTreeMap::new(),
        arrays: BTreeMap::new(),
        is_in_array: false,
        documents: Vec::new(),
        room: MOST_EXPANDED,
    };
    let mut commands = Vec::new();
    let mut current = Command::default();
    let mut is_assigning = true;
    let mut count = 0;
    while count < MOST_WORDS {
        count += 1;
        match reader.next() {
            Token::End => break,
            Token::Separator => {
                if !current.words.is_empty() {
                    commands.push(std::mem::take(&mut current));
                }
                is_assigning = true;
            }
            Token::Words(words) => {
                for word in words {
                    let is_keyword = current.words.is_empty()
                        && matches!(
                            word.text.as_str(),
                            "if" | "then" | "else" | "elif" | "while" | "until" | "do" | "!" | "{" | "time"
                        );
                    if is_keyword {
                        continue;
                    }
                    if is_assigning && matches!(word.text.as_str(), "export" | "readonly" | "local" | "declare") {
                        current.words.push(word);
                        continue;
                    }
                    if is_assigning && let Some(Assignment { name, value, adds }) = assignment(&word.text) {
                        if word.is_open {
                            reader.variables.remove(name);
                        } else if !adds && value.len() <= LONGEST_VALUE {
                            reader.variables.insert(name.to_owned(), value.to_owned());
                        } else if let Some(known) = reader.variables.get_mut(name).filter(|_| adds)
                            && known.len() + value.len() <= LONGEST_VALUE
                        {
                            known.push_str(value);
                        }
                        if !current.words.is_empty() {
                            current.words.push(word);
                        }
                        continue;
                    }
                    is_assigning = false;
                    current.words.push(word);
                }
            }
        }
    }
    if !current.words.is_empty() {
        commands.push(current);
    }
    commands
}

enum Token {
    Words(Vec<ShellWord>),
    Separator,
    End,
}

struct Reader {
    script: Cursor,
    variables: BTreeMap<String, String>,
    /// Arrays that are set to words: `ARGS=(a b)`.
    arrays: BTreeMap<String, Vec<ShellWord>>,
    is_in_array: bool,
    /// Delimiters of here-documents whose bodies begin at the next line; true if tabs are stripped from them.
    documents: Vec<(String, bool)>,
    /// Number of bytes of variables that may still be expanded.
    room: usize,
}

impl Reader {
    fn next(&mut self) -> Token {
        loop {
            match self.script.peek(0) {
                None => return Token::End,
                Some(' ' | '\t' | '\r') => {
                    self.script.take();
                }
                Some('\\') if self.script.peek(1) == Some('\n') => {
                    self.script.take();
                    self.script.take();
                }
                Some('#') => {
                    while self.script.peek(0).is_some_and(|char| char != '\n') {
                        self.script.take();
                    }
                }
                Some('\n') => {
                    self.script.take();
                    self.skip_documents();
                    return Token::Separator;
                }
                Some(';' | '&' | '|' | '(' | ')') => {
                    // `&>` is a redirection.
                    if self.script.peek(0) == Some('&') && self.script.peek(1) == Some('>') {
                        self.script.take();
                        self.redirection();
                        continue;
                    }
                    self.script.take();
                    return Token::Separator;
                }
                Some('<' | '>') => self.redirection(),
                Some(digit) if digit.is_ascii_digit() && matches!(self.script.peek(1), Some('<' | '>')) => {
                    self.script.take();
                    self.redirection();
                }
                Some(_) => return Token::Words(self.word()),
            }
        }
    }

    /// Reads up to the closing parenthesis or brace of the one here, and returns all of it.
    fn parenthesis(&mut self, open: char, close: char) -> String {
        let mut text = String::new();
        let mut depth = 0_usize;
        while let Some(char) = self.script.take() {
            text.push(char);
            if char == open {
                depth += 1;
            } else if char == close {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            } else if char == '\\' {
                text.extend(self.script.take());
            }
        }
        text
    }

    /// Reads a word. A known unquoted variable may split it into several words, or yield none.
    fn word(&mut self) -> Vec<ShellWord> {
        let mut words = Vec::new();
        let mut word = ShellWord { text: String::new(), line: self.script.line, is_open: false };
        let mut is_there = false;
        while let Some(char) = self.script.peek(0) {
            match char {
                '(' if words.is_empty() && !self.is_in_array && word.text.ends_with('=') => {
                    match assignment(&word.text).map(|it| (it.name.to_owned(), it.adds)) {
                        Some((name, adds)) => self.array_literal(name, adds),
                        None => break,
                    }
                    return words;
                }
                ' ' | '\t' | '\n' | '\r' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\\' => {
                    self.script.take();
                    match self.script.take() {
                        Some('\n') | None => {}
                        Some(escaped) => {
                            word.text.push(escaped);
                            is_there = true;
                        }
                    }
                }
                '\'' => {
                    self.script.take();
                    is_there = true;
                    while let Some(inner) = self.script.take().filter(|inner| *inner != '\'') {
                        word.text.push(inner);
                    }
                }
                '"' => {
                    self.script.take();
                    is_there = true;
                    self.double_quoted(&mut word, &mut words);
                }
                '$' | '`' => {
                    if let Some((elements, _)) = self.elements() {
                        let text =
                            |it: &ShellWord| it.text.split([' ', '\t', '\n']).map(str::to_owned).collect::<Vec<_>>();
                        let split = elements.iter().flat_map(|it| text(it).into_iter().map(|text| (text, it.is_open)));
                        let fields: Vec<_> = split.filter(|(text, _)| !text.is_empty()).collect();
                        is_there |= !fields.is_empty();
                        add(fields, &mut word, &mut words, self.script.line);
                        continue;
                    }
                    let Some(value) = self.expansion(&mut word) else {
                        is_there = true;
                        continue;
                    };
                    let mut fields = value.split([' ', '\t', '\n']).filter(|field| !field.is_empty());
                    if value.starts_with([' ', '\t', '\n']) && is_there {
                        words.push(std::mem::replace(
                            &mut word,
                            ShellWord { text: String::new(), line: self.script.line, is_open: false },
                        ));
                        is_there = false;
                    }
                    if let Some(first) = fields.next() {
                        word.text.push_str(first);
                        is_there = true;
                    }
                    for field in fields {
                        let next = ShellWord { text: field.to_owned(), line: self.script.line, is_open: false };
                        words.push(std::mem::replace(&mut word, next));
                    }
                }
                _ => {
                    self.script.take();
                    word.text.push(char);
                    is_there = true;
                }
            }
        }
        if is_there {
            words.push(word);
        }
        words
    }

    fn double_quoted(&mut self, word: &mut ShellWord, words: &mut Vec<ShellWord>) {
        while let Some(char) = self.script.peek(0) {
            match char {
                '"' => {
                    self.script.take();
                    return;
                }
                '\\' => {
                    self.script.take();
                    match self.script.take() {
                        Some('\n') | None => {}
                        Some(escaped @ ('"' | '\\' | '$' | '`')) => word.text.push(escaped),
                        Some(other) => word.text.extend(['\\', other]),
                    }
                }
                '$' | '`' => {
                    if let Some((elements, is_joined)) = self.elements() {
                        let is_open = elements.iter().any(|it| it.is_open);
                        let texts = elements.into_iter().map(|it| (it.text, it.is_open));
                        let texts = if is_joined {
                            vec![(texts.map(|(text, _)| text).collect::<Vec<_>>().join(" "), is_open)]
                        } else {
                            texts.collect()
                        };
                        add(texts, word, words, self.script.line);
                    } else if let Some(value) = self.expansion(word) {
                        word.text.push_str(&value);
                    }
                }
                _ => {
                    self.script.take();
                    word.text.push(char);
                }
            }
        }
    }

    /// Returns the value of the expansion that `$` or a backquote begins. `None` if only a shell knows it; then it is
    /// added to the word as it is written.
    fn expansion(&mut self, word: &mut ShellWord) -> Option<String> {
        if self.script.take() == Some('`') {
            word.is_open = true;
            while self.script.take().is_some_and(|char| char != '`') {}
            word.text.push_str("`…`");
            return None;
        }
        let written = match self.script.peek(0) {
            Some('(') => self.parenthesis('(', ')'),
            Some('{') => self.parenthesis('{', '}'),
            Some('\'') => {
                // `$'…'`: C escapes, which user data does not need, are not interpreted.
                self.script.take();
                let mut text = String::new();
                while let Some(inner) = self.script.take().filter(|inner| *inner != '\'') {
                    text.push(inner);
                }
                word.text.push_str(&text);
                return None;
            }
            Some(first) if first == '_' || first.is_ascii_alphabetic() => {
                let mut name = String::new();
                while let Some(char) = self.script.peek(0).filter(|char| *char == '_' || char.is_ascii_alphanumeric()) {
                    name.push(char);
                    self.script.take();
                }
                name
            }
            Some(special @ ('@' | '*' | '#' | '?' | '!' | '-' | '$' | '0'..='9')) => {
                self.script.take();
                special.to_string()
            }
            _ => {
                word.text.push('$');
                return None;
            }
        };
        let name = written.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(&written);
        if let Some(value) = self.variables.get(name).filter(|value| value.len() <= self.room) {
            self.room -= value.len();
            return Some(value.clone());
        }
        word.is_open = true;
        word.text.push('$');
        // Blanks and quotes in it are syntax of the shell, not of the program that splits the value next.
        let is_plain = !written.contains(|char: char| char.is_whitespace() || matches!(char, '"' | '\'' | '\\'));
        match written.chars().next() {
            Some('(') if !is_plain => word.text.push_str("(…)"),
            Some('{') if !is_plain => word.text.push_str("{…}"),
            _ => word.text.push_str(&written),
        }
        None
    }
}
