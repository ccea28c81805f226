//! Whether two runs overlap in time on one machine: samples would count twice.

use crate::calendar::rfc3339;
use crate::run::Run;

/// Why the two are not independent measurements; `None`: they are, as far as their time and host tell.
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
    // Start times have a resolution of one second.
    let both = first.1.min(second.1) - first.0.max(second.0) - 1.0;
    let host = c.0.host.as_ref().map_or("one machine".to_owned(), |host| format!("the machine {host}"));
    (both > 0.0).then(|| format!("were measured at the same time on {host}, for at least {both:.0} s"))
}

/// Start and end, in seconds since 1970.
fn span(run: &Run) -> Option<(f64, f64)> {
    let (from, _) = rfc3339(run.conditions.started.as_deref()?)?; // the second is not split
    let from = from as f64;
    let length = run.conditions.duration_s.filter(|length| *length > 0.0)?;
    Some((from, from + length))
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
