//! Redaction of secrets in all output.
//!
//! User data holds launch tokens, proxy URLs with passwords, and keys that do not belong there. A finding quotes parts
//! of it, so every text of a finding passes through [`clean`]. It hides values with secret names, values in the form of
//! a secret, and text that looks random.

mod values;

pub use self::values::Values;
use crate::kubelet::{gates, schema};
use crate::printable::is_printable;

/// Replacement of a secret in output.
const HIDDEN: &str = "[hidden]";

/// Maximum number of characters of a text in a finding.
const LONGEST: usize = 240;

/// Words that mark a key as the name of a secret.
const NAMES: [&str; 26] = [
    "token",
    "passw",
    "passphrase",
    "secret",
    "authorization",
    "bearer",
    "credential=",
    "apikey",
    "api-key",
    "api_key",
    "accesskey",
    "private",
    "-key",
    "_key",
    "pass=",
    "pass:",
    "\"pass\"",
    "pwd=",
    "pwd:",
    "pat=",
    "pat:",
    "psk",
    "cookie",
    "sig=",
    "auth=",
    "auth:",
];

/// Options of programs whose value is `user:password`.
const USERS: [&str; 6] = ["-u", "--user", "-U", "--proxy-user", "--creds", "--src-creds"];

/// Returns a text for output: on one line, shortened, without secrets.
///
/// ```
/// assert!(!muster_bootstrap::secrets::clean("--token=abcdef0123456789").contains("abcdef"));
/// ```
#[must_use]
pub fn clean(text: &str) -> String {
    cleaned(text, true)
}

/// Returns a part of a document for output: like [`clean`], but no word counts as prose.
#[must_use]
pub(crate) fn clean_quote(text: &str) -> String {
    cleaned(text, false)
}

