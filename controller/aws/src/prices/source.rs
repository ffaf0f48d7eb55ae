//! Source of the prices of a region, in words.

use std::fmt;

/// Source of the prices of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceSource {
    /// On-demand prices of the embedded table for the region; also used for spot.
    Embedded {
        /// Date (`2026-07-20`).
        date: &'static str,
    },
    /// On-demand prices of the embedded table for another region; also used for spot.
    StandIn {
        /// Region of the prices.
        region: &'static str,
        /// Date (`2026-07-20`).
        date: &'static str,
    },
    /// Prices queried from AWS.
    Live,
}

impl fmt::Display for PriceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded { date } => write!(f, "on-demand prices of {date}, also for spot"),
            Self::StandIn { region, date } => {
                write!(f, "on-demand prices of {date} in {region}, also for spot and for this region")
            }
            Self::Live => f.write_str("current prices"),
        }
    }
}
