//! Connections by where they come from: their rate and their number, before anything is spent on them.
//!
//! A source is what one node has: an IPv4 address, or an IPv6 /80, the prefix that EC2 gives to a network interface. A
//! network is what a few nodes have together: an IPv4 /24, or an IPv6 /64, which is a whole subnet. The limits of a
//! source are for one node that is connected and reconnects; those of a network keep a client with many sources from
//! taking everything, and are wide enough for all nodes of a subnet that reconnect at once.
//! The limits of a network do not apply to the source of a node's connection for an hour, so that strangers beside
//! it do not keep it away.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::bucket::{Bucket, Rate};
use crate::limits::Limits;

/// Maximum number of sources that are remembered. Each has open connections, or has opened some within seconds.
const SOURCES: usize = 65_536;
/// Interval at which sources without connections and with full buckets are forgotten.
const FORGET: Duration = Duration::from_secs(1);
/// Time for which the source of a node's connection counts as a node's: longer than a connection lives.
const NODE: Duration = Duration::from_hours(1);

/// Connections of all clients.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bounds: Bounds,
    /// Locked briefly, never across an await.
    state: Mutex<State>,
}

/// Limits of a source and of a network.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    source: Rate,
    network: Rate,
    open: usize,
    strange: usize,
    shaking: usize,
}

#[derive(Debug)]
struct State {
    sources: HashMap<IpAddr, Counts>,
    networks: HashMap<IpAddr, Counts>,
    forgotten_at: Instant,
}

/// Connections of a source, or those of a network that are not a node's.
#[derive(Debug)]
struct Counts {
    count: usize,
    /// Connections of these whose handshakes are not finished.
    shaking: usize,
    bucket: Bucket,
    /// Time until which the source is one of a node, which the strangers of its network do not keep away.
    node_until: Option<Instant>,
}

impl Counts {
    fn is_node(&self, now: Instant) -> bool {
        self.node_until.is_some_and(|until| now < until)
    }
}

/// Connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Arrival {
    all: Arrivals,
    source: IpAddr,
    /// `None` once the connection is known to be a node's.
    network: Option<IpAddr>,
    /// True until the handshake is finished.
    is_shaking: bool,
}

/// Returns the source of an address.
pub(crate) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => masked(address, 80),
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << 8)).into(),
        IpAddr::V6(address) => masked(address, 64),
    }
}

fn masked(address: Ipv6Addr, bits: u32) -> IpAddr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - bits))).into()
}

