//! Which instance asks: by the address that a request comes from.

use std::net::Ipv4Addr;
use std::sync::{Arc, PoisonError, RwLock};

use super::identity::Identity;
use super::instance::Served;
use super::tokens::Tokens;

/// All instances that are served.
#[derive(Debug, Default)]
pub(super) struct Registry {
    known: RwLock<Vec<Known>>,
    pub(super) tokens: Tokens,
}

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) served: Arc<Served>,
    pub(super) identity: Arc<Identity>,
    /// Its pods' network: they too see the metadata of their node.
    pub(super) pods: Option<Network>,
}

/// A network of IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    base: u32,
    mask: u32,
}

impl Registry {
    pub(super) fn add(&self, known: Known) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).push(known);
    }

    pub(super) fn remove(&self, instance_id: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.served.instance.instance_id != instance_id);
    }

    pub(super) fn find(&self, from: Ipv4Addr) -> Option<Known> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let of_node = known.iter().find(|known| known.served.instance.address == from);
        of_node.or_else(|| known.iter().find(|known| known.pods.is_some_and(|pods| pods.contains(from)))).cloned()
    }
}

impl Network {
    /// Reads `100.64.1.0/24`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: Ipv4Addr = address.parse().ok()?;
        let bits: u32 = bits.parse().ok().filter(|bits| *bits <= 32)?;
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        Some(Self { base: address.to_bits() & mask, mask })
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & self.mask == self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_own() {
        let network = Network::parse("100.64.1.0/24").unwrap();
        assert!(network.contains(Ipv4Addr::new(100, 64, 1, 200)));
        assert!(!network.contains(Ipv4Addr::new(100, 64, 2, 1)));
        assert!(Network::parse("0.0.0.0/0").unwrap().contains(Ipv4Addr::new(1, 2, 3, 4)));
        assert_eq!(Network::parse("100.64.1.0"), None);
        assert_eq!(Network::parse("100.64.1.0/33"), None);
    }
}
