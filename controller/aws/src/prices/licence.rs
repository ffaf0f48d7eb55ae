//! Price of the Windows licence, for types whose Windows price is unknown.

use crate::facts::InstanceTypeFacts;

/// Price of the Windows licence in USD per hour for each vCPU, in every region.
///
/// Source: Amazon EC2 User Guide, "Optimize CPUs for License-Included instances", usage operation `RunInstances:0002`.
/// The on-demand prices of Windows differ from those of Linux by this, except for burstable types, whose licence
/// depends on the size.
pub const WINDOWS_LICENCE: f64 = 0.046;

/// Licence of burstable types by family and size: the difference of the on-demand prices of Windows and Linux (Amazon
/// EC2 on-demand pricing), the same in every region.
const BURSTABLE: [(&str, f64); 21] = [
    ("t2.nano", 0.0023),
    ("t2.micro", 0.0046),
    ("t2.small", 0.009),
    ("t2.medium", 0.018),
    ("t2.large", 0.028),
    ("t2.xlarge", 0.041),
    ("t2.2xlarge", 0.062),
    ("t3.nano", 0.0046),
    ("t3.micro", 0.0092),
    ("t3.small", 0.0184),
    ("t3.medium", 0.0184),
    ("t3.large", 0.0276),
    ("t3.xlarge", 0.0736),
    ("t3.2xlarge", 0.1472),
    ("t3a.nano", 0.0046),
    ("t3a.micro", 0.0092),
    ("t3a.small", 0.0184),
    ("t3a.medium", 0.0184),
    ("t3a.large", 0.0276),
    ("t3a.xlarge", 0.0736),
    ("t3a.2xlarge", 0.1472),
];

/// Returns the price of the licence for an instance of a type, in USD per hour.
pub(super) fn of_type(facts: &InstanceTypeFacts) -> f64 {
    let burstable = BURSTABLE.iter().find(|(name, _)| **name == *facts.name);
    burstable.map_or_else(|| WINDOWS_LICENCE * f64::from(facts.vcpus), |(_, price)| *price)
}
