//! How much of this replica anybody can take.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bounds. Those of [`Limits::default`] are for 10,000 nodes on one replica.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections of nodes that have enrolled, in all.
    pub connections: usize,
    /// Connections of anybody else, handshakes too: nobody who has enrolled is kept out by those who never will. As many enrol
    /// while one waits for its turn.
    pub strangers: usize,
    /// How long one of those may last: an enrolment takes seconds, and its turn may come after thirty. One on which an operator was
    /// known lasts as long as a node's.
    pub stranger_age: Duration,
    /// Connections from one address: a node has one, and another while it changes over.
    pub connections_of_address: usize,
    /// Handshakes at once: each costs a signature, about 0.1 ms of a core, and three verifications.
    pub handshakes: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long until a connection is to be made anew, so that nodes spread over replicas and certificates that have expired or been
    /// taken back go. Up to a tenth is added, by the peer's key, so that a fleet does not come at once.
    pub age: Duration,
    /// How long calls may go on after that.
    pub grace: Duration,
    /// How long a peer may take to read what it is sent, or to answer a ping.
    pub patience: Duration,
    /// Nonces that are out at once.
    pub nonces: usize,
    /// Enrolments that are decided at once, others waiting for their turn: each asks EC2 and STS, and writes.
    pub enrolments: usize,
    /// The least time between two reports of a node that are kept.
    pub report_interval: Duration,
    /// Tokens of operators that the API server is asked about in a second, whoever asks: one that reviews for strangers has less
    /// time for the leader.
    pub reviews_per_second: u32,
    /// Operators who watch nodes at once: each may hold the rows of a moment that has passed, some 30 MB of 10,000 nodes.
    pub watches: usize,
    /// Operators who are told at once what there is, by reflection.
    pub reflections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 12_000,
            strangers: 4096,
            stranger_age: Duration::from_mins(2),
            connections_of_address: 8,
            handshakes: 256,
            handshake: Duration::from_secs(10),
            age: Duration::from_mins(30),
            grace: Duration::from_secs(10),
            patience: Duration::from_secs(20),
            nonces: 16_384,
            enrolments: 200,
            report_interval: Duration::from_millis(500),
            reviews_per_second: 20,
            watches: 16,
            reflections: 16,
        }
    }
}

/// Counts connections by the address that they come from.
#[derive(Debug, Default, Clone)]
pub(crate) struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A connection that is counted as long as this lives.
#[derive(Debug)]
pub(crate) struct Counted {
    all: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// Counts a connection, unless there are `most` from its address.
    pub(crate) fn count(&self, address: IpAddr, most: usize) -> Option<Counted> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Counted { all: self.clone(), address })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_and_another_its_own() {
        let (addresses, one, other) = (Addresses::default(), IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let first = addresses.count(one, 1).unwrap();
        assert!(addresses.count(one, 1).is_none());
        assert!(addresses.count(other, 1).is_some());
        drop(first);
        assert!(addresses.count(one, 1).is_some());
        assert!(addresses.0.lock().unwrap().is_empty(), "nothing is kept of who has gone");
    }
}