fn cleaned(text: &str, has_prose: bool) -> String {
    // Text beyond this length is never shown; a secret that is cut here is still hidden.
    let flat: String = text.chars().take(LONGEST * 8).map(|char| if is_printable(char) { char } else { ' ' }).collect();
    let mut out = String::new();
    let mut rest = flat.as_str();
    let mut is_user = false;
    while !rest.is_empty() {
        let blank = rest.len() - rest.trim_start().len();
        out.push_str(&rest[..blank]);
        rest = &rest[blank..];
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        // `curl -u user:password`
        let is_credential = std::mem::replace(&mut is_user, USERS.contains(&word));
        if is_credential && let Some((user, _)) = word.split_once(':') {
            out.push_str(&format!("{}:{HIDDEN}", hide_chance(user)));
            rest = after;
            continue;
        }
        // “its token is missing” is prose, `token = …` is not.
        let is_prose = has_prose && !after.trim_start().starts_with(['=', ':']);
        let (shown, names_secret) = clean_word(word, is_prose);
        out.push_str(&shown);
        // A quoted value may contain blanks, so everything after the name of a secret is hidden.
        if (names_secret || word.contains("-----BEGIN")) && !after.trim().is_empty() {
            if !out.ends_with(HIDDEN) {
                out.push(' ');
                out.push_str(HIDDEN);
            }
            break;
        }
        rest = after;
    }
    let mut short: String = out.trim().chars().take(LONGEST).collect();
    if out.trim().chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

/// Returns a word for output, and true if it names a secret, so that the text after it is one.
fn clean_word(word: &str, may_be_prose: bool) -> (String, bool) {
    // A flag name alone, as quoted in our own messages; its value is elsewhere.
    let is_flag = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    if word.strip_prefix("`--").and_then(|rest| rest.split_once('`')).is_some_and(|(name, _)| is_flag(name)) {
        return (word.to_owned(), false);
    }
    // Checked before any name: the password of `https://user:secret@proxy` may contain one.
    if let Some((before, host)) = word.rsplit_once('@')
        && let Some((scheme, _)) = before.split_once("://")
    {
        let (host, names_secret) = clean_word(host, may_be_prose);
        return (format!("{}://{HIDDEN}@{host}", clean_word(scheme, may_be_prose).0), names_secret);
    }
    if let Some((option, value)) = word.split_once('=')
        && USERS.contains(&option)
        && let Some((user, _)) = value.split_once(':')
    {
        return (format!("{option}={}:{HIDDEN}", hide_chance(user)), false);
    }
    let lower = word.to_lowercase();
    if let Some(name) = NAMES.iter().filter_map(|name| lower.find(name).map(|at| (at, *name))).min() {
        let (at, name) = name;
        // Prose (“its token is missing”) has the bare word; in a document it is part of a longer word.
        let is_option = word.trim_start_matches(|char: char| !char.is_alphanumeric() && char != '-').starts_with('-');
        let is_bare = lower.trim_matches(|char: char| !char.is_alphanumeric()) == name || lower == format!("{name}s");
        let is_prose = is_bare && may_be_prose && !is_option;
        // Some names are recognized by the character after them.
        let after = at + name.trim_end_matches([':', '=']).len();
        let separator = lower.get(after..).and_then(|rest| rest.find([':', '='])).map(|offset| after + offset);
        match separator {
            Some(separator) if lower.len() == word.len() => {
                let head = word.get(..=separator).unwrap_or_default();
                return (format!("{}{HIDDEN}", hide_chance(head)), true);
            }
            _ if is_prose => {}
            _ => return (hide_chance(word), true),
        }
    }
    // `https://user:password@proxy`, complete or truncated.
    if let Some((before, host)) = word.rsplit_once('@') {
        let scheme = before.split_once("://").map(|(scheme, _)| format!("{}://", hide_chance(scheme)));
        return (format!("{}{HIDDEN}@{}", scheme.unwrap_or_default(), hide_chance(host)), false);
    }
    (hide_chance(word), false)
}

/// Hides runs of random letters and digits: keys, hashes, base64.
fn hide_chance(word: &str) -> String {
    let mut out = String::new();
    let mut run = String::new();
    let mut rest = word.chars();
    while let Some(char) = rest.next() {
        if char == '=' && is_padded(&run, rest.as_str()) {
            out.push_str(HIDDEN);
            run.clear();
        }
        if char.is_ascii_alphanumeric() || matches!(char, '+') {
            run.push(char);
        } else {
            flush(&mut run, &mut out);
            out.push(char);
        }
    }
    flush(&mut run, &mut out);
    out
}

/// Returns true if a run ends like base64: with padding, and without a value after it.
fn is_padded(run: &str, rest: &str) -> bool {
    const SHORTEST: usize = 12;
    let has = |kind: fn(&u8) -> bool| run.bytes().any(|byte| kind(&byte));
    let is_over = !rest.trim_start_matches('=').starts_with(|it: char| it.is_ascii_alphanumeric());
    run.len() >= SHORTEST
        && is_over
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && (has(u8::is_ascii_digit) || rest.starts_with('='))
}

fn flush(run: &mut String, out: &mut String) {
    if is_chance(run) && !is_known(run) {
        if !out.ends_with(HIDDEN) {
            out.push_str(HIDDEN);
        }
    } else {
        out.push_str(run);
    }
    run.clear();
}

/// Returns true for names of fields and gates, which also change often between lower case, upper case and digits.
fn is_known(run: &str) -> bool {
    // The only field name of an EC2NodeClass with four humps close together.
    run == "httpPutResponseHopLimit"
        || gates::exists(run)
        || schema::KUBELET.names(run)
        || schema::NODE_CONFIG.names(run)
}

/// Returns true if a run of letters and digits looks random: it changes between lower case, upper case and digits at
/// every other character, or it is longer than any name and has more than lower-case letters.
fn is_chance(run: &str) -> bool {
    const SHORTEST: usize = 10;
    const LONGEST_NAME: usize = 40;
    if run.len() < SHORTEST {
        return false;
    }
    // AWS access keys and IDs begin with one of these.
    let is_plain = run.bytes().all(|byte| byte.is_ascii_lowercase());
    if ["AKIA", "ASIA", "AROA", "AIDA"].iter().any(|prefix| run.starts_with(prefix))
        || (run.len() > LONGEST_NAME && !is_plain)
    {
        return true;
    }
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'A'..=b'Z' => 1,
        _ => 2,
    };
    // A change from an upper-case to a lower-case letter begins a word and is not counted. Without it, a name in camel
    // case changes at most three times in ten letters (`EC2NodeCla`), random text four or five times.
    let changes = |pair: &[u8]| kind(pair[0]) != kind(pair[1]) && (kind(pair[0]), kind(pair[1])) != (1, 2);
    let is_restless = |window: &[u8]| window.windows(2).filter(|pair| changes(pair)).count() > 3;
    // Names have one or two digits (`x86`, `EC2NodeClass`); more digits among letters are random.
    let meets_digit = |pair: &[u8]| kind(pair[0]) != kind(pair[1]) && (kind(pair[0]) == 0 || kind(pair[1]) == 0);
    let is_mixed = |window: &[u8]| window.windows(2).filter(|pair| meets_digit(pair)).count() > 2;
    // Over a longer stretch a name has at most three humps, and no name has six consecutive capitals.
    const STRETCH: usize = 16;
    const CAPITALS: usize = 6;
    let bytes = run.as_bytes();
    let is_loud = bytes.windows(CAPITALS).any(|window| window.iter().all(u8::is_ascii_uppercase));
    let quiet = bytes.iter().filter(|byte| byte.is_ascii_lowercase()).count();
    (bytes.len() >= STRETCH && is_loud && quiet >= CAPITALS)
        || bytes.windows(STRETCH).any(is_restless)
        || run.as_bytes().windows(SHORTEST).any(is_restless)
        || run.as_bytes().windows(SHORTEST + 2).any(is_mixed)
}

