//! Cursor over the characters of a script, with the current line; and limits on reading scripts.

/// Maximum number of words. No script of user data has more.
pub(super) const MOST_WORDS: usize = 20_000;
/// Maximum number of bytes of expanded variables: a script that uses a long variable ten thousand times would fill the
/// memory.
pub(super) const MOST_EXPANDED: usize = 1 << 18;
/// Maximum length of a stored variable, in bytes: a script may double a variable in each line.
pub(super) const LONGEST_VALUE: usize = 16_384;

/// Reading position in a script.
pub(super) struct Cursor {
    chars: Vec<char>,
    at: usize,
    /// Current line, from 1.
    pub(super) line: usize,
}

impl Cursor {
    pub(super) fn new(script: &str) -> Self {
        Self { chars: script.chars().collect(), at: 0, line: 1 }
    }

    /// Returns the character after `ahead` others.
    pub(super) fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Returns the character that was read `back` characters ago.
    pub(super) fn peek_back(&self, back: usize) -> Option<char> {
        self.chars.get(self.at.checked_sub(back)?).copied()
    }

    /// Returns the current position, for [`Self::reset`].
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.at, self.line)
    }

    /// Returns to a marked position.
    pub(super) fn reset(&mut self, (at, line): (usize, usize)) {
        (self.at, self.line) = (at, line);
    }

    /// Returns the number of characters that were read since a mark.
    pub(super) fn since(&self, (at, _): (usize, usize)) -> usize {
        self.at.saturating_sub(at)
    }

    /// Reads the next character.
    pub(super) fn take(&mut self) -> Option<char> {
        let char = self.peek(0)?;
        self.at += 1;
        if char == '\n' {
            self.line += 1;
        }
        Some(char)
    }
}
