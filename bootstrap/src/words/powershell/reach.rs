//! The place at which PowerShell stops in a script: a syntax error, `exit`, `return` or `throw`.
//!
//! PowerShell parses the whole script before it runs any of it. Source: about_Parsing, about_Quoting_Rules,
//! about_Comments and about_Language_Keywords of PowerShell; `ForceStartNewToken` in CharTraits.cs of PowerShell.

use super::super::cursor::Cursor;
use super::super::reach::{Cause, Halt, Scan, Stop};

/// Returns why nothing of the script runs, or else the first place behind which nothing does; `None` if there is none,
/// or if it is uncertain.
pub(crate) fn stop(script: &str) -> Option<Stop> {
    let lower = script.to_ascii_lowercase();
    // After `--%`, quotes and braces mean what another program makes of them.
    if lower.contains("--%") {
        return None;
    }
    let mut scanner = Scanner {
        script: Cursor::new(script),
        open: Vec::new(),
        leaves: None,
        is_trapped: lower.lines().any(|line| line.trim_start().starts_with("trap")),
        is_start: true,
        last: '\n',
        doubt: None,
    };
    match scanner.whole() {
        Err(Halt::At(line, cause)) => Some(Stop { line, from: 1, cause }),
        Ok(()) | Err(Halt::Unsure) => {
            let (line, name) = scanner.leaves?;
            Some(Stop { line, from: line + 1, cause: Cause::Leaves(name) })
        }
    }
}

