//! Which calls and which launches a rule is for.

use serde::{Deserialize, Serialize};

/// How an instance is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// At the list price.
    OnDemand,
    /// At the spot price, until EC2 wants it back.
    Spot,
    /// From a capacity reservation.
    Reserved,
}

impl CapacityType {
    /// As Karpenter's label has it: `on-demand`, `spot`, `reserved`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved",
        }
    }
}

/// Which calls: every part that is given must match; a name may end in `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Calls {
    /// `ec2`, `ssm`, `sqs`, `iam`, `sts`, `eks`, `events`, `pricing`, `arc-zonal-shift`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// `CreateFleet`, `Describe*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The name given to [`Ec2::credentials`](crate::ec2::Ec2::credentials).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Only the first so many matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Not the first so many matches.
    pub after: u32,
}

impl Calls {
    /// Every call.
    pub fn any() -> Self {
        Self::default()
    }

    /// Calls of one action, in whatever service.
    pub fn of(action: &str) -> Self {
        Self { action: Some(action.to_owned()), ..Self::default() }
    }

    /// Only of this service.
    #[must_use]
    pub fn service(mut self, service: &str) -> Self {
        self.service = Some(service.to_owned());
        self
    }

    /// Only by this identity.
    #[must_use]
    pub fn by(mut self, identity: &str) -> Self {
        self.identity = Some(identity.to_owned());
        self
    }

    /// Only the first `times` of them.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Not the first `after` of them.
    #[must_use]
    pub fn after(mut self, after: u32) -> Self {
        self.after = after;
        self
    }

    pub(super) fn selects(&self, service: &str, action: &str, identity: &str) -> bool {
        is(self.service.as_deref(), service)
            && is(self.action.as_deref(), action)
            && is(self.identity.as_deref(), identity)
    }
}

/// Which launches: every part that is given must match; a name may end in `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Pool {
    /// `m5.large`, `m5.*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// `us-east-1a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// On demand, spot or reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<CapacityType>,
    /// `subnet-…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Only the first so many instances (faults that happen to an instance, not to the pool).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}

impl Pool {
    /// Every launch.
    pub fn any() -> Self {
        Self::default()
    }

    /// Launches of this type.
    pub fn of(instance_type: &str) -> Self {
        Self { instance_type: Some(instance_type.to_owned()), ..Self::default() }
    }

    /// Only in this zone.
    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }

    /// Only paid this way.
    #[must_use]
    pub fn paid(mut self, capacity_type: CapacityType) -> Self {
        self.capacity_type = Some(capacity_type);
        self
    }

    /// Only in this subnet.
    #[must_use]
    pub fn subnet(mut self, subnet: &str) -> Self {
        self.subnet = Some(subnet.to_owned());
        self
    }

    /// Only the first `times` instances.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    pub(in crate::ec2) fn selects(&self, place: &Place<'_>) -> bool {
        is(self.instance_type.as_deref(), place.instance_type)
            && is(self.zone.as_deref(), place.zone)
            && is(self.subnet.as_deref(), place.subnet)
            && self.capacity_type.is_none_or(|paid| paid == place.capacity_type)
    }
}

/// Where one instance would run.
#[derive(Debug, Clone, Copy)]
pub(in crate::ec2) struct Place<'a> {
    pub(in crate::ec2) instance_type: &'a str,
    pub(in crate::ec2) zone: &'a str,
    pub(in crate::ec2) subnet: &'a str,
    pub(in crate::ec2) capacity_type: CapacityType,
}

fn is(pattern: Option<&str>, name: &str) -> bool {
    match pattern {
        None => true,
        Some(pattern) => match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        },
    }
}
