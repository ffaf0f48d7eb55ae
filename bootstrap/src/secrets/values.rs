//! Values that a document assigns to secret names.
//!
//! ```text
//!  TOKEN=abcd1234           ──► `abcd1234` is a secret
//!  f "--header $TOKEN"      ──► f "--header abcd1234"     text after expansion
//!                               f "--header [hidden]"     text that is shown
//! ```
//!
//! Scripts are judged after expansion of variables, so a value may occur without its name.

use std::borrow::Cow;

use super::{HIDDEN, NAMES};
use crate::kubelet::flags::{self, Known};
use crate::kubelet::schema;

/// Maximum number of values. A document of user data has fewer.
const MOST: usize = 64;
/// Maximum number of characters of a value. A longer value is truncated: text of this length is never shown.
const LONGEST: usize = 4_096;
/// Minimum number of bytes of a value. A shorter one is not a secret, and hiding it would hide half of every text.
const SHORTEST: usize = 4;
/// Minimum number of bytes of a value that is also hidden inside words.
const UNMISTAKABLE: usize = 8;

/// Values that must not be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values(Vec<String>);

impl Values {
    /// Collects values from a text of any format: `NAME=value`, `$Name = 'value'`, `name: value`, `"name": "value"`.
    pub fn gather(&mut self, text: &str) {
        for (at, separator) in text.match_indices(['=', ':']) {
            if self.0.len() >= MOST {
                return;
            }
            let before = &text[..at];
            let bare = before.strip_suffix('+').unwrap_or(before).trim_end_matches([' ', '\t']);
            let named = bare.strip_suffix(['"', '\'', '}']).unwrap_or(bare);
            let is_letter = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
            let name = &named[named.trim_end_matches(is_letter).len()..];
            let after = &text[at + separator.len()..];
            let value = after.trim_start_matches([' ', '\t']);
            let (is_apart, is_spaced) = (bare.len() < before.len(), value.len() < after.len());
            let is_statement = match separator {
                ":" => is_spaced || bare.len() > named.len(),
                // `NAME= program` does not set a value.
                _ => is_apart || !is_spaced,
            };
            if !is_statement || !names_secret(name) {
                continue;
            }
            let is_word = separator == "=" && !is_spaced;
            self.add(literal(value, is_word));
        }
    }

    fn add(&mut self, value: &str) {
        let value: String = value.chars().take(LONGEST).collect();
        // Later parsers that split the value remove the quotes.
        let unquoted = value.replace(['"', '\'', '\\', '`'], "");
        self.add_one(&unquoted, SHORTEST);
        for piece in unquoted.split_whitespace() {
            self.add_one(piece, SHORTEST);
            for part in piece.split([',', '=', ':']) {
                self.add_one(part, UNMISTAKABLE);
            }
        }
        self.add_one(&value, SHORTEST);
    }

    fn add_one(&mut self, value: &str, shortest: usize) {
        /// Common values of settings.
        const WORDS: [&str; 12] = [
            "true", "false", "null", "none", "required", "optional", "enabled", "disabled", "default", "bearer",
            "basic", "token",
        ];
        /// Paths of secret files are not secret.
        const FOLDERS: [&str; 9] =
            ["/etc/", "/var/", "/usr/", "/opt/", "/run/", "/tmp/", "/root/", "/home/", "file://"];
        let is_open =
            value.starts_with(['$', '(', '{', '[', '<', '|', '>', '&', '*', '%', '@']) || value.contains("$(");
        let is_number = value.len() < UNMISTAKABLE && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if value.len() < shortest
            || is_open
            || is_number
            || value.starts_with("--")
            || WORDS.contains(&value.to_ascii_lowercase().as_str())
            || FOLDERS.iter().any(|folder| value.starts_with(folder))
            || self.0.iter().any(|known| known == value)
        {
            return;
        }
        // Longest first, so that no part of a longer value remains.
        let at = self.0.partition_point(|known| known.len() >= value.len());
        self.0.insert(at, value.to_owned());
    }

    /// Returns the text with the values hidden.
    #[must_use]
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.0.iter().any(|value| text.contains(value.as_str())) {
            return Cow::Borrowed(text);
        }
        let mut out = String::new();
        let mut before = None;
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            match self.0.iter().find(|value| begins(rest, value, before)) {
                Some(value) => {
                    out.push_str(HIDDEN);
                    before = value.chars().last();
                    rest = &rest[value.len()..];
                }
                None => {
                    out.push(char);
                    before = Some(char);
                    rest = &rest[char.len_utf8()..];
                }
            }
            // Text beyond this length is not shown.
            if out.len() > super::LONGEST * 8 {
                break;
            }
        }
        Cow::Owned(out)
    }
}