#[cfg(test)]
mod tests {
    use super::{clean, clean_quote};

    #[test]
    fn secrets_are_hidden() {
        for (text, shown) in [
            ("launchToken: mlt-4f9aQ2", "launchToken:[hidden]"),
            ("export HTTPS_PROXY=http://u:hunter2@proxy:3128", "export HTTPS_PROXY=http://[hidden]@proxy:3128"),
            ("--manifest-url-header=Authorization:Bearer abc", "--manifest-url-header=Authorization:[hidden]"),
            ("https://u:hunter2secret@x/y", "https://[hidden]@x/y"),
            (
                "no kubelet has flag `--tls-private-key-fil`; did you",
                "no kubelet has flag `--tls-private-key-fil`; did you",
            ),
            ("mysql PASS=a psk=b", "mysql PASS=[hidden]"),
            ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=[hidden]"),
            ("key AKIAIOSFODNN7EXAMPLE", "key [hidden]"),
            ("-----BEGIN RSA PRIVATE KEY----- MIIE", "-----BEGIN [hidden]"),
            ("certificateAuthority: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", "certificateAuthority: [hidden]"),
            ("password: \"two words\" and more", "password:[hidden]"),
            ("server-key = \"MIIE\"", "server-key [hidden]"),
            ("token = S3cretzz", "token [hidden]"),
            ("no value `token : S3cretzz`", "no value `token [hidden]"),
            ("nodeadm init --secret S3cretzz --bearer S3cretzz", "nodeadm init --secret [hidden]"),
            ("`--token hunter2pw` is not a flag", "`--token [hidden]"),
            ("curl -u admin:hunter2 https://x", "curl -u admin:[hidden] https://x"),
            ("curl --user=admin:hunter2 https://x", "curl --user=admin:[hidden] https://x"),
            ("pat: hunter2", "pat:[hidden]"),
        ] {
            assert_eq!(clean(text), shown);
        }
        for name in ["token", "secret", "apikey", "passphrase", "cookie", "psk", "authorization", "bearer"] {
            assert_eq!(clean(&format!("{name} = S3cretzz")), format!("{name} [hidden]"));
            assert_eq!(clean_quote(&format!("{name} S3cretzz")), format!("{name} [hidden]"));
            let prose = format!("its {name} is missing");
            assert_eq!(clean(&prose), prose);
        }
    }

    #[test]
    fn words_are_not() {
        for text in [
            "--register-with-taints=karpenter.sh/unregistered:NoExecute",
            "--image-credential-provider-bin-dir=/etc/eks/image-credential-provider",
            "registerWithTaints imageGCHighThresholdPercent NodeConfig x86_64 ip-10-0-0-1.eu-west-1.compute.internal",
            "spec.kubelet.config.evictionSoftGracePeriod",
            "spec.metadataOptions.httpPutResponseHopLimit: 1",
            "averyveryverylongnameofalabelthatsomebodyhaschosenforallofthenodes=b",
            "failCgroupV1: kubeAPIQPS m7g.2xlarge topology.kubernetes.io/zone=us-east-1a",
        ] {
            assert_eq!(clean(text), text);
        }
    }
}
