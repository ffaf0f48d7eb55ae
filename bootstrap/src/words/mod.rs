//! Conversion of texts to arguments on a node. Every layer splits and unquotes by its own rules, and a value passes
//! through several of them: valid input for one layer is an error for the next.
//!
//! ```text
//!  AL2      shell ──► bootstrap.sh ──► drop-in, Environment= ──► $KUBELET_EXTRA_ARGS ──► argv
//!  AL2023   YAML  ──► nodeadm      ──► EnvironmentFile        ──► $NODEADM_KUBELET_ARGS ──► argv
//!  Windows  PowerShell ──► Start-EKSBootstrap.ps1 ──► command line of the service ──► argv
//! ```

mod cursor;
mod environment_file;
pub mod powershell;
pub(crate) mod reach;
pub mod shell;
pub mod systemd;
pub mod unit;

#[cfg(test)]
mod tests;

/// A character and its byte offset in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letter {
    /// The character.
    pub char: char,
    /// Byte offset in the source.
    pub at: usize,
}

/// An argument and the byte offset at which it begins in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The argument as the process receives it.
    pub text: String,
    /// Byte offset of its beginning.
    pub at: usize,
}

/// Returns the characters of a text with their offsets.
#[must_use]
pub fn letters(text: &str) -> Vec<Letter> {
    text.char_indices().map(|(at, char)| Letter { char, at }).collect()
}

/// Returns the text of letters.
#[must_use]
pub fn text(letters: &[Letter]) -> String {
    letters.iter().map(|letter| letter.char).collect()
}