/// Returns true if the text begins with the value; a short value must be a whole word.
fn begins(text: &str, value: &str, before: Option<char>) -> bool {
    let Some(after) = text.strip_prefix(value) else { return false };
    let is_inner = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
    value.len() >= UNMISTAKABLE || !(is_inner(before) || is_inner(after.chars().next()))
}

/// Returns true if the value of this name is a secret.
fn names_secret(name: &str) -> bool {
    let name = name.trim_start_matches('-');
    let lower = format!("{}=", name.to_lowercase());
    // An address or a folder may be private; a field of a known format does not hold a secret.
    let is_named = NAMES.iter().any(|known| lower.contains(known) && (*known != "private" || lower.contains("key")));
    is_named
        && !matches!(flags::look_up(name, None), Known::Yes(_))
        && !schema::KUBELET.names(name)
        && !schema::NODE_CONFIG.names(name)
}

/// Returns the value that begins here: in quotes, or up to the next blank or the end of the line.
fn literal(text: &str, is_word: bool) -> &str {
    let quote = text.chars().next().filter(|char| matches!(char, '"' | '\''));
    if let Some(quote) = quote {
        let inner = &text[1..];
        let mut is_escaped = false;
        for (at, char) in inner.char_indices() {
            match char {
                _ if is_escaped => is_escaped = false,
                '\\' | '`' if quote == '"' => is_escaped = true,
                _ if char == quote => return &inner[..at],
                _ => {}
            }
            if at > LONGEST {
                break;
            }
        }
    }
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    if is_word {
        let word = line.split([' ', '\t', ';', '&', '|', ')']).next().unwrap_or_default();
        // A list item ends with its quote.
        let end = ["\",", "\"]", "\"}", "',", "']", "'}"].iter().filter_map(|end| word.find(end)).min();
        return &word[..end.unwrap_or(word.len())];
    }
    line.split(" #").next().unwrap_or_default().trim_end_matches([' ', '\t', ';', '}', ','])
}

#[cfg(test)]
mod tests {
    use super::Values;

    fn hidden(document: &str, text: &str) -> String {
        let mut values = Values::default();
        values.gather(document);
        values.hide(text).into_owned()
    }

    #[test]
    fn values_of_names_are_hidden_wherever_they_stand() {
        for document in [
            "DB_PASSWORD=S3cretzz",
            "export TOKEN='S3cretzz'; f",
            "TOKEN+=S3cretzz",
            "declare -x API_KEY=\"S3cretzz\"",
            "$Password = \"S3cretzz\"",
            "$env:TOKEN='S3cretzz'",
            "${env:TOKEN} = 'S3cretzz'",
            "@{ Password = 'S3cretzz'; A = 1 }",
            "password: S3cretzz # mine",
            "{\"password\":\"S3cretzz\"}",
            "bootstrap-token = \"S3cretzz\"",
            "pat: S3cretzz",
            "PASSWORD='two S3cretzz'",
        ] {
            assert_eq!(hidden(document, "s/x/S3cretzz/"), "s/x/[hidden]/", "{document}");
        }
        assert_eq!(hidden("TOKEN=abcd", "xabcd abcd"), "xabcd [hidden]");
        assert_eq!(hidden("A_TOKEN=abcdefgh\nB_TOKEN=abcdefghij", "abcdefghij"), "[hidden]");
        assert_eq!(hidden("PASSWORD='two\\\"words'", "--v=twowords"), "--v=[hidden]");
    }

    #[test]
    fn nothing_else_is() {
        for document in [
            "TOKEN=$(curl -X PUT http://169.254.169.254/latest/api/token)",
            "taints: [{key: dedicated-key, value: gpu, effect: NoSchedule}]",
            "--register-with-taints=my-key:NoSchedule",
            "--tls-private-key-file=NoSchedule",
            "TOKEN= NoSchedule",
            "httpTokens: required",
            "authorization: {mode: NoSchedule}",
            "PRIVATE_IP=NoSchedule",
            "KEY_FILE=/etc/key.pem",
            "[\"--token=hunter2\",\"--v=NoSchedule\"]",
        ] {
            let text = "NoSchedule required /etc/key.pem mode gpu curl";
            assert_eq!(hidden(document, text), text, "{document}");
        }
    }
}
