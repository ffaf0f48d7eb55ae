//! Session tokens of IMDSv2: good for one instance and for the seconds that were asked for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;

/// The longest that a token may live: six hours.
const LONGEST: u32 = 21_600;

/// The tokens that were given out.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    given: Mutex<HashMap<String, Given>>,
}

#[derive(Debug)]
struct Given {
    instance_id: String,
    until: Instant,
    lives: u32,
}

impl Tokens {
    /// A new token for `instance_id`. `seconds` is the text of the header; None when EC2 would refuse it (400).
    pub(super) fn give(&self, instance_id: &str, seconds: &str, now: Instant) -> Option<(String, u32)> {
        let lives = seconds.parse().ok().filter(|lives| (1..=LONGEST).contains(lives))?;
        let mut random = [0_u8; 40];
        aws_lc_rs::rand::fill(&mut random).ok()?;
        let token = URL_SAFE.encode(random);
        let until = now + Duration::from_secs(lives.into());
        let given = Given { instance_id: instance_id.to_owned(), until, lives };
        self.given.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), given);
        Some((token, lives))
    }

    /// The seconds that were asked for, if `token` is good for `instance_id` now.
    pub(super) fn check(&self, instance_id: &str, token: &str, now: Instant) -> Option<u32> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let given = given.get(token)?;
        (given.instance_id == instance_id && now < given.until).then_some(given.lives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_instance_and_its_time() {
        let (tokens, start) = (Tokens::default(), Instant::now());
        let (token, lives) = tokens.give("i-1", "60", start).unwrap();
        assert_eq!((lives, tokens.check("i-1", &token, start)), (60, Some(60)));
        assert_eq!(tokens.check("i-2", &token, start), None, "another instance's");
        assert_eq!(tokens.check("i-1", &token, start + Duration::from_secs(60)), None, "expired");
        for refused in ["0", "21601", "-1", "soon", ""] {
            assert_eq!(tokens.give("i-1", refused, start), None, "{refused}");
        }
    }
}
