//! Whether two runs hold the same time of one machine: its samples would count twice.

use crate::run::Run;

/// Why the two are not two measurements; `None`: they are, as far as they say when and where they were taken.
#[must_use]
pub fn twice(a: &Run, b: &Run) -> Option<String> {
    let begun = a.series.iter().any(|series| series.begin.is_some()); // else small imports may be equal by chance
    if a.series == b.series && (begun || a.conditions == b.conditions) {
        return Some("are the same run".to_owned());
    }
    let c = (&a.conditions, &b.conditions);
    if c.0.host != c.1.host {
        return None;
    }
    let (first, second) = (span(a)?, span(b)?);
    // The second is not split: that of the start is known, its part is not.
    let both = first.1.min(second.1) - first.0.max(second.0) - 1.0;
    let host = c.0.host.as_ref().map_or("one machine".to_owned(), |host| format!("the machine {host}"));
    (both > 0.0).then(|| format!("were measured at the same time on {host}, for at least {both:.0} s"))
}

/// From when to when, in seconds since 1970.
fn span(run: &Run) -> Option<(f64, f64)> {
    let from = seconds(run.conditions.started.as_deref()?)? as f64;
    let length = run.conditions.duration_s.filter(|length| *length > 0.0)?;
    Some((from, from + length))
}

/// Of `2026-11-26T12:05:48+01:00` (RFC 3339; days of a civil date: Howard Hinnant, `days_from_civil`). Fractions are dropped.
fn seconds(text: &str) -> Option<i64> {
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok().filter(|n| *n >= 0);
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    let rest = text.get(19..)?;
    let zone = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            sign * (hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60)
        }
    };
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second - offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;

    fn run(host: &str, started: &str, length: f64) -> Run {
        Run::new(Conditions {
            host: Some(host.to_owned()),
            started: Some(started.to_owned()),
            duration_s: Some(length),
            ..Conditions::default()
        })
    }

    #[test]
    fn a_date_counts_seconds_with_its_zone() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2024-02-29T12:00:00.250+00:00"), Some(1_709_208_000));
        assert_eq!(seconds("2024-02-29T13:30:00+01:30"), Some(1_709_208_000));
        assert_eq!(seconds("2024-02-29T07:00:00-05:00"), Some(1_709_208_000));
        for bad in [
            "",
            "yesterday",
            "2024-02-29",
            "2024-02-29T12:00:00",
            "2024-02-29T12:00:00+é:00",
            "ä024-02-29T12:00:00Z",
        ] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn runs_of_one_machine_that_overlap_in_time_are_told_and_others_are_not() {
        let first = run("a", "2026-11-26T12:00:00+00:00", 60.0);
        let overlaps =
            |host: &str, started: &str, length: f64| twice(&first, &run(host, started, length)).is_some();
        assert!(overlaps("a", "2026-11-26T12:00:30+00:00", 60.0));
        assert!(overlaps("a", "2026-11-26T14:00:30+02:00", 1_000.0));
        assert!(overlaps("a", "2026-11-26T11:00:00+00:00", 9_000.0));
        assert!(!overlaps("a", "2026-11-26T12:01:00+00:00", 60.0), "one after the other");
        assert!(!overlaps("b", "2026-11-26T12:00:30+00:00", 60.0));
        assert_eq!(twice(&first, &first.clone()).as_deref(), Some("are the same run"));
    }
}
