//! Words, quotes, expansions, redirections and here-documents, as far as it takes to find their ends.

use super::{Open, Partial, Scanner, Word};
use crate::words::reach::{Halt, Scan};

impl Scanner {
    /// Skips blanks, continuations and a comment.
    pub(super) fn blanks(&mut self) {
        loop {
            match (self.script.peek(0), self.script.peek(1)) {
                (Some(' ' | '\t' | '\r'), _) => drop(self.script.take()),
                (Some('\\'), Some('\n')) => {
                    self.script.take();
                    self.script.take();
                }
                (Some('#'), _) => {
                    while self.script.peek(0).is_some_and(|char| char != '\n') {
                        self.script.take();
                    }
                }
                _ => return,
            }
        }
    }

    /// Skips blanks, comments and line ends.
    pub(super) fn gap(&mut self) -> Scan<()> {
        loop {
            self.blanks();
            if self.script.peek(0) != Some('\n') {
                return Ok(());
            }
            self.script.take();
            self.skip_documents()?;
        }
    }

    /// Returns true if this word is next.
    pub(super) fn is_here(&self, word: &str) -> bool {
        word.chars().enumerate().all(|(ahead, char)| self.script.peek(ahead) == Some(char))
            && self.script.peek(word.len()).is_none_or(|next| " \t\r\n;&|<>()".contains(next))
    }

    pub(super) fn word(&mut self) -> Scan<Word> {
        let mut word = Word { text: String::new(), is_plain: true };
        while let Some(char) = self.script.peek(0) {
            match char {
                '(' if word.is_plain && word.text.ends_with('=') => {
                    self.deeper(Self::array)?;
                    word.is_plain = false;
                }
                '(' if word.text.ends_with(['?', '*', '+', '@', '!']) => {
                    // bash allows such names of functions.
                    if self.script.peek(1) == Some(')') {
                        return Err(Halt::Unsure);
                    }
                    self.balanced()?;
                    word.is_plain = false;
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\\' => {
                    self.script.take();
                    match self.script.take() {
                        Some('\n') | None => {}
                        Some(escaped) => {
                            word.is_plain = false;
                            word.text.push(escaped);
                        }
                    }
                }
                '\'' | '"' | '$' | '`' => {
                    word.is_plain = false;
                    self.quoted(char, &mut word.text)?;
                }
                _ => {
                    self.script.take();
                    word.text.push(char);
                }
            }
        }
        Ok(word)
    }

    /// Reads the quotes or the expansion that begin here with `char`.
    fn quoted(&mut self, char: char, text: &mut String) -> Scan<()> {
        match char {
            '\'' => self.single(text),
            '"' => self.double(text),
            '$' => {
                text.push('$');
                self.deeper(|scanner| scanner.expansion(false))
            }
            _ => {
                text.push('`');
                self.backquotes()
            }
        }
    }

    fn single(&mut self, text: &mut String) -> Scan<()> {
        let open = Open { name: "'", line: self.script.line };
        self.script.take();
        loop {
            match self.script.take() {
                None => return open.unclosed(),
                Some('\'') => return Ok(()),
                Some(char) => text.push(char),
            }
        }
    }

    fn double(&mut self, text: &mut String) -> Scan<()> {
        let open = Open { name: "\"", line: self.script.line };
        self.script.take();
        loop {
            match self.script.peek(0) {
                None => return open.unclosed(),
                Some('"') => {
                    self.script.take();
                    return Ok(());
                }
                Some('\\') => {
                    self.script.take();
                    text.extend(self.script.take());
                }
                Some('$') => {
                    text.push('$');
                    self.deeper(|scanner| scanner.expansion(true))?;
                }
                Some('`') => {
                    text.push('`');
                    self.backquotes()?;
                }
                Some(char) => {
                    self.script.take();
                    text.push(char);
                }
            }
        }
    }

    /// Reads up to the next backquote, as POSIX finds the end.
    fn backquotes(&mut self) -> Scan<()> {
        let open = Open { name: "`", line: self.script.line };
        self.script.take();
        loop {
            match self.script.take() {
                None => return open.unclosed(),
                Some('`') => return Ok(()),
                Some('\\') => drop(self.script.take()),
                Some(_) => {}
            }
        }
    }

