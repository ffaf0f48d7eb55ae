//! Expressions of PowerShell that can be evaluated without running them: strings, arrays, hashtables, variables, `+`
//! and `-join`.
//!
//! Source: about_Operators, about_Arrays, about_Hash_Tables and about_Quoting_Rules of PowerShell.

use super::{LONGEST_VALUE, PowerShellWord, Reader};

/// Maximum nesting depth; no script is nested deeper.
const DEEPEST: usize = 16;
/// Maximum number of items of an array; scripts have fewer.
const MOST_ITEMS: usize = 1_000;

/// Value of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A string, and true if part of it is known only when the script runs.
    Text(String, bool),
    List(Vec<Value>),
    Table(Vec<(String, Value)>),
}

impl Value {
    /// Returns the value as an argument: PowerShell joins the items of an array with blanks.
    pub(super) fn text(&self) -> (String, bool) {
        match self {
            Self::Text(text, is_open) => (text.clone(), *is_open),
            Self::List(items) => join(items, " "),
            Self::Table(_) => ("$(…)".to_owned(), true),
        }
    }

    fn items(self) -> Vec<Self> {
        match self {
            Self::List(items) => items,
            other => vec![other],
        }
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(text, _) => text.len() + 1,
            Self::List(items) => items.iter().map(Self::size).sum(),
            Self::Table(entries) => entries.iter().map(|(key, value)| key.len() + value.size()).sum(),
        }
    }

    /// Evaluates `left + right`.
    pub(super) fn plus(self, right: Self) -> Option<Self> {
        let sum = match (self, right) {
            (Self::Text(mut text, is_open), right @ (Self::Text(..) | Self::List(_))) => {
                let (more, is_more_open) = right.text();
                text.push_str(&more);
                Self::Text(text, is_open || is_more_open)
            }
            (Self::List(mut items), right) => {
                items.extend(right.items());
                Self::List(items)
            }
            (Self::Table(mut entries), Self::Table(more)) => {
                entries.extend(more);
                Self::Table(entries)
            }
            _ => return None,
        };
        (sum.size() <= LONGEST_VALUE).then_some(sum)
    }
}

fn join(items: &[Value], separator: &str) -> (String, bool) {
    let texts: Vec<(String, bool)> = items.iter().map(Value::text).collect();
    let is_open = texts.iter().any(|(_, is_open)| *is_open);
    (texts.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join(separator), is_open)
}

impl Reader {
    /// Parses the expression that begins here; `None` if part of it is not understood.
    pub(super) fn expression(&mut self, is_inside: bool) -> Option<Value> {
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let value = self.sum(is_inside);
        self.depth -= 1;
        value
    }

    fn sum(&mut self, is_inside: bool) -> Option<Value> {
        self.gap(is_inside);
        if self.operator("-join") {
            let joined = join(&self.list(is_inside)?.items(), "");
            return Some(Value::Text(joined.0, joined.1));
        }
        let mut left = self.list(is_inside)?;
        loop {
            self.gap(is_inside);
            if self.script.peek(0) == Some('+') && self.script.peek(1) != Some('+') {
                self.script.take();
                self.any_gap();
                left = left.plus(self.list(is_inside)?)?;
            } else if self.operator("-join") {
                self.any_gap();
                let (separator, _) = self.list(is_inside)?.text();
                let (text, is_open) = join(&left.items(), &separator);
                left = Value::Text(text, is_open);
            } else {
                return Some(left);
            }
        }
    }

    /// Skips blanks, and inside parentheses also line ends.
    fn gap(&mut self, is_inside: bool) {
        if is_inside { self.any_gap() } else { self.blanks() }
    }

    fn blanks(&mut self) {
        loop {
            match (self.script.peek(0), self.script.peek(1)) {
                (Some(' ' | '\t' | '\r'), _) => drop(self.script.take()),
                (Some('`'), Some('\n' | '\r')) => while self.script.take().is_some_and(|char| char != '\n') {},
                _ => return,
            }
        }
    }

    fn any_gap(&mut self) {
        loop {
            self.blanks();
            match self.script.peek(0) {
                Some('\n') => drop(self.script.take()),
                Some('#') => {
                    while self.script.peek(0).is_some_and(|char| char != '\n') {
                        self.script.take();
                    }
                }
                _ => return,
            }
        }
    }

    fn operator(&mut self, name: &str) -> bool {
        let is_here = name
            .chars()
            .enumerate()
            .all(|(ahead, char)| self.script.peek(ahead).is_some_and(|here| here.eq_ignore_ascii_case(&char)));
        let ends = !self.script.peek(name.len()).is_some_and(char::is_alphanumeric);
        if is_here && ends {
            for _ in name.chars() {
                self.script.take();
            }
        }
        is_here && ends
    }

    /// Parses `a, b`, which binds tighter than any operator.
    fn list(&mut self, is_inside: bool) -> Option<Value> {
        self.gap(is_inside);
        let first = self.primary()?;
        let mut items = Vec::new();
        loop {
            self.gap(is_inside);
            if self.script.peek(0) != Some(',') || items.len() > MOST_ITEMS {
                break;
            }
            self.script.take();
            self.any_gap();
            items.push(self.primary()?);
        }
        if items.is_empty() {
            return Some(first);
        }
        items.insert(0, first);
        Some(Value::List(items))
    }

