//! Exit codes, the same in every command.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use lathunt_core::judge::{self, Rules};
use lathunt_core::printable;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_core::verdict::{Outcome, Verdict};

use crate::limits;

/// Could not measure, or the request makes no sense.
pub const COULD_NOT_MEASURE: u8 = 1;
/// A deadline or threshold was exceeded.
pub const EXCEEDED: u8 = 2;
/// Measured, but with losses that may hide a violation.
pub const INCONCLUSIVE: u8 = 3;

/// Judges the run of a single instrument: a PASS needs as many samples as anywhere else, and conditions that void a
/// measurement do so without a deadline too.
#[must_use]
pub fn judged(deadline: Option<Ns>, run: &Run, quantity: Quantity) -> Verdict {
    judge::judge(run, deadline, &Rules::instrument(quantity))
}

/// The exit code of every command that ends with a verdict. A run without one makes no claim.
#[must_use]
pub fn of(verdict: Option<&Verdict>) -> ExitCode {
    verdict.map_or(0, judge::exit_code).into()
}

/// [`of`], for a result that shows no verdict: stderr says why it is not 0.
#[must_use]
pub fn told(verdict: &Verdict) -> ExitCode {
    let why = verdict.reasons.first().map_or("no reason is known", String::as_str);
    match verdict.outcome {
        Some(Outcome::Fail) => eprintln!("deadline exceeded: {}", printable::line(why)),
        Some(Outcome::Inconclusive) => eprintln!("inconclusive: {}", printable::line(why)),
        Some(Outcome::Pass) | None => {}
    }
    of(Some(verdict))
}

/// Whether all outputs of a result were written. A failure of one does not suppress the others: the caller tries all,
/// then this reports each.
///
/// # Errors
/// The last failure; those before it are printed.
pub fn all(outcomes: impl IntoIterator<Item = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut failed = Ok(());
    for outcome in outcomes {
        if let (Err(before), Err(_)) = (&failed, &outcome) {
            eprintln!("lathunt: {}", one_line(before));
        }
        failed = outcome.and(failed);
    }
    failed
}

/// An error with its causes on one line. It may quote a file: control characters are escaped.
#[must_use]
pub fn one_line(error: &anyhow::Error) -> String {
    let one = format!("{error:#}")
        .split('\n')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    let remedy = limits::remedy(error);
    shortened(&printable::line(&format!("{one}{remedy}")))
}

/// Characters of an error that are shown: its start says where, its end what to do.
const SHOWN: (usize, usize) = (1_500, 500);

/// An error without the middle of a long quotation.
#[must_use]
pub fn shortened(error: &str) -> String {
    let (begin, end) = SHOWN;
    let count = error.chars().count();
    if count <= begin + end {
        return error.to_owned();
    }
    let first: String = error.chars().take(begin).collect();
    let last: String = error.chars().skip(count - end).collect();
    format!("{first} … {last}")
}

/// The error in the arguments, on one line, with clap's hint if there is one.
pub(crate) fn usage_error(error: &clap::Error) -> String {
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "no command given; see --help".to_owned();
    }
    let text = error.render().to_string();
    let told = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    // clap's tip to write an unknown option after `--` helps with no command here.
    let is_of_use =
        |line: &&str| !["For more information", "tip: to pass '"].iter().any(|at| line.starts_with(at));
    let told = told.filter(|line| !line.is_empty() && is_of_use(line));
    let line = told.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    format!(
        "{}; {}",
        line.trim_start_matches("error: "),
        command_after_dashes(error).unwrap_or("see --help".to_owned())
    )
}

/// `record ./app`: the correct command line, if the command takes a program after `--`.
fn command_after_dashes(error: &clap::Error) -> Option<String> {
    const TAKE_A_PROGRAM: [&str; 3] = ["record", "trace", "respond"];
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let takes_one = words.first().is_some_and(|command| TAKE_A_PROGRAM.contains(&command.as_str()));
    if !takes_one || error.kind() != clap::error::ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(refused) = error.get(ContextKind::InvalidArg)? else { return None };
    if refused.starts_with('-') {
        return None; // an option
    }
    let at = words.iter().position(|word| word == refused)?;
    let (options, program) = words.split_at(at);
    Some(format!("a program goes after --: lathunt {} -- {}", options.join(" "), program.join(" ")))
}

#[cfg(test)]
mod tests {
    use lathunt_core::conditions::Conditions;
    use lathunt_core::histogram::{Histogram, Layout};
    use lathunt_core::series::Series;

    use super::*;

    #[test]
    fn an_error_that_quotes_a_long_line_stays_readable() {
        let long = anyhow::anyhow!("line 1: '{}' is not a duration", "( ".repeat(100_000));
        let told = one_line(&long);
        assert!(told.starts_with("line 1: '( (") && told.ends_with("' is not a duration"), "{told}");
        assert_eq!(told.chars().count(), 2_003);
        assert_eq!(shortened("short"), "short");
    }

    /// For CPUs with this many samples of 10 µs, one of this many µs, and this many lost ones.
    fn code(deadline: Option<u64>, all: &[(u64, u64, u64)]) -> ExitCode {
        let mut run = Run::new(Conditions::default());
        for &(samples, us, lost) in all {
            let mut histogram = Histogram::new(Layout::LATENCY);
            (1..samples).for_each(|_| histogram.record(Ns::from_us(10)));
            (samples > 0).then(|| histogram.record(Ns::from_us(us)));
            run.series.push(Series { lost, ..Series::new(Quantity::Cyclic, None, histogram) });
        }
        told(&judged(deadline.map(Ns::from_us), &run, Quantity::Cyclic))
    }

    #[test]
    fn what_an_error_quotes_of_a_file_does_not_reach_the_terminal_as_it_is() {
        let error = anyhow::anyhow!("unknown variant `\x1b[2Jx`,\n expected cyclic").context("cannot read");
        assert_eq!(one_line(&error), "cannot read: unknown variant `\\u{1b}[2Jx`,; expected cyclic");
    }

    #[test]
    fn a_deadline_is_met_only_where_everything_was_sampled_often_enough() {
        let (met, exceeded, open) = (ExitCode::SUCCESS, EXCEEDED.into(), INCONCLUSIVE.into());
        assert_eq!(code(None, &[(1, 900, 0)]), met);
        assert_eq!(code(None, &[(40_000, 900, 1)]), open, "void without a deadline, too");
        assert_eq!(code(Some(50), &[(40_000, 50, 0), (40_000, 20, 0)]), met);
        assert_eq!(code(Some(50), &[(3, 20, 0)]), open, "three samples carry no PASS");
        assert_eq!(code(Some(50), &[(10, 10, 0), (10, 51, 3)]), exceeded, "a loss takes nothing back");
        assert_eq!(code(Some(50), &[]), open);
        assert_eq!(code(Some(50), &[(40_000, 10, 0), (0, 0, 0)]), open, "one CPU gave none");
        assert_eq!(code(Some(50), &[(40_000, 10, 1)]), open, "the lost one may have been late");
    }
}
