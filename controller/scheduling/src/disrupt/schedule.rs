//! Cron schedules in Karpenter's format: five fields or a macro, in UTC.

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A valid schedule.
#[derive(Clone)]
pub struct Schedule {
    text: String,
    cron: Box<Cron>,
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Schedule {
    /// Parses `text`, such as `0 9 * * mon-fri` or `@daily`.
    ///
    /// # Errors
    /// A description of the syntax error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        // The one macro of Karpenter's library that croner does not support.
        let known = match text.trim() {
            midnight if midnight.eq_ignore_ascii_case("@midnight") => "@daily".to_owned(),
            other if other.starts_with('@') => other.to_owned(),
            fields => spelled_out(fields)?,
        };
        let cron = parser.parse(&known).map_err(|error| error.to_string())?;
        Ok(Self { text: text.to_owned(), cron: Box::new(cron) })
    }

    /// Returns the last occurrence at or before `now` if it is less than `duration` ago: the start of the open window.
    pub fn open_since(&self, now: Timestamp, duration: SignedDuration) -> Option<Timestamp> {
        let from = now.checked_sub(duration).ok()?.to_zoned(TimeZone::UTC);
        // As in Karpenter: open if the first occurrence after `now − duration` is not after `now`.
        let first = self.cron.find_next_occurrence(&from, false).ok()?;
        (first.timestamp() <= now).then(|| {
            let last = self.cron.find_previous_occurrence(&now.to_zoned(TimeZone::UTC), true);
            last.map_or(first.timestamp(), |last| last.timestamp())
        })
    }
}

impl Schedule {
    /// Returns the next occurrence after `now`, and the end of the window that is open at `now`, if they exist.
    pub fn turns(&self, now: Timestamp, duration: SignedDuration) -> [Option<Timestamp>; 2] {
        let next = self.cron.find_next_occurrence(&now.to_zoned(TimeZone::UTC), false);
        let opens = next.ok().map(|next| next.timestamp());
        let closes = self.open_since(now, duration).and_then(|since| since.checked_add(duration).ok());
        [opens, closes]
    }
}

/// A field of a schedule.
struct Field {
    name: &'static str,
    least: u32,
    greatest: u32,
    /// Names of the numbers, beginning with the least.
    words: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, greatest: 59, words: &[] },
    Field { name: "hour", least: 0, greatest: 23, words: &[] },
    Field { name: "day of month", least: 1, greatest: 31, words: &[] },
    Field {
        name: "month",
        least: 1,
        greatest: 12,
        words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { name: "day of week", least: 0, greatest: 6, words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Returns the five fields in croner's syntax if Karpenter's library (robfig/cron) accepts them too: no `L`, `W` or
/// `#`, and Sunday is 0. Karpenter disrupts nothing while a schedule is invalid.
fn spelled_out(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!("it has {} fields, not minute, hour, day of month, month and day of week", parts.len()));
    }
    let field = |(part, field): (&&str, &Field)| -> Result<String, String> {
        let items: Result<Vec<String>, String> = part.split(',').map(|one| item(one, field)).collect();
        Ok(items?.join(","))
    };
    Ok(parts.iter().zip(&FIELDS).map(field).collect::<Result<Vec<String>, String>>()?.join(" "))
}

/// Parses one item of a field's list: `*`, `5`, `1-5`, each with an optional `/2`. `5/20` is every 20 from 5 on.
fn item(text: &str, field: &Field) -> Result<String, String> {
    let Field { name, greatest, .. } = field;
    let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
    if step.is_some_and(|step| !step.parse::<u32>().is_ok_and(|step| step > 0)) {
        return Err(format!("{name} `{text}`: the step must be a number from 1 on"));
    }
    let range = match range.split_once('-') {
        _ if matches!(range, "*" | "?") => "*".to_owned(),
        Some((from, to)) if !from.is_empty() => {
            let (from, to) = (number(from, field)?, number(to, field)?);
            if to < from {
                return Err(format!("{name} `{range}` ends before it begins"));
            }
            format!("{from}-{to}")
        }
        _ if step.is_some() => format!("{}-{greatest}", number(range, field)?),
        _ => number(range, field)?.to_string(),
    };
    Ok(step.map_or_else(|| range.clone(), |step| format!("{range}/{step}")))
}

fn number(text: &str, field: &Field) -> Result<u32, String> {
    let Field { name, least, greatest, words } = field;
    let word = words.iter().zip(*least..).find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, number)| number);
    let number = word.or_else(|| text.parse().ok()).filter(|number| (*least..=*greatest).contains(number));
    number.ok_or_else(|| {
        let words = words.first().zip(words.last()).map_or_else(String::new, |(a, z)| format!(" or {a} to {z}"));
        format!("{name} `{text}` is not {least} to {greatest}{words}")
    })
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
        // 20 November 2026 is a Friday.
        for (schedule, hours, now, expected) in [
            ("0 9 * * mon-fri", 8, "2026-11-20T08:59:59Z", false),
            ("0 9 * * mon-fri", 8, "2026-11-20T09:00:00Z", true),
            ("0 9 * * mon-fri", 8, "2026-11-20T16:59:59Z", true),
            ("0 9 * * mon-fri", 8, "2026-11-20T17:00:00Z", false),
            ("0 9 * * mon-fri", 8, "2026-11-21T12:00:00Z", false),
            ("@daily", 1, "2026-11-21T00:30:00Z", true),
            ("@midnight", 1, "2026-11-21T01:30:00Z", false),
            // A match of either day field is enough, as in cron.
            ("0 0 1 * fri", 1, "2026-11-20T00:10:00Z", true),
            ("0 0 1 * fri", 1, "2026-11-01T00:10:00Z", true),
            ("0 0 ? * FRI", 1, "2026-11-20T00:10:00Z", true),
            ("30/25 12 * * *", 1, "2026-11-20T12:29:59Z", false),
            ("30/25 12 * * *", 1, "2026-11-20T13:50:00Z", true),
            ("*/15 * * * *", 1, "2026-11-20T03:07:00Z", true),
        ] {
            assert_eq!(open(schedule, hours, now), expected, "{schedule} at {now}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for (text, expected) in [
            ("", "it has 0 fields, not minute, hour, day of month, month and day of week"),
            ("0 0 9 * * *", "it has 6 fields, not minute, hour, day of month, month and day of week"),
            ("61 * * * *", "minute `61` is not 0 to 59"),
            ("0 0 L * *", "day of month `L` is not 1 to 31"),
            ("0 0 1 foo *", "month `foo` is not 1 to 12 or jan to dec"),
            ("0 0 * * 7", "day of week `7` is not 0 to 6 or sun to sat"),
            ("0 0 * * mon#1", "day of week `mon#1` is not 0 to 6 or sun to sat"),
            ("0 9-5 * * *", "hour `9-5` ends before it begins"),
            ("*/0 * * * *", "minute `*/0`: the step must be a number from 1 on"),
            ("-1 * * * *", "minute `-1` is not 0 to 59"),
        ] {
            assert_eq!(Schedule::parse(text).unwrap_err(), expected, "{text}");
        }
        assert!(Schedule::parse("@sometimes").is_err());
    }
}