    /// Reads the expansion that `$` begins.
    fn expansion(&mut self, is_quoted: bool) -> Scan<()> {
        let line = self.script.line;
        self.script.take();
        match self.script.peek(0) {
            Some('(') if self.script.peek(1) == Some('(') => self.arithmetic(),
            Some('(') => {
                self.script.take();
                let outer = std::mem::take(&mut self.documents);
                self.list(Open { name: "$(", line }, &[")"])?;
                // Shells differ in where the body of such a here-document begins.
                if !self.documents.is_empty() {
                    return Err(Halt::Unsure);
                }
                self.documents = outer;
                Ok(())
            }
            Some('{') => self.braces(is_quoted, Open { name: "${", line }),
            Some('\'') if !is_quoted => self.c_string(),
            // `$$` and `$#`: neither begins an expansion or a comment.
            Some('$' | '#') => {
                self.script.take();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads `'…'` after `$`, in which a backslash escapes a quote.
    fn c_string(&mut self) -> Scan<()> {
        let open = Open { name: "$'", line: self.script.line };
        self.script.take();
        loop {
            match self.script.take() {
                None => return open.unclosed(),
                Some('\'') => return Ok(()),
                Some('\\') => drop(self.script.take()),
                Some(_) => {}
            }
        }
    }

    /// Reads `{…}` after `$`, up to the first brace that is not quoted.
    fn braces(&mut self, is_quoted: bool, open: Open) -> Scan<()> {
        self.script.take();
        // `${ command; }` of bash 5.3.
        if matches!(self.script.peek(0), Some(' ' | '\t' | '\n' | '|')) {
            return Err(Halt::Unsure);
        }
        let mut text = String::new();
        loop {
            match self.script.peek(0) {
                None => return open.unclosed(),
                Some('}') => {
                    self.script.take();
                    return Ok(());
                }
                Some('\\') => {
                    self.script.take();
                    self.script.take();
                }
                // Whether it is a quote in quotes depends on the operator.
                Some('\'') if is_quoted => return Err(Halt::Unsure),
                Some('$') => self.deeper(|scanner| scanner.expansion(is_quoted))?,
                Some(char @ ('\'' | '"' | '`')) => self.quoted(char, &mut text)?,
                Some(_) => drop(self.script.take()),
            }
        }
    }

    /// Reads `((…))`. Two subshells may look like it.
    pub(super) fn arithmetic(&mut self) -> Scan<()> {
        self.balanced()?;
        let is_double = self.script.peek_back(1) == Some(')') && self.script.peek_back(2) == Some(')');
        if is_double { Ok(()) } else { Err(Halt::Unsure) }
    }

    /// Reads up to the parenthesis that closes the one here, if it is in the same line.
    fn balanced(&mut self) -> Scan<()> {
        let mut depth = 0_usize;
        let mut text = String::new();
        loop {
            match self.script.peek(0) {
                None | Some('\n') => return Err(Halt::Unsure),
                Some(char @ ('\'' | '"' | '$' | '`')) => {
                    self.quoted(char, &mut text)?;
                    continue;
                }
                Some('(') => depth += 1,
                Some(')') => depth = depth.saturating_sub(1),
                Some('\\') => drop(self.script.take()),
                Some(_) => {}
            }
            self.script.take();
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Reads the parentheses of `NAME=(…)`.
    fn array(&mut self) -> Scan<()> {
        let open = Open { name: "(", line: self.script.line };
        self.script.take();
        loop {
            self.gap()?;
            match self.script.peek(0) {
                None => return open.unclosed(),
                Some(')') => {
                    self.script.take();
                    return Ok(());
                }
                Some(';' | '&' | '|' | '<' | '>' | '(') => return Err(Halt::Unsure),
                Some(_) => drop(self.word()?),
            }
        }
    }

    /// Reads an operator of redirection. Its target is the next word.
    pub(super) fn redirection(&mut self, command: &mut Partial) -> Scan<()> {
        // `2>` and `{name}>`
        let is_descriptor = |word: &Word| {
            let text = &word.text;
            text.bytes().all(|byte| byte.is_ascii_digit()) || (text.starts_with('{') && text.ends_with('}'))
        };
        let is_attached = self.script.peek_back(1).is_some_and(|before| !before.is_whitespace());
        if is_attached
            && self.script.peek(0) != Some('&')
            && command.words.last().is_some_and(|word| word.is_plain && is_descriptor(word))
        {
            command.words.pop();
        }
        command.is_redirected = true;
        let open = Open { name: "(", line: self.script.line };
        let mut operator = String::new();
        while let Some(char) = self.script.peek(0).filter(|char| matches!(char, '<' | '>' | '&' | '|')) {
            operator.push(char);
            self.script.take();
        }
        match operator.as_str() {
            "<<" => {
                let strips = self.script.peek(0) == Some('-');
                if strips {
                    self.script.take();
                }
                self.blanks();
                let delimiter = self.word()?.text;
                if delimiter.is_empty() || delimiter.contains(['$', '`']) {
                    return Err(Halt::Unsure);
                }
                self.documents.push((delimiter, strips));
            }
            "<" | ">" if self.script.peek(0) == Some('(') => {
                self.script.take();
                self.list(open, &[")"])?;
                if !std::mem::take(&mut command.skips) {
                    command.words.push(Word { text: "$".to_owned(), is_plain: false });
                }
            }
            _ => command.skips = true,
        }
        Ok(())
    }

    /// Skips the bodies of here-documents. Without a delimiter, shells differ in what they take for the end.
    pub(super) fn skip_documents(&mut self) -> Scan<()> {
        for (delimiter, strips) in std::mem::take(&mut self.documents) {
            loop {
                let mut line = String::new();
                while let Some(char) = self.script.peek(0).filter(|char| *char != '\n') {
                    line.push(char);
                    self.script.take();
                }
                let line = if strips { line.trim_start_matches('\t') } else { &line };
                let is_end = line == delimiter;
                if self.script.take().is_none() && !is_end {
                    return Err(Halt::Unsure);
                }
                if is_end {
                    break;
                }
            }
        }
        Ok(())
    }
}