impl Arrivals {
    pub(crate) fn new(limits: &Limits, now: Instant) -> Self {
        let bounds = Bounds {
            source: limits.arrivals,
            network: limits.arrivals_of_network,
            open: limits.connections_of_address,
            strange: limits.strangers_of_network,
            shaking: limits.handshakes_of_network,
        };
        let state = State { sources: HashMap::new(), networks: HashMap::new(), forgotten_at: now };
        Self(Arc::new(Inner { bounds, state: Mutex::new(state) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection.
    ///
    /// # Errors
    /// A limit is reached; the code of the refusal.
    pub(crate) fn admit(&self, address: IpAddr, now: Instant) -> Result<Arrival, &'static str> {
        let bounds = self.0.bounds;
        let (source, network) = (source(address), network(address));
        let mut state = self.lock();
        let State { sources, networks, forgotten_at } = &mut *state;
        if now.saturating_duration_since(*forgotten_at) >= FORGET {
            *forgotten_at = now;
            sources.retain(|_, it| it.count > 0 || it.is_node(now) || !it.bucket.is_full(bounds.source, now));
            networks.retain(|_, it| it.count > 0 || !it.bucket.is_full(bounds.network, now));
        }
        let is_full = sources.len() >= SOURCES;
        let new = |rate| Counts { count: 0, shaking: 0, bucket: Bucket::full(rate, now), node_until: None };
        let own = match sources.entry(source) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => return Err("TooManySources"),
            Entry::Vacant(place) => place.insert(new(bounds.source)),
        };
        // The source first: one that is over its rate takes nothing from its network.
        if own.count >= bounds.open {
            return Err("TooManyConnectionsOfAddress");
        }
        if !own.bucket.take(bounds.source, now) {
            return Err("TooManyHandshakesOfAddress");
        }
        if own.is_node(now) {
            own.count += 1;
            return Ok(Arrival { all: self.clone(), source, network: None, is_shaking: false });
        }
        let of_network = networks.entry(network).or_insert_with(|| new(bounds.network));
        if of_network.count >= bounds.strange {
            return Err("TooManyStrangersOfNetwork");
        }
        if of_network.shaking >= bounds.shaking {
            return Err("TooManyUnfinishedOfNetwork");
        }
        if !of_network.bucket.take(bounds.network, now) {
            return Err("TooManyHandshakesOfNetwork");
        }
        own.count += 1;
        of_network.count += 1;
        of_network.shaking += 1;
        Ok(Arrival { all: self.clone(), source, network: Some(network), is_shaking: true })
    }
}

impl Arrival {
    /// Returns true if the source is not one of a node's connection of the last hour.
    pub(crate) const fn is_strange(&self) -> bool {
        self.network.is_some()
    }

    /// Notes that the handshake is finished.
    pub(crate) fn shaken(&mut self) {
        let was_shaking = std::mem::take(&mut self.is_shaking);
        if let (true, Some(network)) = (was_shaking, self.network)
            && let Some(it) = self.all.lock().networks.get_mut(&network)
        {
            it.shaking = it.shaking.saturating_sub(1);
        }
    }

    /// Notes that the connection is a node's, which does not count among the strangers of its network, and that others
    /// from its source may be for a while.
    pub(crate) fn known(&mut self, now: Instant) {
        self.leave();
        if let Some(it) = self.all.lock().sources.get_mut(&self.source) {
            it.node_until = Some(now + NODE);
        }
    }

    fn leave(&mut self) {
        self.shaken();
        if let Some(network) = self.network.take()
            && let Some(it) = self.all.lock().networks.get_mut(&network)
        {
            it.count = it.count.saturating_sub(1);
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.leave();
        if let Some(it) = self.all.lock().sources.get_mut(&self.source) {
            it.count = it.count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(limits: &Limits, now: Instant) -> Arrivals {
        Arrivals::new(&Limits { connections_of_address: 1000, ..limits.clone() }, now)
    }

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_source_is_what_a_node_has_and_a_network_what_some_have() {
        for (address, of, within) in [
            ("10.0.1.7", "10.0.1.7", "10.0.1.0"),
            ("::ffff:10.0.1.7", "10.0.1.7", "10.0.1.0"),
            ("2600:1f14:a:b:c:d:e:f", "2600:1f14:a:b:c::", "2600:1f14:a:b::"),
        ] {
            assert_eq!((source(at(address)), network(at(address))), (at(of), at(within)));
        }
    }

    #[test]
    fn an_address_has_so_many_and_another_its_own() {
        let now = Instant::now();
        let all = Arrivals::new(&Limits { connections_of_address: 1, ..Limits::default() }, now);
        let (one, other) = (at("10.0.0.1"), at("10.0.0.2"));
        let first = all.admit(one, now).unwrap();
        assert_eq!(all.admit(one, now).unwrap_err(), "TooManyConnectionsOfAddress");
        assert!(all.admit(other, now).is_ok());
        drop(first);
        assert!(all.admit(one, now).is_ok());
        let later = now + Duration::from_mins(1);
        drop(all.admit(at("10.0.0.3"), later));
        assert_eq!(all.lock().sources.len(), 1, "nothing is kept of those who have gone");
    }

    #[test]
    fn strangers_have_a_rate_by_source_and_by_network() {
        let (limits, now) = (Limits::default(), Instant::now());
        let all = arrivals(&limits, now);
        let admitted = |from: IpAddr, at: Instant| (0..10_000).take_while(|_| all.admit(from, at).is_ok()).count();
        let burst = limits.arrivals.burst as usize;
        assert_eq!(admitted(at("10.0.0.1"), now), burst);
        assert_eq!(all.admit(at("10.0.0.1"), now).unwrap_err(), "TooManyHandshakesOfAddress");
        assert_eq!(admitted(at("10.0.0.2"), now), burst, "another has its own");
        let second = now + Duration::from_secs(1);
        assert_eq!(admitted(at("10.0.0.1"), second), 4);
        // Whole /80s within one /64: each is a source, and together they are bounded.
        let of = |number: u32| at(&format!("2600:1f14:a:b:{number:x}::1"));
        let together: usize = (0..10_000).map(|number| admitted(of(number), now)).sum();
        assert_eq!(together, limits.arrivals_of_network.burst as usize);
        assert!(all.admit(at("2600:1f14:a:c::1"), now).is_ok(), "another network");
    }

    #[test]
    fn a_network_has_so_many_strangers_and_nodes_are_none() {
        let now = Instant::now();
        let all = arrivals(&Limits { strangers_of_network: 2, ..Limits::default() }, now);
        let mut first = all.admit(at("10.0.0.1"), now).unwrap();
        let _second = all.admit(at("10.0.0.2"), now).unwrap();
        assert_eq!(all.admit(at("10.0.0.3"), now).unwrap_err(), "TooManyStrangersOfNetwork");
        first.known(now);
        assert!(all.admit(at("10.0.0.3"), now).is_ok());
        assert!(all.admit(at("10.0.1.3"), now).is_ok(), "another network");
    }

    #[test]
    fn a_network_has_so_many_unfinished_handshakes() {
        let now = Instant::now();
        let all = arrivals(&Limits { handshakes_of_network: 2, ..Limits::default() }, now);
        let mut first = all.admit(at("10.0.0.1"), now).unwrap();
        let second = all.admit(at("10.0.0.2"), now).unwrap();
        assert_eq!(all.admit(at("10.0.0.3"), now).unwrap_err(), "TooManyUnfinishedOfNetwork");
        assert!(all.admit(at("10.0.1.3"), now).is_ok(), "another network");
        first.shaken();
        let third = all.admit(at("10.0.0.3"), now).unwrap();
        assert_eq!(all.admit(at("10.0.0.4"), now).unwrap_err(), "TooManyUnfinishedOfNetwork");
        drop((second, third));
        let unfinished = |all: &Arrivals| all.lock().networks[&at("10.0.0.0")].shaking;
        assert_eq!(unfinished(&all), 0);
        drop(first);
        assert_eq!(unfinished(&all), 0, "one that has finished is not counted twice");
    }

    #[test]
    fn strangers_of_its_network_do_not_keep_a_node_away() {
        let (limits, now) = (Limits::default(), Instant::now());
        let all = arrivals(&limits, now);
        let node = at("10.0.0.1");
        all.admit(node, now).unwrap().known(now);
        let strange = |host: usize| at(&format!("10.0.0.{}", 2 + host % 250));
        let held: Vec<Arrival> = (0..10_000).map_while(|host| all.admit(strange(host), now).ok()).collect();
        assert!(!held.is_empty());
        assert!(all.admit(at("10.0.0.254"), now).is_err(), "a stranger has to wait");
        assert!(all.admit(node, now).is_ok(), "the node has not");
        let later = now + NODE;
        assert!(held.len() < limits.strangers_of_network || all.admit(node, later).is_err(), "nor for ever");
    }
}
