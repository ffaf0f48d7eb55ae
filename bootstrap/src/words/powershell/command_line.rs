//! Command-line splitting of Windows programs.
//!
//! Source: "Parsing C++ command-line arguments" of Microsoft's C++ documentation, which Go's os package follows.

use super::super::{Word, letters};

/// Splits a command line like Windows programs: at blanks; double quotes group and are removed; a backslash is special
/// only before a double quote.
#[must_use]
pub fn split_command_line(line: &str) -> Vec<Word> {
    let letters = letters(line);
    let mut words = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        if matches!(letters[at].char, ' ' | '\t') {
            at += 1;
            continue;
        }
        let start = letters[at].at;
        let (mut text, mut is_quoted) = (String::new(), false);
        while let Some(letter) = letters.get(at) {
            match letter.char {
                ' ' | '\t' if !is_quoted => break,
                '\\' => {
                    let count = letters[at..].iter().take_while(|letter| letter.char == '\\').count();
                    at += count;
                    if letters.get(at).is_some_and(|letter| letter.char == '"') {
                        text.extend(std::iter::repeat_n('\\', count / 2));
                        if count % 2 == 1 {
                            text.push('"');
                            at += 1;
                        }
                    } else {
                        text.extend(std::iter::repeat_n('\\', count));
                    }
                    continue;
                }
                '"' => {
                    // Two quotes inside quotes are one literal quote.
                    if is_quoted && letters.get(at + 1).is_some_and(|next| next.char == '"') {
                        text.push('"');
                        at += 1;
                    } else {
                        is_quoted = !is_quoted;
                    }
                }
                char => text.push(char),
            }
            at += 1;
        }
        words.push(Word { text, at: start });
    }
    words
}
