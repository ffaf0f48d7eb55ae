//! Cron schedules as Karpenter reads them: five fields or a macro, in UTC.

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A schedule that can be read.
#[derive(Clone)]
pub struct Schedule {
    text: String,
    cron: Box<Cron>,
}

impl Schedule {
    /// Reads `text`: `0 9 * * mon-fri`, `@daily`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        // The one macro of Karpenter's library that croner does not know.
        let known = if text.trim().eq_ignore_ascii_case("@midnight") { "@daily" } else { text };
        let cron = parser.parse(known).map_err(|error| error.to_string())?;
        Ok(Self { text: text.to_owned(), cron: Box::new(cron) })
    }

    /// The last hit at or before `now`, if it is less than `duration` ago: since when a window is open.
    pub fn open_since(&self, now: Timestamp, duration: SignedDuration) -> Option<Timestamp> {
        let from = now.checked_sub(duration).ok()?.to_zoned(TimeZone::UTC);
        // As in Karpenter: open if the first hit after `now − duration` is not after now.
        let first = self.cron.find_next_occurrence(&from, false).ok()?;
        (first.timestamp() <= now).then(|| {
            let last = self.cron.find_previous_occurrence(&now.to_zoned(TimeZone::UTC), true);
            last.map_or(first.timestamp(), |last| last.timestamp())
        })
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schedule").field(&self.text).finish()
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(schedule: &str, hours: i64, now: &str) -> bool {
        let schedule = Schedule::parse(schedule).unwrap();
        schedule.open_since(now.parse().unwrap(), SignedDuration::from_hours(hours)).is_some()
    }

    #[test]
    fn windows_open_at_the_hit_and_close_after_their_duration() {
        // The 20th of November 2026 is a Friday.
        for (schedule, hours, now, expected) in [
            ("0 9 * * mon-fri", 8, "2026-11-20T08:59:59Z", false),
            ("0 9 * * mon-fri", 8, "2026-11-20T09:00:00Z", true),
            ("0 9 * * mon-fri", 8, "2026-11-20T16:59:59Z", true),
            ("0 9 * * mon-fri", 8, "2026-11-20T17:00:00Z", false),
            ("0 9 * * mon-fri", 8, "2026-11-21T12:00:00Z", false),
            ("@daily", 1, "2026-11-21T00:30:00Z", true),
            ("@midnight", 1, "2026-11-21T01:30:00Z", false),
            // Either day field may match, as in cron.
            ("0 0 1 * fri", 1, "2026-11-20T00:10:00Z", true),
            ("0 0 1 * fri", 1, "2026-11-01T00:10:00Z", true),
            ("*/15 * * * *", 1, "2026-11-20T03:07:00Z", true),
        ] {
            assert_eq!(open(schedule, hours, now), expected, "{schedule} at {now}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in ["", "0 9 * *", "61 * * * *", "0 0 9 * * *", "@sometimes"] {
            assert!(Schedule::parse(text).is_err(), "{text}");
        }
    }
}
