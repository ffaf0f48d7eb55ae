//! How often AWS is asked.

use std::time::Duration;

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// How long each kind of answer is good for. The defaults are Karpenter's, but for spot prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// Whatever the selectors of a class select (`AMI_REFRESH_INTERVAL`, `SUBNET_REFRESH_INTERVAL`).
    pub look_up: Duration,
    /// The same while something is missing.
    pub look_up_missing: Duration,
    /// A trial of a launch.
    pub trial: Duration,
    /// Instance types and where they are offered.
    pub instance_types: Duration,
    /// Prices on demand.
    pub on_demand_prices: Duration,
    /// Spot prices. Karpenter asks twice a day; they change a few times an hour, and the history is ten pages.
    pub spot_prices: Duration,
    /// Removal of launch templates that nobody uses.
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
