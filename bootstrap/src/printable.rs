//! Characters that text of others may not bring to a terminal.

/// Returns true if a character shows as itself. Control characters are commands to a terminal; invisible ones and those
/// that turn the direction of writing show another text than the one that is there.
#[must_use]
pub fn is_printable(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter,
            // Zero width, marks of direction.
            '\u{200b}'..='\u{200f}' | '\u{061c}' | '\u{feff}' |
            // Ends of lines and paragraphs, embeddings and overrides of direction.
            '\u{2028}'..='\u{202e}' |
            // Invisible operators, isolates, deprecated formatting.
            '\u{2060}'..='\u{206f}' |
            // Tags, which repeat ASCII invisibly.
            '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_or_turns_text_is_not_printable() {
        for letter in "\u{1b}\n\u{7f}\u{85}\u{200b}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e0041}".chars() {
            assert!(!is_printable(letter), "U+{:04X}", u32::from(letter));
        }
        for letter in "aZ0 -_:/é語🚀×…".chars() {
            assert!(is_printable(letter), "{letter}");
        }
    }
}
