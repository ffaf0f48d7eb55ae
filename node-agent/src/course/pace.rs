//! How long to wait before something is tried again that does not succeed. Pure.

use std::time::Duration;

/// A pace between tries, which gets slower the longer they fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The first pauses.
    pub least: Duration,
    /// The ceiling.
    pub most: Duration,
}

impl Pace {
    /// What holds the kubelet back is looked at so often: metadata, systemd, the token's program, the API server.
    pub const PREFLIGHT: Self = Self { least: Duration::from_secs(2), most: Duration::from_secs(30) };
    /// Files that are still to be written: one `systemctl` a try.
    pub const FILES: Self = Self { least: Duration::from_secs(1), most: Duration::from_secs(5) };
    /// An API server that cannot be reached: one connection a try.
    pub const WAY: Self = Self { least: Duration::from_secs(1), most: Duration::from_secs(10) };
    /// Credentials that cannot be had or are refused: AWS's command line is a second of a core.
    pub const CREDENTIALS: Self = Self { least: Duration::from_secs(1), most: Duration::from_secs(30) };
    /// Metadata that is silent or turned off. AWS asks to look for notices every five seconds.
    pub const METADATA: Self = Self { least: Duration::from_secs(5), most: Duration::from_secs(60) };

    /// The pause after a try, if all have failed for so long: an eighth of that, so that what is mended is seen soon by the
    /// measure of how long it was broken.
    #[must_use]
    pub fn pause(self, failed_for: Duration) -> Duration {
        (failed_for / 8).clamp(self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_ceiling_and_never_beyond() {
        let pace = Pace::PREFLIGHT;
        let pauses = [0, 15, 16, 80, 240, 86_400].map(|seconds| pace.pause(Duration::from_secs(seconds)).as_secs());
        assert_eq!(pauses, [2, 2, 2, 10, 30, 30]);
        assert_eq!(pace.pause(Duration::MAX), pace.most);
    }

    #[test]
    fn a_node_without_credentials_is_polite() {
        // An hour of failing tries, one after the other.
        let tries = |pace: Pace| {
            let (mut at, mut count) = (Duration::ZERO, 0);
            while at < Duration::from_secs(3600) {
                at = at.saturating_add(pace.pause(at));
                count += 1;
            }
            count
        };
        let counts = [Pace::PREFLIGHT, Pace::FILES, Pace::WAY, Pace::CREDENTIALS, Pace::METADATA].map(tries);
        assert_eq!(counts, [143, 734, 380, 149, 82]);
    }
}
