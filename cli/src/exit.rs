//! Exit codes, the same in every command.

use std::process::ExitCode;

use lathunt_core::report::printable;
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::Ns;
use lathunt_core::verdict::{self, Outcome, Rules, Verdict};

/// Could not measure, or the request makes no sense.
pub const COULD_NOT_MEASURE: u8 = 1;
/// A deadline or threshold was exceeded.
pub const EXCEEDED: u8 = 2;
/// Measured, but with losses that may hide what was asked for.
pub const INCONCLUSIVE: u8 = 3;

/// The verdict that the run of an instrument alone keeps, where a deadline was given: a PASS needs as many samples as
/// anywhere else.
pub fn verdict(deadline: Option<Ns>, run: &Run, quantity: Quantity) -> Option<Verdict> {
    deadline.map(|deadline| verdict::judge(run, Some(deadline), &Rules::instrument(quantity)))
}

/// For an instrument alone: exceeded, or nothing to judge on some of what was to be measured, said on stderr.
pub fn against(deadline: Option<Ns>, run: &Run, quantity: Quantity) -> ExitCode {
    let Some(deadline) = deadline else { return ExitCode::SUCCESS };
    if let Some(max) = run.max_of(quantity).filter(|max| *max > deadline) {
        let (max, deadline) = max.told_apart(deadline);
        eprintln!("deadline exceeded: {max} is above {deadline}");
        return EXCEEDED.into();
    }
    if run.of(quantity).next().is_none() {
        eprintln!("no sample: nothing can be said about the deadline");
        return INCONCLUSIVE.into();
    }
    let silent = |series: &&Series| series.histogram.count() == 0 || series.lost > 0;
    if let Some(series) = run.of(quantity).find(silent) {
        let (label, count, lost) = (series.label(), series.histogram.count(), series.lost);
        eprintln!("{label}: {count} samples, {lost} lost: nothing can be said about the deadline");
        return INCONCLUSIVE.into();
    }
    let open = run.verdict.as_ref().filter(|verdict| verdict.outcome == Some(Outcome::Inconclusive));
    if let Some(reason) = open.and_then(|verdict| verdict.reasons.first()) {
        eprintln!("note: within the deadline so far, but no PASS: {reason}");
    }
    ExitCode::SUCCESS
}

/// An error with its causes on one line. It may quote a file: no control character reaches the terminal.
#[must_use]
pub fn one_line(error: &anyhow::Error) -> String {
    let one = format!("{error:#}")
        .split('\n')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    printable::line(&one).into_owned()
}

#[cfg(test)]
mod tests {
    use lathunt_core::conditions::Conditions;
    use lathunt_core::histogram::{Histogram, Layout};

    use super::*;

    fn told(deadline: Option<u64>, all: &[(&[u64], u64)]) -> ExitCode {
        let mut run = Run::new(Conditions::default());
        for (samples, lost) in all {
            let mut histogram = Histogram::new(Layout::LATENCY);
            samples.iter().for_each(|us| histogram.record(Ns::from_us(*us)));
            run.series.push(Series { lost: *lost, ..Series::new(Quantity::Cyclic, None, histogram) });
        }
        against(deadline.map(Ns::from_us), &run, Quantity::Cyclic)
    }

    #[test]
    fn what_an_error_quotes_of_a_file_does_not_reach_the_terminal_as_it_is() {
        let error = anyhow::anyhow!("unknown variant `\x1b[2Jx`,\n expected cyclic").context("cannot read");
        assert_eq!(one_line(&error), "cannot read: unknown variant `\\u{1b}[2Jx`,; expected cyclic");
    }

    #[test]
    fn a_deadline_is_met_only_where_everything_was_sampled() {
        let (met, exceeded, open) = (ExitCode::SUCCESS, EXCEEDED.into(), INCONCLUSIVE.into());
        assert_eq!(told(None, &[(&[900], 0)]), met);
        assert_eq!(told(Some(50), &[(&[10, 50], 0), (&[20], 0)]), met);
        assert_eq!(told(Some(50), &[(&[10], 0), (&[51], 3)]), exceeded, "a loss takes nothing back");
        assert_eq!(told(Some(50), &[]), open);
        assert_eq!(told(Some(50), &[(&[10], 0), (&[], 0)]), open, "one CPU gave none");
        assert_eq!(told(Some(50), &[(&[10], 1)]), open, "the lost one may have been late");
    }
}
