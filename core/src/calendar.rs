//! Parses dates and times (RFC 3339 and shorter forms) into seconds since 1970.

/// Seconds since 1970 and ns of `YYYY-MM-DDTHH:MM:SS[.fraction]` with `Z` or `±HH:MM` (RFC 3339). Fraction digits after
/// the ninth are dropped.
#[must_use]
pub fn rfc3339(text: &str) -> Option<(i64, u32)> {
    let (date, time) = text.split_once('T')?;
    let whole = time.get(..8)?;
    let zone = time.get(8..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let is_full = date.len() == 10 && whole.bytes().all(|byte| byte == b':' || byte.is_ascii_digit());
    if !is_full || !matches!((zone, zone.len()), ("Z", 1) | (_, 6)) {
        return None;
    }
    let (second, ns) = of_day(time)?;
    Some((days(date)? * 86_400 + second, ns))
}

/// Days since 1970-01-01 of `YYYY-MM-DD` (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
#[must_use]
pub fn days(date: &str) -> Option<i64> {
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

/// Seconds since midnight UTC, and ns, of `HH:MM[:SS[.fraction]][Z|±HH:MM]`.
#[must_use]
pub fn of_day(time: &str) -> Option<(i64, u32)> {
    let time = time.strip_suffix('Z').unwrap_or(time);
    let (time, east) = match time.rfind(['+', '-']) {
        None => (time, 0),
        Some(at) => {
            let (hours, minutes) = time[at + 1..].split_once(':')?;
            let offset =
                (digits(hours).filter(|h| *h < 24)? * 60 + digits(minutes).filter(|m| *m < 60)?) * 60;
            (&time[..at], if time[at..].starts_with('-') { -offset } else { offset })
        }
    };
    let mut parts = time.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
    if parts.next().is_some() {
        return None;
    }
    let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let ns = format!("{fraction:0<9}").get(..9).filter(|_| is_number)?.parse().ok()?;
    let (hour, minute, second) = (digits(hour)?, digits(minute)?, digits(second)?);
    (hour < 24 && minute < 60 && second < 60).then(|| ((hour * 60 + minute) * 60 + second - east, ns))
}

/// A number of at most four digits, and nothing else.
fn digits(text: &str) -> Option<i64> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_counts_seconds_with_its_zone() {
        assert_eq!(rfc3339("1970-01-01T00:00:00Z"), Some((0, 0)));
        assert_eq!(rfc3339("1969-12-31T23:59:59Z"), Some((-1, 0)));
        // date -u -d 2024-02-29T12:00:00Z +%s
        assert_eq!(rfc3339("2024-02-29T12:00:00.250+00:00"), Some((1_709_208_000, 250_000_000)));
        assert_eq!(rfc3339("2024-02-29T13:30:00+01:30"), Some((1_709_208_000, 0)));
        assert_eq!(rfc3339("2024-02-29T07:00:00.0000000019-05:00"), Some((1_709_208_000, 1)));
        for bad in [
            "",
            "yesterday",
            "2024-02-29",
            "2024-02-29T12:00:00",
            "2024-02-29T12:00:00+é:00",
            "ä024-02-29T12:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-26T24:00:00Z",
            "2026-11-26T13:00Z",
            "2026-11-26T13:00:00Zx",
            "2026-11-26T13:00:00.Z",
            "2026-11-26 13:00:00Z",
            "2026-1-26T13:00:00Z",
        ] {
            assert_eq!(rfc3339(bad), None, "{bad}");
        }
    }
}
