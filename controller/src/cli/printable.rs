//! Text of objects and nodes, made fit for a terminal: there, control characters would be commands from anyone who can
//! write the objects.

use muster_bootstrap::is_printable;

/// Replaces control characters, except line ends and tabs.
pub(crate) fn plain(text: &str) -> String {
    let is_layout = |letter: char| matches!(letter, '\n' | '\t');
    let shown =
        |letter: char| if !is_printable(letter) && !is_layout(letter) { char::REPLACEMENT_CHARACTER } else { letter };
    text.chars().map(shown).collect()
}

/// Replaces control characters, line ends and tabs in a name, so that a cell cannot add rows to a table.
pub(crate) fn plain_name(text: &str) -> String {
    plain(text).replace(['\n', '\t'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_commands_no_terminal() {
        assert_eq!(plain("ordinary, ünïcode\tand\nlines"), "ordinary, ünïcode\tand\nlines");
        assert_eq!(plain("\u{1b}[2J\r\u{7}\u{9b}x\u{7f}"), "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}x\u{fffd}");
        assert_eq!(plain_name("a\nb\tc\u{1b}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
    }
}