    fn primary(&mut self) -> Option<Value> {
        while self.script.peek(0) == Some('[') {
            self.cast()?;
        }
        let mut word = PowerShellWord::at(self.script.line);
        let value = match (self.script.peek(0)?, self.script.peek(1)) {
            ('\'' | '\u{2018}' | '\u{2019}', _) => {
                self.script.take();
                self.single_quoted(&mut word);
                Value::Text(word.text, false)
            }
            ('"' | '\u{201c}' | '\u{201d}', _) => {
                self.script.take();
                self.double_quoted(&mut word);
                Value::Text(word.text, word.is_open)
            }
            ('@', Some('\'' | '"')) => {
                self.here_string(&mut word)?;
                Value::Text(word.text, word.is_open)
            }
            ('@', Some('{')) => self.table()?,
            ('@', Some('(')) => {
                self.script.take();
                self.script.take();
                let mut items = Vec::new();
                while !self.closes(')') {
                    items.extend(self.expression(true)?.items());
                    if items.len() > MOST_ITEMS {
                        return None;
                    }
                }
                Value::List(items)
            }
            ('(', _) => {
                self.script.take();
                let value = self.expression(true)?;
                self.closes(')').then_some(value)?
            }
            ('$', Some('(')) => return None,
            ('$', _) => self.variable_value()?,
            (digit, _) if digit.is_ascii_digit() => {
                while let Some(digit) = self.script.peek(0).filter(char::is_ascii_digit) {
                    word.text.push(digit);
                    self.script.take();
                }
                if self.script.peek(0).is_some_and(|char| char.is_alphanumeric() || char == '.') {
                    return None;
                }
                Value::Text(word.text, false)
            }
            _ => return None,
        };
        // Members, indexes and calls are not evaluated.
        let is_whole = !matches!(self.script.peek(0), Some('.' | '[' | '(' | '{' | '=' | '+'))
            || (self.script.peek(0) == Some('+') && self.script.peek(1) != Some('+'));
        is_whole.then_some(value)
    }

    /// Skips separators, and `close` if it follows.
    fn closes(&mut self, close: char) -> bool {
        loop {
            self.any_gap();
            match self.script.peek(0) {
                Some(';') => drop(self.script.take()),
                Some(char) if char == close => {
                    self.script.take();
                    return true;
                }
                _ => return false,
            }
        }
    }

    /// Parses a cast such as `[string]`; a type other than these may change the value.
    fn cast(&mut self) -> Option<()> {
        const KNOWN: [&str; 7] =
            ["[string]", "[string[]]", "[array]", "[hashtable]", "[ordered]", "[object[]]", "[int]"];
        let mut cast = String::new();
        while let Some(char) = self.script.peek(0).filter(|char| matches!(char, '[' | ']') || char.is_alphanumeric()) {
            cast.push(char.to_ascii_lowercase());
            self.script.take();
        }
        KNOWN.contains(&cast.as_str()).then_some(())
    }

    fn variable_value(&mut self) -> Option<Value> {
        let mut word = PowerShellWord::at(self.script.line);
        let value = self.variable(&mut word);
        value.or(Some(Value::Text(word.text, word.is_open)))
    }

    /// Parses `@{ Name = value; 'Other' = value }`.
    fn table(&mut self) -> Option<Value> {
        self.script.take();
        self.script.take();
        let mut entries = Vec::new();
        while !self.closes('}') {
            let mut key = PowerShellWord::at(self.script.line);
            match self.script.peek(0)? {
                '\'' => {
                    self.script.take();
                    self.single_quoted(&mut key);
                }
                '"' => {
                    self.script.take();
                    self.double_quoted(&mut key);
                }
                _ => {
                    while let Some(char) = self.script.peek(0).filter(|char| char.is_alphanumeric() || *char == '_') {
                        key.text.push(char);
                        self.script.take();
                    }
                }
            }
            self.any_gap();
            if key.text.is_empty() || self.script.take() != Some('=') || entries.len() > MOST_ITEMS {
                return None;
            }
            self.any_gap();
            // A line end ends an entry, although the table continues.
            let value = self.entry()?;
            entries.push((key.text, value));
        }
        Some(Value::Table(entries))
    }

    fn entry(&mut self) -> Option<Value> {
        let value = self.expression(false)?;
        self.blanks();
        matches!(self.script.peek(0), Some('\n' | ';' | '}' | '#')).then_some(value)
    }

    /// Parses `@'…'@` and `@"…"@`, whose delimiters are on lines of their own.
    pub(super) fn here_string(&mut self, word: &mut PowerShellWord) -> Option<()> {
        self.script.take();
        let quote = self.script.take()?;
        self.blanks();
        if self.script.take() != Some('\n') {
            return None;
        }
        let mut is_line_start = true;
        loop {
            let char = self.script.peek(0)?;
            if is_line_start && char == quote && self.script.peek(1) == Some('@') {
                self.script.take();
                self.script.take();
                // The last line end is not part of the text.
                let text = word.text.trim_end_matches('\n').len().max(word.text.len().saturating_sub(1));
                word.text.truncate(text);
                return Some(());
            }
            is_line_start = char == '\n';
            match char {
                '$' if quote == '"' => self.put_in(word),
                '`' if quote == '"' => {
                    self.script.take();
                    word.text.extend(self.script.take());
                }
                '\r' => drop(self.script.take()),
                _ => word.text.extend(self.script.take()),
            }
        }
    }
}
