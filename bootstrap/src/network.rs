//! CIDR blocks of clusters and VPCs.

use std::net::IpAddr;

/// A CIDR block: an IP address and a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Parses `10.100.0.0/16` or `fd00::/108`; `None` if the text is not a CIDR block.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= longest)?;
        Some(Self { address, prefix })
    }

    /// Returns true if the block contains the address.
    #[must_use]
    pub fn contains(self, other: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let ((own, own_size), (other, other_size)) = (bits(self.address), bits(other));
        let differs = own ^ other;
        own_size == other_size && (self.prefix == 0 || differs >> (128 - u32::from(self.prefix)) == 0)
    }

    /// Returns true if the two blocks overlap.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// Returns true if the block is IPv6.
    #[must_use]
    pub const fn is_ipv6(self) -> bool {
        self.address.is_ipv6()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_overlap_if_one_is_in_the_other() {
        let network = |text| Network::read(text).unwrap();
        assert!(network("10.0.0.0/8").overlaps(network("10.100.0.0/16")));
        assert!(network("10.100.0.0/16").overlaps(network("10.0.0.0/8")));
        assert!(!network("10.100.0.0/16").overlaps(network("10.101.0.0/16")));
        assert!(!network("fd00::/108").overlaps(network("0.0.0.0/0")));
        assert!(network("fd00::/108").is_ipv6());
    }
}
