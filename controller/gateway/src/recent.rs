//! Certificates that were issued moments ago. A node that asks again gets the same one, so that it cannot cause
//! questions to EC2 and signatures without bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_link::KeyHash;
use tokio::time::Instant;

use crate::certificate_authority::{Authority, Issued};

/// Maximum number of certificates: more nodes than that do not enrol within the interval.
const MOST: usize = 16_384;
/// Interval at which old ones are forgotten.
const FORGET: Duration = Duration::from_secs(1);

/// Certificates of the last interval, by instance.
#[derive(Debug)]
pub(crate) struct Recent {
    interval: Duration,
    /// Locked briefly, never across an await.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    certificates: HashMap<String, Certificate>,
    forgotten_at: Instant,
}

#[derive(Debug)]
struct Certificate {
    key: KeyHash,
    authority: Arc<Authority>,
    issued: Issued,
    at: Instant,
}

impl Recent {
    pub(crate) fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, state: Mutex::new(State { certificates: HashMap::new(), forgotten_at: now }) }
    }

    /// Returns the certificate that an instance was given for this key by this CA, if that was moments ago.
    pub(crate) fn of(&self, instance: &str, key: KeyHash, by: &Arc<Authority>, now: Instant) -> Option<Issued> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let found = state.certificates.get(instance)?;
        let is_recent = now.saturating_duration_since(found.at) < self.interval;
        (is_recent && found.key == key && Arc::ptr_eq(&found.authority, by)).then(|| found.issued.clone())
    }

    /// Notes a certificate.
    pub(crate) fn note(&self, instance: &str, key: KeyHash, by: &Arc<Authority>, issued: &Issued, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.forgotten_at) >= FORGET {
            state.forgotten_at = now;
            state.certificates.retain(|_, it| now.saturating_duration_since(it.at) < self.interval);
        }
        if state.certificates.len() < MOST {
            let certificate = Certificate { key, authority: Arc::clone(by), issued: issued.clone(), at: now };
            state.certificates.insert(instance.to_owned(), certificate);
        }
    }
}
