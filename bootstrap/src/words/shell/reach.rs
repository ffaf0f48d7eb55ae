//! The place at which a shell stops reading a script: `exit`, `exec`, or a syntax error.
//!
//! A shell parses and runs one list of commands after the other, up to the end of a line. Source: POSIX.1-2024, chapter
//! 2; bash(1), Reserved Words and Compound Commands; `reserved_word_acceptable` in parse.y of bash.

mod quoting;

use super::super::cursor::Cursor;
use super::super::reach::{Cause, Halt, Scan, Stop};

/// Maximum nesting depth; no script is nested deeper.
const DEEPEST: usize = 40;
/// Reserved words that only end or divide a compound command.
const CLOSING: [&str; 8] = ["then", "elif", "else", "fi", "do", "done", "esac", "}"];

/// Returns the first place behind which nothing of the script runs; `None` if there is none, or if it is uncertain.
pub(crate) fn stop(script: &str) -> Option<Stop> {
    /// Words that give `exit`, `exec` or keywords another meaning.
    const CHANGES: [&str; 5] = ["expand_aliases", "execfail", "exit()", "exit ()", "function exit"];
    if CHANGES.iter().any(|change| script.contains(change)) {
        return None;
    }
    let mut scanner = Scanner { script: Cursor::new(script), documents: Vec::new(), depth: 0, start: 1 };
    match scanner.list(Open { name: "", line: 1 }, &[]) {
        Err(Halt::At(line, cause)) => {
            let from = if cause.is_fault() { scanner.start } else { line + 1 };
            Some(Stop { line, from, cause })
        }
        Ok(_) | Err(Halt::Unsure) => None,
    }
}

/// Tokens that end a list; none for the whole script.
type Closers = &'static [&'static str];

/// The token that began a construct.
#[derive(Clone, Copy)]
struct Open {
    name: &'static str,
    line: usize,
}

impl Open {
    fn unclosed<T>(self) -> Scan<T> {
        Err(Halt::At(self.line, Cause::Unclosed(self.name)))
    }
}

struct Word {
    /// The word without its quotes. Of expansions, only `$` or the backquote.
    text: String,
    /// True without quotes, escapes and expansions: only such words are reserved.
    is_plain: bool,
}

/// A command as far as it was read.
#[derive(Default)]
struct Partial {
    words: Vec<Word>,
    /// Line of the first word.
    line: usize,
    /// True if it may not run, or not in this shell: after `&&`, `||`, `|` or `!`. A function's header counts too.
    is_joined: bool,
    /// True after a compound command.
    is_compound: bool,
    is_redirected: bool,
    /// True if the next word is the target of a redirection.
    skips: bool,
}

impl Partial {
    fn joined() -> Self {
        Self { is_joined: true, ..Self::default() }
    }

    fn compound() -> Self {
        Self { is_compound: true, ..Self::joined() }
    }

    fn is_begun(&self) -> bool {
        !self.words.is_empty() || self.is_compound || self.is_redirected
    }

    fn may_be_keyword(&self) -> bool {
        self.words.is_empty() && !self.is_redirected
    }

    /// Returns the command if it ends the shell for certain.
    fn leaves(&self) -> Option<&'static str> {
        let (first, rest) = self.words.split_first()?;
        if self.is_joined || !first.is_plain {
            return None;
        }
        // Options of `exec`, values known only on the node, and what may call the bootstrap itself.
        let is_other = |word: &Word| !word.text.contains(['$', '`']) && !word.text.contains("bootstrap");
        let is_program = |word: &Word| !word.text.is_empty() && !word.text.starts_with('-');
        match first.text.as_str() {
            "exit" if rest.len() <= 1 && rest.iter().all(|word| word.text != "--help") => Some("exit"),
            "exec" if rest.first().is_some_and(is_program) && rest.iter().all(is_other) => Some("exec"),
            _ => None,
        }
    }
}

struct Scanner {
    script: Cursor,
    /// Delimiters of here-documents whose bodies begin at the next line; true if tabs are stripped from them.
    documents: Vec<(String, bool)>,
    depth: usize,
    /// Line at which the current list of the script begins.
    start: usize,
}

impl Scanner {
    /// Reads a nested construct.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Scan<T>) -> Scan<T> {
        if self.depth >= DEEPEST {
            return Err(Halt::Unsure);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Reads commands up to one of the closing tokens, and returns it.
    fn list(&mut self, open: Open, closers: Closers) -> Scan<&'static str> {
        self.deeper(|scanner| scanner.commands(open, closers))
    }

