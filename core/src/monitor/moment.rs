//! Moments on the command line: absolute ones in UTC, as the history prints them, or as a time before now.

use super::window::UnixMs;
use crate::time::{parse_duration, Ns};

/// An hour: the unit of a bare number.
const HOUR: Ns = Ns(3_600_000_000_000);
/// A day, ms.
const DAY_MS: i64 = 86_400_000;

/// Text that names no moment.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a time; write how long ago (30h, 7d) or when in UTC (2026-11-26T07:30, 2026-11-26, 07:30; +01:00 after it for another zone)")]
pub struct NotAMoment(String);

/// `30h`, `7d` (before `now`; a bare number counts in hours), `2026-11-26`, `2026-11-26T07:30[:05[.250]]` (also with a space),
/// `07:30[:05]` (of the day of `now`); UTC unless `Z` or `±HH:MM` follows the time.
///
/// # Errors
/// Names the text and the forms.
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
        Some(date) => days(date).ok_or_else(wrong)?,
        None => now.0.div_euclid(DAY_MS),
    };
    let of_day = time.map_or(Some(0), of_day).ok_or_else(wrong)?;
    Ok(UnixMs(days * DAY_MS + of_day))
}

/// Days since 1970-01-01 of `YYYY-MM-DD` (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn days(date: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 {
        return None;
    }
    let (year, month, day) = (digits(year)?, digits(month)?, digits(day)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// ms since midnight UTC of `HH:MM[:SS[.mmm]][Z|±HH:MM]`.
fn of_day(time: &str) -> Option<i64> {
    let time = time.strip_suffix('Z').unwrap_or(time);
    let (time, east_ms) = match time.rfind(['+', '-']) {
        None => (time, 0),
        Some(at) => {
            let (hours, minutes) = time[at + 1..].split_once(':')?;
            let offset =
                (digits(hours).filter(|h| *h < 24)? * 60 + digits(minutes).filter(|m| *m < 60)?) * 60_000;
            (&time[..at], if time[at..].starts_with('-') { -offset } else { offset })
        }
    };
    let mut parts = time.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
    if parts.next().is_some() {
        return None;
    }
    let (second, ms) = second.split_once('.').unwrap_or((second, "0"));
    let ms = digits(ms.get(..3).unwrap_or(ms))? * [100, 10, 1][ms.len().min(3) - 1];
    let (hour, minute, second) = (digits(hour)?, digits(minute)?, digits(second)?);
    (hour < 24 && minute < 60 && second < 60)
        .then(|| ((hour * 60 + minute) * 60 + second) * 1_000 + ms - east_ms)
}

/// A number of at most four digits, and nothing else.
fn digits(text: &str) -> Option<i64> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
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
