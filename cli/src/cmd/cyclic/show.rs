//! The progress line and the table of `lathunt cyclic`.

use std::fmt::Write as _;

use lathunt_core::numbers::counted;
use lathunt_core::report::figures::fitting;
use lathunt_core::time::Ns;
use lathunt_host::instrument::cyclic::{Cyclic, ThreadResult};

use super::CyclicArgs;
use crate::until::Until;

/// State of all threads, in one line without its end.
pub(super) fn progress(cyclic: &Cyclic, until: Option<Until>, elapsed: Ns) -> String {
    let threads = cyclic.options().threads.len();
    let states: Vec<_> = (0..threads).map(|index| cyclic.live(index)).collect();
    let count: u64 = states.iter().map(|live| live.count).sum();
    let missed: u64 = states.iter().map(|live| live.missed).sum();
    let max = states.iter().filter_map(|live| live.max).max();
    let until = until.map(|until| {
        let of = until.estimate().map(|whole| format!(" of about {:.0} s", whole.as_secs()));
        format!("{}: {:.0} s{}, ", until.phase("measuring"), elapsed.as_secs(), of.unwrap_or_default())
    });
    let until = until.unwrap_or_default();
    let (threads, samples) = (counted(threads as u64, "thread"), counted(count, "sample"));
    format!("{until}{threads}, {samples}, {missed} missed, max {}", shown(max))
}

fn shown(value: Option<Ns>) -> String {
    value.map_or_else(|| "-".to_owned(), |ns| ns.to_string())
}

/// One line for each thread, and its histogram if asked for.
pub(super) fn table(args: &CyclicArgs, results: &[ThreadResult]) -> String {
    let mut text = format!(
        "{:<7}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}{:>5}\n",
        "", "samples", "min", "median", "avg", "p99.9", "max", "missed", "lost"
    );
    for (index, ThreadResult { series, .. }) in results.iter().enumerate() {
        // A SCHED_DEADLINE thread is on no CPU of its own, and its name is too long for the table.
        let label = if series.cpu.is_some() { series.label() } else { format!("DL {index}") };
        let view = series.replayed.as_ref().filter(|_| args.replayed).unwrap_or(&series.histogram);
        let average = view.mean_ns().map(|ns| Ns(ns as u64));
        let cells = [view.min(), view.quantile(0.5), average, view.quantile(0.999), view.max()];
        let _ = write!(text, "{label:<7} {:>9}", fitting(view.count(), 9));
        for cell in cells {
            let _ = write!(text, " {:>9}", shown(cell));
        }
        let missed = series.missed.unwrap_or(0); // the instrument counts them
        let _ = writeln!(text, " {:>7} {:>4}", fitting(missed, 7), series.lost);
        if args.histogram {
            for (low, high, count) in view.occupied() {
                let _ = writeln!(text, "  {:>12.3} to {:>12.3} µs {count:>12}", low.as_us(), high.as_us());
            }
        }
    }
    text
}
