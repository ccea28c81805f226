//! Times on the command line: absolute in UTC, as the history prints them, or relative to now.

use super::window::UnixMs;
use crate::calendar;
use crate::time::{parse_duration, Ns};

/// An hour: the unit of a bare number.
const HOUR: Ns = Ns(3_600_000_000_000);
/// A day, ms.
const DAY_MS: i64 = 86_400_000;

/// The text is not a time.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a time; write how long ago (30h, 7d) or when in UTC (2026-11-26T07:30, 2026-11-26, 07:30; +01:00 after it for another zone)")]
pub struct NotAMoment(String);

/// `30h`, `7d` (before `now`; a bare number counts in hours), `2026-11-26`, `2026-11-26T07:30[:05[.250]]` (also with a space),
/// `07:30[:05]` (of the day of `now`); UTC unless `Z` or `±HH:MM` follows the time.
///
/// # Errors
/// The text is none of these; the message names the forms.
pub fn parse(text: &str, now: UnixMs) -> Result<UnixMs, NotAMoment> {
    let wrong = || NotAMoment(text.to_owned());
    let text = text.trim();
    if let Ok(ago) = parse_duration(text, HOUR) {
        return if ago > Ns::ZERO { Ok(now.minus(ago)) } else { Err(wrong()) };
    }
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (Some(date), Some(time.trim_start())),
        None if text.contains(':') => (None, Some(text)),
        None => (Some(text), None),
    };
    let days = match date {
        Some(date) => calendar::days(date).ok_or_else(wrong)?,
        None => now.0.div_euclid(DAY_MS),
    };
    let (second, ns) = time.map_or(Some((0, 0)), calendar::of_day).ok_or_else(wrong)?;
    Ok(UnixMs(days * DAY_MS + second * 1_000 + i64::from(ns) / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-26T08:00:00Z, by `date -u -d … +%s`.
    const NOW: UnixMs = UnixMs(1_795_680_000_000);

    #[test]
    fn moments_read_as_people_write_them() {
        let at = |text: &str| parse(text, NOW).unwrap().to_string();
        assert_eq!(NOW.to_string(), "2026-11-26T08:00:00Z");
        for (text, wanted) in [
            ("30h", "2026-11-25T02:00:00Z"),
            ("30", "2026-11-25T02:00:00Z"),
            ("7d", "2026-11-19T08:00:00Z"),
            ("2026-11-26", "2026-11-26T00:00:00Z"),
            ("2024-02-29T23:59:59.999Z", "2024-02-29T23:59:59.999Z"),
            ("2026-11-26 07:30", "2026-11-26T07:30:00Z"),
            ("2026-11-26T07:30:05.25", "2026-11-26T07:30:05.250Z"),
            ("2026-11-26T00:30+01:00", "2026-11-25T23:30:00Z"),
            ("2026-03-01T12:00:00-05:30", "2026-03-01T17:30:00Z"),
            ("07:30", "2026-11-26T07:30:00Z"),
            ("1970-01-01", "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(at(text), wanted, "{text}");
        }
        // What the history prints is read again, over more than four centuries, leap days among them.
        for day in (-30_000..130_000).step_by(7) {
            let moment = UnixMs(day * DAY_MS + 12_345_678);
            assert_eq!(parse(&moment.to_string(), NOW), Ok(moment));
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "yesterday",
            "0",
            "0h",
            "2026-13-01",
            "2026-02-29",
            "2026-11-26T24:00",
            "7:60",
            "2026-11",
            "26-11-26",
            "1:2:3:4",
            "2026-11-26T07:30+1",
            "2026-11-26T",
            "07:30:",
            "07:30:05.",
            "٣:٣٠",
            "2026-11-26T07:30:05.25é",
        ] {
            assert!(parse(text, NOW).is_err(), "{text}");
        }
    }
}
