//! How texts become arguments on a node. Every layer splits and unquotes by its own rules, and a value passes several of
//! them: what is right for one is a typing error for the next.
//!
//! ```text
//!  AL2      shell ──► bootstrap.sh ──► drop-in, Environment= ──► $KUBELET_EXTRA_ARGS ──► argv
//!  AL2023   YAML  ──► nodeadm      ──► EnvironmentFile        ──► $NODEADM_KUBELET_ARGS ──► argv
//!  Windows  PowerShell ──► Start-EKSBootstrap.ps1 ──► command line of the service ──► argv
//! ```

mod cursor;
pub mod powershell;
pub mod shell;
pub mod systemd;
pub mod unit;

#[cfg(test)]
mod tests;

/// A character and the byte of the source that it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letter {
    /// The character.
    pub char: char,
    /// Where it stood.
    pub at: usize,
}

/// An argument and the byte of the source at which it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The argument as the process receives it.
    pub text: String,
    /// Where it stood.
    pub at: usize,
}

/// The letters of a text.
#[must_use]
pub fn letters(text: &str) -> Vec<Letter> {
    text.char_indices().map(|(at, char)| Letter { char, at }).collect()
}

/// The text of letters.
#[must_use]
pub fn text(letters: &[Letter]) -> String {
    letters.iter().map(|letter| letter.char).collect()
}
