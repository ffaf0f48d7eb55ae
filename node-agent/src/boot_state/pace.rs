//! Retry intervals. Pure.

use std::time::Duration;

/// Retry interval that grows with the time that all attempts have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Shortest pause.
    pub least: Duration,
    /// Longest pause.
    pub most: Duration,
}

impl Pace {
    /// Preflight of a kubelet that is held back. An attempt reads metadata, asks systemd, runs the token program and
    /// calls the API server.
    pub const PREFLIGHT: Self = Self { least: Duration::from_secs(2), most: Duration::from_secs(30) };
    /// Kubelet files that are not written yet. An attempt runs one `systemctl`.
    pub const FILES: Self = Self { least: Duration::from_secs(1), most: Duration::from_secs(5) };
    /// API server that is unreachable. An attempt opens one connection.
    pub const WAY: Self = Self { least: Duration::from_secs(1), most: Duration::from_secs(10) };
    /// Credentials that cannot be obtained or are refused. The AWS CLI takes one CPU second.
    pub const CREDENTIALS: Self = Self { least: Duration::from_secs(1), most: Duration::from_secs(30) };
    /// Instance metadata that does not answer or is disabled. AWS recommends checking for notices every five seconds.
    pub const METADATA: Self = Self { least: Duration::from_secs(5), most: Duration::from_secs(60) };

    /// Returns the pause after a failed attempt, if all attempts have failed for `failed_for`: an eighth of it, so that
    /// recovery is noticed soon in relation to the outage.
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
        // One hour of consecutive failed attempts.
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
