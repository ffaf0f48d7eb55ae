//! Durations in manifests: a sequence of whole hours, minutes and seconds, such as `720h` or `1h30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Pattern of a [`Span`] field.
pub(crate) const SPAN_PATTERN: &str = "^([0-9]+(s|m|h))+$";

/// Pattern of a [`Lifetime`] field.
pub(crate) const LIFETIME_PATTERN: &str = "^(([0-9]+(s|m|h))+|Never)$";

/// Longest duration that Kubernetes can represent, in seconds: its durations are signed 64-bit nanoseconds.
const LONGEST_SECONDS: u64 = i64::MAX as u64 / 1_000_000_000;

/// String form of [`Lifetime::Never`].
const NEVER: &str = "Never";

/// A finite duration with a resolution of one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(
    /// The duration.
    pub Duration,
);

/// A duration, or the word `Never`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// Never elapses.
    Never,
    /// Elapses after this duration.
    After(Duration),
}

/// Reason why a string is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The string is not a sequence of numbers with units.
    #[error("`{0}` is not a duration: use whole numbers with the units h, m and s, such as 1h30m")]
    Malformed(String),
    /// The duration is longer than Kubernetes can represent.
    #[error("`{0}` is too long: a duration may be at most 2562047h")]
    TooLong(String),
}

/// Error of a string that is not a positive duration of Go, or a longer one than Kubernetes can represent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration between 1ns and 2562047h: use numbers with the units h, m and s, such as 1h30m")]
pub struct GoDurationError(String);

/// Reads a duration as Go does (`time.ParseDuration`), with fractions and units down to nanoseconds: `1.5h`, `90000ms`.
/// Annotations have such durations; fields of the API have a [`Span`].
///
/// # Errors
/// Returns an error for text that Go refuses, and for a duration that is not positive: Karpenter ignores both.
pub fn go_duration(text: &str) -> Result<Duration, GoDurationError> {
    let refused = || GoDurationError(text.to_owned());
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (whole, tail) = digits(rest);
        let (fraction, tail) = tail.strip_prefix('.').map_or(("", tail), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(refused());
        }
        let end = tail.find(|character: char| character == '.' || character.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60 * 1_000_000_000,
            "h" => 3600 * 1_000_000_000,
            _ => return Err(refused()),
        };
        // More digits are less than a nanosecond.
        let fraction = &fraction[..fraction.len().min(15)];
        let tenths = 10_u128.pow(fraction.len() as u32);
        let number = |text: &str| if text.is_empty() { Ok(0) } else { text.parse::<u64>().map(u128::from) };
        let (whole, fraction) =
            number(whole).and_then(|whole| Ok((whole, number(fraction)?))).map_err(|_| refused())?;
        total = total.saturating_add(whole * unit + fraction * unit / tenths);
        rest = next;
    }
    let nanoseconds = i64::try_from(total).ok().and_then(|total| u64::try_from(total).ok()).filter(|total| *total > 0);
    nanoseconds.map(Duration::from_nanos).ok_or_else(refused)
}

/// Splits the text after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len()))
}

/// Returns 30 days: the default age at which a node is replaced.
pub(crate) fn default_expire_after() -> Lifetime {
    Lifetime::After(Span::from_secs(720 * 3600).0)
}

// === impl Span ===

impl Span {
    /// Creates a span from a number of seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Span {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || DurationError::Malformed(text.to_owned());
        let too_long = || DurationError::TooLong(text.to_owned());
        if text == "0" {
            return Ok(Self::default());
        }
        let mut total: u64 = 0;
        let mut number: Option<u64> = None;
        for character in text.chars() {
            if let Some(digit) = character.to_digit(10) {
                let next = number.unwrap_or(0).checked_mul(10).and_then(|n| n.checked_add(u64::from(digit)));
                number = Some(next.ok_or_else(too_long)?);
                continue;
            }
            let unit = match character {
                'h' => 3600,
                'm' => 60,
                's' => 1,
                _ => return Err(malformed()),
            };
            let amount = number.take().ok_or_else(malformed)?;
            let seconds = amount.checked_mul(unit).ok_or_else(too_long)?;
            total = total.checked_add(seconds).ok_or_else(too_long)?;
        }
        if number.is_some() || text.is_empty() {
            return Err(malformed());
        }
        if total > LONGEST_SECONDS {
            return Err(too_long());
        }
        Ok(Self::from_secs(total))
    }
}

impl fmt::Display for Span {
    /// Formats in the shortest form: `720h`, `1h30m`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds == 0 {
            return f.write_str("0s");
        }
        for (amount, unit) in [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')] {
            if amount > 0 {
                write!(f, "{amount}{unit}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

// === impl Lifetime ===

impl Lifetime {
    /// Returns the duration, or `None` for `Never`.
    #[must_use]
    pub const fn duration(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::After(duration) => Some(duration),
        }
    }

    /// Returns true for `Never`.
    #[must_use]
    pub const fn is_never(self) -> bool {
        matches!(self, Self::Never)
    }
}

impl FromStr for Lifetime {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == NEVER {
            return Ok(Self::Never);
        }
        text.parse().map(|Span(duration)| Self::After(duration))
    }
}

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str(NEVER),
            Self::After(duration) => Span(*duration).fmt(f),
        }
    }
}

impl Serialize for Lifetime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lifetime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_parse_and_print() {
        for (text, seconds, printed) in [
            ("0s", 0, "0s"),
            ("0", 0, "0s"),
            ("720h", 2_592_000, "720h"),
            ("1h30m", 5400, "1h30m"),
            ("90m", 5400, "1h30m"),
            ("30m1h", 5400, "1h30m"),
            ("61s", 61, "1m1s"),
            ("720h0m0s", 2_592_000, "720h"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span, Span::from_secs(seconds), "{text}");
            assert_eq!(span.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in ["", "h", "1", "1d", "-1h", "1.5h", "Never", " 1h", "1h "] {
            assert!(matches!(text.parse::<Span>(), Err(DurationError::Malformed(_))), "{text}");
        }
        for text in ["2562048h", "99999999999999999999s", "5124095576030431h", "18446744073709551615h"] {
            assert!(matches!(text.parse::<Span>(), Err(DurationError::TooLong(_))), "{text}");
        }
    }

    #[test]
    fn durations_of_go_parse() {
        for (text, milliseconds) in [
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("2h0m0.5s", 7_200_500),
            ("90000ms", 90_000),
            ("+.5s", 500),
            ("1.s", 1_000),
            ("1000000ns", 1),
            ("3000µs", 3),
            ("0.333333333333333333333333m", 19_999),
        ] {
            assert_eq!(go_duration(text).map(|it| it.as_millis()), Ok(milliseconds), "{text}");
        }
        for text in ["", "0", "0s", "-1h", "1", "h", ".h", "1d", "1 h", "true", "1h-", "1h+1m"] {
            assert_eq!(go_duration(text), Err(GoDurationError(text.to_owned())));
        }
        for text in ["2562048h", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(go_duration(text), Err(GoDurationError(text.to_owned())));
        }
    }

    #[test]
    fn a_lifetime_may_be_endless() {
        assert_eq!("Never".parse(), Ok(Lifetime::Never));
        assert_eq!("1m".parse(), Ok(Lifetime::After(Duration::from_secs(60))));
        assert_eq!(Lifetime::Never.to_string(), "Never");
        assert_eq!(Lifetime::Never.duration(), None);
        assert!("never".parse::<Lifetime>().is_err());
    }
}
