//! Limits on the resources of this replica that clients can use.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Limits of a gateway. [`Limits::default`] is for 10,000 nodes on one replica.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum number of connections of enrolled nodes.
    pub connections: usize,
    /// Maximum number of connections of other clients, handshakes included. They are counted apart, so that strangers
    /// cannot keep enrolled nodes out. About as many can enrol while one of them waits for its turn.
    pub strangers: usize,
    /// Lifetime of a stranger's connection: an enrolment takes seconds, after a wait of up to 30. A connection on which
    /// an operator was authenticated lasts as long as a node's.
    pub stranger_age: Duration,
    /// Maximum number of connections from one address: a node has one, and a second while it reconnects.
    pub connections_of_address: usize,
    /// Maximum number of concurrent handshakes. Each costs a signature, about 0.1 ms of a core, and three
    /// verifications.
    pub handshakes: usize,
    /// Timeout of a handshake.
    pub handshake: Duration,
    /// Lifetime of a connection. Reconnecting spreads nodes over replicas and drops expired and revoked certificates.
    /// Up to a tenth is added, depending on the peer's key, so that nodes do not all reconnect at once.
    pub age: Duration,
    /// Time that calls may continue after that.
    pub grace: Duration,
    /// Timeout for a peer to read what it is sent, or to answer a ping.
    pub patience: Duration,
    /// Maximum number of outstanding nonces.
    pub nonces: usize,
    /// Maximum number of concurrent enrolments; others wait. Each makes requests to EC2 and STS, and a write.
    pub enrolments: usize,
    /// Minimum interval between stored reports of a node.
    pub report_interval: Duration,
    /// Maximum number of TokenReviews per second, for all clients together. An API server that is busy with tokens of
    /// strangers has less time for the leader.
    pub reviews_per_second: u32,
    /// Maximum number of operators' watches. Each may hold an outdated snapshot of the rows, some 30 MB for 10,000
    /// nodes.
    pub watches: usize,
    /// Maximum number of operators' reflection streams.
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

/// Number of connections per source address.
#[derive(Debug, Default, Clone)]
pub(crate) struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// Connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    all: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// Counts a connection; `None` if its address already has `most`.
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
