//! Broken tokens. Whatever the text is, nothing panics, and little of it costs a review.

use self::growth::without_growth;
use self::mutate::{Dice, damage};
use super::*;

#[path = "../../../../bootstrap/tests/mutations/growth.rs"]
mod growth;
#[path = "../../../../bootstrap/tests/mutations/mutate.rs"]
mod mutate;

const CLAIMS: &str = r#"{"iss":"https://oidc","sub":"system:serviceaccount:a:b","aud":["muster.dev"],"exp":1}"#;

fn broken(text: &str, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=dice.roll(3) {
        damage(&mut bytes, dice);
    }
    bytes
}

/// Returns the number of broken tokens that cost a review all the same: those whose claims are whole.
fn reviewed(count: usize) -> usize {
    let mut dice = Dice::new(0x006a_7774);
    let token = |claims: &[u8]| format!("eyJhbGciOiJSUzI1NiJ9.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims));
    let mut reviewed = 0;
    for _ in 0..count {
        let bytes = match dice.roll(2) {
            0 => token(&broken(CLAIMS, &mut dice)).into_bytes(),
            _ => broken(&token(CLAIMS.as_bytes()), &mut dice),
        };
        reviewed += usize::from(may_be_for_us(&String::from_utf8_lossy(&bytes)));
    }
    reviewed
}

#[test]
fn broken_tokens_are_not_asked_about() {
    let reviewed = reviewed(2_000);
    assert!(reviewed > 0 && reviewed < 1_500, "{reviewed}");
}

#[test]
#[ignore = "minutes: the release tier runs it"]
fn a_million_broken_tokens() {
    let mut asked_about = 0;
    let figures = without_growth(1_000_000, |count| asked_about = reviewed(count));
    eprintln!("operators' tokens: {figures}; {asked_about} would be asked about");
}