struct Scanner {
    script: Cursor,
    /// Tokens that are not closed yet, with their lines. A string is among them for the expressions in it.
    open: Vec<(&'static str, usize)>,
    /// The first statement that ends the script, with its line.
    leaves: Option<(usize, &'static str)>,
    /// True if `trap` may let the script go on after `throw`.
    is_trapped: bool,
    /// True if a statement of the script may begin here.
    is_start: bool,
    /// The last character that is no blank.
    last: char,
    /// The line with a `#` that begins a comment or not, depending on what the word before it is.
    doubt: Option<usize>,
}

impl Scanner {
    fn whole(&mut self) -> Scan<()> {
        while let Some(char) = self.script.peek(0) {
            if self.open.last().is_some_and(|(token, _)| *token == "\"") {
                self.string(char);
                continue;
            }
            let is_syntax = "'\"{}()@`<".contains(char) || is_single(char) || is_double(char);
            if is_syntax && self.doubt == Some(self.script.line) {
                return Err(Halt::Unsure);
            }
            self.code(char)?;
        }
        match self.open.last() {
            Some(&(token, line)) => Err(Halt::At(line, Cause::Unclosed(token))),
            None => Ok(()),
        }
    }

    /// Reads a piece of a string in double quotes.
    fn string(&mut self, char: char) {
        let line = self.script.line;
        self.script.take();
        match char {
            '`' => drop(self.script.take()),
            '$' if self.script.peek(0) == Some('(') => {
                self.script.take();
                self.open.push(("$(", line));
            }
            _ if is_double(char) => {
                // Two of them are one in the string.
                if self.script.peek(0).is_some_and(is_double) {
                    self.script.take();
                } else {
                    self.open.pop();
                }
            }
            _ => {}
        }
    }

    fn code(&mut self, char: char) -> Scan<()> {
        let line = self.script.line;
        match char {
            ' ' | '\t' | '\r' => drop(self.script.take()),
            '\n' | ';' => {
                self.script.take();
                // An operator at the end of a line continues it.
                self.is_start = char == ';' || !"|,=+-*/%&.!".contains(self.last);
                if char == ';' {
                    self.last = char;
                }
            }
            '#' => self.hash(),
            '<' if self.script.peek(1) == Some('#') => return self.comment(),
            '@' if self.script.peek(1).is_some_and(|next| is_single(next) || is_double(next)) => {
                return self.here_string();
            }
            '$' if self.script.peek(1) == Some('{') => return self.braced_variable(),
            '{' => self.push("{"),
            '(' => self.push("("),
            '}' | ')' => return self.close(char),
            '`' => {
                self.script.take();
                self.script.take();
                self.spend(char);
            }
            _ if is_single(char) => return self.literal(),
            _ if is_double(char) => self.push("\""),
            _ if char.is_alphabetic() && self.is_start && self.open.is_empty() => self.keyword(line),
            _ => {
                self.script.take();
                self.spend(char);
            }
        }
        Ok(())
    }

    /// Notes that `char` was read as a part of a statement.
    fn spend(&mut self, char: char) {
        self.is_start = false;
        self.last = char;
    }

    fn push(&mut self, token: &'static str) {
        self.open.push((token, self.script.line));
        let char = self.script.take();
        self.spend(char.unwrap_or_default());
    }

    fn close(&mut self, char: char) -> Scan<()> {
        let line = self.script.line;
        self.script.take();
        self.spend(char);
        let (token, opening) = if char == '}' { ("}", "{") } else { (")", "(") };
        match self.open.pop() {
            Some((open, _)) if open.ends_with(opening) => Ok(()),
            Some((open, line)) => Err(Halt::At(line, Cause::Unclosed(open))),
            None => Err(Halt::At(line, Cause::Stray(token))),
        }
    }

    /// Reads the word that begins a statement of the script.
    fn keyword(&mut self, line: usize) {
        const KEYWORDS: [&str; 3] = ["exit", "return", "throw"];
        let is_of_word = |char: &char| char.is_alphanumeric() || "-_:.\\/".contains(*char);
        let mut word = String::new();
        while let Some(char) = self.script.peek(0).filter(is_of_word) {
            word.push(char.to_ascii_lowercase());
            self.script.take();
        }
        let ends = self.script.peek(0).is_none_or(|next| next.is_whitespace() || matches!(next, ';' | '('));
        let name = KEYWORDS.into_iter().find(|keyword| *keyword == word && ends);
        if let Some(name) = name.filter(|name| self.leaves.is_none() && !(*name == "throw" && self.is_trapped)) {
            self.leaves = Some((line, name));
        }
        self.spend(word.chars().last().unwrap_or_default());
    }

    /// Reads `#`, with the comment if it begins one.
    fn hash(&mut self) {
        let before = self.script.peek_back(1);
        if before.is_none_or(|before| before.is_whitespace() || "{}();,|&".contains(before)) {
            while self.script.peek(0).is_some_and(|char| char != '\n') {
                self.script.take();
            }
            return;
        }
        self.doubt = Some(self.script.line);
        self.script.take();
        self.spend('#');
    }

    fn comment(&mut self) -> Scan<()> {
        let line = self.script.line;
        self.script.take();
        self.script.take();
        loop {
            match self.script.take() {
                None => return Err(Halt::At(line, Cause::Unclosed("<#"))),
                Some('#') if self.script.peek(0) == Some('>') => {
                    self.script.take();
                    return Ok(());
                }
                Some(_) => {}
            }
        }
    }

    /// Reads a here-string: it ends at the quote and `@` at the very beginning of a line.
    fn here_string(&mut self) -> Scan<()> {
        let line = self.script.line;
        self.script.take();
        let quote = self.script.take();
        let token = match quote {
            Some('\'') => "@'",
            Some('"') => "@\"",
            _ => return Err(Halt::Unsure),
        };
        while let Some(char) = self.script.take().filter(|char| *char != '\n') {
            if !char.is_whitespace() {
                return Err(Halt::Unsure);
            }
        }
        loop {
            if self.script.peek(0) == quote && self.script.peek(1) == Some('@') {
                self.script.take();
                self.script.take();
                self.spend('@');
                return Ok(());
            }
            while self.script.peek(0).is_some_and(|char| char != '\n') {
                self.script.take();
            }
            if self.script.take().is_none() {
                return Err(Halt::At(line, Cause::Unclosed(token)));
            }
        }
    }

    /// Reads `${…}`, whose name may hold any character.
    fn braced_variable(&mut self) -> Scan<()> {
        loop {
            match self.script.take() {
                None | Some('\n') => return Err(Halt::Unsure),
                Some('`') => drop(self.script.take()),
                Some('}') => {
                    self.spend('}');
                    return Ok(());
                }
                Some(_) => {}
            }
        }
    }

    /// Reads a string in single quotes.
    fn literal(&mut self) -> Scan<()> {
        let line = self.script.line;
        self.script.take();
        loop {
            match self.script.take() {
                None => return Err(Halt::At(line, Cause::Unclosed("'"))),
                // Two of them are one in the string.
                Some(char) if is_single(char) && self.script.peek(0).is_some_and(is_single) => {
                    self.script.take();
                }
                Some(char) if is_single(char) => {
                    self.spend(char);
                    return Ok(());
                }
                Some(_) => {}
            }
        }
    }
}

/// Returns true for a quote that PowerShell takes for `'`.
fn is_single(char: char) -> bool {
    matches!(char, '\'' | '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}')
}

/// Returns true for a quote that PowerShell takes for `"`.
fn is_double(char: char) -> bool {
    matches!(char, '"' | '\u{201c}' | '\u{201d}' | '\u{201e}')
}