    fn commands(&mut self, open: Open, closers: Closers) -> Scan<&'static str> {
        let is_whole = closers.is_empty();
        let mut command = Partial::default();
        loop {
            self.blanks();
            let line = self.script.line;
            match self.script.peek(0) {
                None if is_whole => return ended(&command, is_whole).map(|()| ""),
                None => return open.unclosed(),
                Some('\n') => {
                    self.script.take();
                    self.skip_documents()?;
                    // After `&&`, `||` and `|` the list goes on in the next line.
                    if command.is_begun() || !command.is_joined {
                        ended(&command, is_whole)?;
                        command = Partial::default();
                        if is_whole {
                            self.start = self.script.line;
                        }
                    }
                }
                Some(';') => {
                    self.script.take();
                    if matches!(self.script.peek(0), Some(';' | '&')) {
                        while matches!(self.script.peek(0), Some(';' | '&')) {
                            self.script.take();
                        }
                        return if closers.contains(&";;") { Ok(";;") } else { Err(Halt::Unsure) };
                    }
                    ended(&command, is_whole)?;
                    command = Partial::default();
                }
                Some('&') if self.script.peek(1) == Some('>') => self.redirection(&mut command)?,
                Some(operator @ ('&' | '|')) => {
                    self.script.take();
                    let is_double = self.script.peek(0) == Some(operator);
                    if is_double || (operator == '|' && self.script.peek(0) == Some('&')) {
                        self.script.take();
                    }
                    let is_joined = is_double || operator == '|';
                    command = Partial { is_joined, ..Partial::default() };
                }
                Some('<' | '>') => self.redirection(&mut command)?,
                Some(')') if closers.contains(&")") => {
                    self.script.take();
                    return Ok(")");
                }
                Some(')') => return Err(Halt::At(line, Cause::Stray(")"))),
                Some('(') => self.parenthesis(&mut command)?,
                Some(_) => {
                    if let Some(closed) = self.command_word(&mut command, closers)? {
                        return Ok(closed);
                    }
                }
            }
        }
    }

    /// Reads `(…)`, `((…))`, or the parentheses of a function's header.
    fn parenthesis(&mut self, command: &mut Partial) -> Scan<()> {
        let open = Open { name: "(", line: self.script.line };
        if command.may_be_keyword() {
            if self.script.peek(1) == Some('(') {
                self.arithmetic()?;
            } else {
                self.script.take();
                self.list(open, &[")"])?;
            }
            *command = Partial::compound();
            return Ok(());
        }
        if command.words.len() != 1 || command.is_redirected {
            return Err(Halt::Unsure);
        }
        self.function_parentheses()?;
        *command = Partial::joined();
        Ok(())
    }

    fn function_parentheses(&mut self) -> Scan<()> {
        self.script.take();
        self.blanks();
        if self.script.take() == Some(')') { Ok(()) } else { Err(Halt::Unsure) }
    }

    /// Reads a word of a command, with all of the compound command that it begins. Returns the word if it ends the
    /// list.
    fn command_word(&mut self, command: &mut Partial, closers: Closers) -> Scan<Option<&'static str>> {
        let line = self.script.line;
        let word = self.word()?;
        if std::mem::take(&mut command.skips) {
            return Ok(None);
        }
        if command.may_be_keyword() && word.is_plain {
            if let Some(keyword) = CLOSING.into_iter().find(|it| *it == word.text) {
                let is_due = closers.contains(&keyword);
                return if is_due { Ok(Some(keyword)) } else { Err(Halt::At(line, Cause::Stray(keyword))) };
            }
            if self.keyword(&word.text, line, command)? {
                return Ok(None);
            }
        }
        if command.words.is_empty() {
            command.line = line;
        }
        command.words.push(word);
        Ok(None)
    }

    /// Reads what follows a reserved word. Returns false if the word is none.
    fn keyword(&mut self, word: &str, line: usize, command: &mut Partial) -> Scan<bool> {
        match word {
            "if" => self.conditional(Open { name: "if", line })?,
            "while" | "until" => {
                let open = Open { name: if word == "while" { "while" } else { "until" }, line };
                self.list(open, &["do"])?;
                self.list(open, &["done"])?;
            }
            "for" => self.repetition(Open { name: "for", line })?,
            "select" => self.repetition(Open { name: "select", line })?,
            "case" => self.case(Open { name: "case", line })?,
            "{" => {
                self.list(Open { name: "{", line }, &["}"])?;
            }
            "[[" => self.test()?,
            "!" => {
                command.is_joined = true;
                return Ok(true);
            }
            "time" => {
                self.blanks();
                if self.is_here("-p") {
                    self.word()?;
                }
                command.is_joined = true;
                return Ok(true);
            }
            "function" => {
                self.blanks();
                self.word()?;
                self.blanks();
                if self.script.peek(0) == Some('(') {
                    self.function_parentheses()?;
                }
                *command = Partial::joined();
                return Ok(true);
            }
            "coproc" => return Err(Halt::Unsure),
            _ => return Ok(false),
        }
        *command = Partial::compound();
        Ok(true)
    }

    fn conditional(&mut self, open: Open) -> Scan<()> {
        self.list(open, &["then"])?;
        loop {
            match self.list(open, &["elif", "else", "fi"])? {
                "elif" => {
                    self.list(open, &["then"])?;
                }
                "else" => {
                    self.list(open, &["fi"])?;
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    /// Reads the rest of `for` and `select`.
    fn repetition(&mut self, open: Open) -> Scan<()> {
        self.blanks();
        if self.script.peek(0) == Some('(') {
            self.arithmetic()?;
        } else {
            self.word()?;
            self.gap()?;
            if self.is_here("in") {
                self.word()?;
                self.items(open)?;
            }
        }
        self.body(open)
    }

    /// Reads the words after `in`.
    fn items(&mut self, open: Open) -> Scan<()> {
        loop {
            self.blanks();
            match self.script.peek(0) {
                None => return open.unclosed(),
                Some(';' | '\n') => return Ok(()),
                Some('&' | '|' | '<' | '>' | '(' | ')') => return Err(Halt::Unsure),
                Some(_) => drop(self.word()?),
            }
        }
    }

    /// Reads the body of a loop, which `do` or a brace begins.
    fn body(&mut self, open: Open) -> Scan<()> {
        self.blanks();
        if self.script.peek(0) == Some(';') {
            self.script.take();
        }
        self.gap()?;
        if self.script.peek(0).is_none() {
            return open.unclosed();
        }
        let word = self.word()?;
        match word.text.as_str() {
            "do" if word.is_plain => self.list(open, &["done"])?,
            "{" if word.is_plain => self.list(open, &["}"])?,
            _ => return Err(Halt::Unsure),
        };
        Ok(())
    }

    fn case(&mut self, open: Open) -> Scan<()> {
        self.gap()?;
        self.word()?;
        self.gap()?;
        if !self.is_here("in") {
            return Err(Halt::Unsure);
        }
        self.word()?;
        loop {
            self.gap()?;
            if self.is_here("esac") {
                self.word()?;
                return Ok(());
            }
            self.pattern(open)?;
            if self.list(open, &[";;", "esac"])? == "esac" {
                return Ok(());
            }
        }
    }

    /// Reads the patterns of an item of `case`, with their closing parenthesis.
    fn pattern(&mut self, open: Open) -> Scan<()> {
        if self.script.peek(0) == Some('(') {
            self.script.take();
        }
        loop {
            match self.script.peek(0) {
                None => return open.unclosed(),
                Some(')') => {
                    self.script.take();
                    return Ok(());
                }
                Some(' ' | '\t' | '\r' | '|') => drop(self.script.take()),
                Some('\n' | ';' | '&' | '<' | '>' | '(') => return Err(Halt::Unsure),
                Some(_) => drop(self.word()?),
            }
        }
    }

    /// Reads the rest of `[[ … ]]`, in which operators and parentheses are those of conditions and of patterns.
    fn test(&mut self) -> Scan<()> {
        loop {
            // In `=~ (#.*)` it is part of the pattern, and no comment.
            if self.script.peek(0) == Some('#') {
                return Err(Halt::Unsure);
            }
            self.blanks();
            match self.script.peek(0) {
                None => return Err(Halt::Unsure),
                Some('\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => drop(self.script.take()),
                Some(_) => {
                    let word = self.word()?;
                    if word.is_plain && word.text == "]]" {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Checks a command that ends with its line, with `;` or with the script.
fn ended(command: &Partial, is_whole: bool) -> Scan<()> {
    match command.leaves().filter(|_| is_whole) {
        Some(name) => Err(Halt::At(command.line, Cause::Leaves(name))),
        None => Ok(()),
    }
}
