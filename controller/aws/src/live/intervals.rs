//! Intervals of calls to AWS.

use std::time::Duration;

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// Intervals after which each kind of data is refreshed. The defaults are those of Karpenter, except for spot prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// Objects that the selectors of a class match (`AMI_REFRESH_INTERVAL`, `SUBNET_REFRESH_INTERVAL`).
    pub look_up: Duration,
    /// Objects that the selectors match, while some are missing.
    pub look_up_missing: Duration,
    /// Dry run of a launch.
    pub trial: Duration,
    /// Instance types and the zones that offer them.
    pub instance_types: Duration,
    /// On-demand prices.
    pub on_demand_prices: Duration,
    /// Spot prices. Karpenter refreshes them twice a day; they change a few times an hour, and the history has ten
    /// pages.
    pub spot_prices: Duration,
    /// Removal of unused launch templates.
    pub templates: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            look_up: minutes(1),
            look_up_missing: minutes(1),
            trial: minutes(30),
            instance_types: minutes(12 * 60),
            on_demand_prices: minutes(12 * 60),
            spot_prices: minutes(15),
            templates: minutes(30),
        }
    }
}
