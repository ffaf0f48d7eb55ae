//! A script, read character by character, with the line in which the next one stands, and how much of one is read.

/// More than that a script of user data does not have.
pub(super) const MOST_WORDS: usize = 20_000;
/// More than this is not put in for variables: a script that names a long one ten thousand times would fill the memory.
pub(super) const MOST_EXPANDED: usize = 1 << 18;
/// A variable longer than this is not kept: a script may double one in each line.
pub(super) const LONGEST_VALUE: usize = 16_384;

/// Where the reading of a script is.
pub(super) struct Cursor {
    chars: Vec<char>,
    at: usize,
    /// From 1.
    pub(super) line: usize,
}

impl Cursor {
    pub(super) fn new(script: &str) -> Self {
        Self { chars: script.chars().collect(), at: 0, line: 1 }
    }

    /// The character that comes after `ahead` others.
    pub(super) fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// The character that was read `back` characters ago.
    pub(super) fn peek_back(&self, back: usize) -> Option<char> {
        self.chars.get(self.at.checked_sub(back)?).copied()
    }

    /// Where the reading is, to come back to.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.at, self.line)
    }

    /// Back to a mark.
    pub(super) fn reset(&mut self, (at, line): (usize, usize)) {
        (self.at, self.line) = (at, line);
    }

    /// How many characters were read since a mark.
    pub(super) fn since(&self, (at, _): (usize, usize)) -> usize {
        self.at.saturating_sub(at)
    }

    /// The next character, which is then read.
    pub(super) fn take(&mut self) -> Option<char> {
        let char = self.peek(0)?;
        self.at += 1;
        if char == '\n' {
            self.line += 1;
        }
        Some(char)
    }
}
