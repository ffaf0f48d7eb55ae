//! Subnets, as a launch needs them.

use std::collections::BTreeMap;

use super::answer::ApiError;
use super::request::Request;
use super::shared::Shared;
use super::xml;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subnet {
    pub(super) id: String,
    pub(super) zone: String,
    pub(super) available: u32,
    default: bool,
}

/// All subnets of the region.
#[derive(Debug, Clone, Default)]
pub(super) struct Subnets(Vec<Subnet>);

impl Subnets {
    /// Asks moto; rules may leave fewer addresses.
    pub(super) async fn all(shared: &Shared, like: &Request) -> Result<Self, ApiError> {
        let root = shared.ask(like, "DescribeSubnets", BTreeMap::new()).await?;
        let subnet = |item| {
            Some(Subnet {
                id: xml::text(item, "subnetId")?,
                zone: xml::text(item, "availabilityZone")?,
                available: xml::text(item, "availableIpAddressCount")?.parse().ok()?,
                default: xml::text(item, "defaultForAz").as_deref() == Some("true"),
            })
        };
        Ok(Self(xml::items(&root, "subnetSet").filter_map(subnet).collect()))
    }

    pub(super) fn get(&self, id: &str) -> Result<&Subnet, ApiError> {
        let missing = || ApiError::new(400, "InvalidSubnetID.NotFound", format!("The subnet ID '{id}' does not exist"));
        self.0.iter().find(|subnet| subnet.id == id).ok_or_else(missing)
    }

    /// Where EC2 puts an instance that names no subnet: the default one of the zone, of any zone that `suits`.
    pub(super) fn default_in(&self, zone: Option<&str>, suits: impl Fn(&str) -> bool) -> Result<&Subnet, ApiError> {
        let missing = || {
            let where_to = zone.map_or_else(|| "that offers the type".to_owned(), |zone| format!("'{zone}'"));
            ApiError::new(400, "InvalidInput", format!("No default subnet for availability zone: {where_to}."))
        };
        let fits =
            |subnet: &&Subnet| subnet.default && zone.map_or_else(|| suits(&subnet.zone), |zone| subnet.zone == zone);
        self.0.iter().filter(fits).min_by(|a, b| a.zone.cmp(&b.zone)).ok_or_else(missing)
    }
}
