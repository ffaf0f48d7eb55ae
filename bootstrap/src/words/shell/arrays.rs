//! Assignments, and bash arrays of words.
//!
//! Source: bash(1), Arrays.

use super::{Reader, ShellWord};

/// An assignment: `NAME=value`, or `NAME+=value`.
pub(super) struct Assignment<'t> {
    pub(super) name: &'t str,
    pub(super) value: &'t str,
    pub(super) adds: bool,
}

pub(super) fn assignment(text: &str) -> Option<Assignment<'_>> {
    let (name, value) = text.split_once('=')?;
    let (name, adds) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
    let mut chars = name.chars();
    let is_name = chars.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && chars.all(|char| char == '_' || char.is_ascii_alphanumeric());
    is_name.then_some(Assignment { name, value, adds })
}

/// Appends texts to a partial word: the first one continues it, each further one begins a new word.
pub(super) fn add(texts: Vec<(String, bool)>, word: &mut ShellWord, words: &mut Vec<ShellWord>, line: usize) {
    for (index, (text, is_open)) in texts.into_iter().enumerate() {
        if index > 0 {
            words.push(std::mem::replace(word, ShellWord { text: String::new(), line, is_open: false }));
        }
        word.text.push_str(&text);
        word.is_open |= is_open;
    }
}

impl Reader {
    /// Reads the words in the parentheses of `NAME=(…)`, which begin here.
    pub(super) fn array_literal(&mut self, name: String, adds: bool) {
        self.is_in_array = true;
        let mut elements = Vec::new();
        self.script.take();
        while let Some(char) = self.script.peek(0).filter(|char| *char != ')') {
            match char {
                '#' => while self.script.peek(0).is_some_and(|char| char != '\n') && self.script.take().is_some() {},
                ' ' | '\t' | '\n' | '\r' | ';' | '&' | '|' | '<' | '>' | '(' => {
                    self.script.take();
                }
                _ => elements.extend(self.word()),
            }
        }
        self.script.take();
        self.is_in_array = false;
        let array = self.arrays.entry(name).or_default();
        if !adds {
            array.clear();
        }
        array.extend(elements);
    }

    /// Reads an expansion of all elements of an array, `${NAME[@]}` or `${NAME[*]}`, if the script has set it. Returns
    /// its words, and true if in quotes they are one word.
    pub(super) fn elements(&mut self) -> Option<(Vec<ShellWord>, bool)> {
        let written: String =
            (1..).map_while(|ahead| self.script.peek(ahead)).take_while(|char| *char != '}').collect();
        let name = written.strip_prefix('{')?;
        let (name, is_joined) = match name.strip_suffix("[@]") {
            Some(name) => (name, false),
            None => (name.strip_suffix("[*]")?, true),
        };
        let array = self.arrays.get(name)?;
        let size = array.iter().map(|it| it.text.len() + 1).sum::<usize>();
        self.room = self.room.checked_sub(size)?;
        let array = array.clone();
        for _ in 0..written.chars().count() + 2 {
            self.script.take();
        }
        Some((array, is_joined))
    }
}
