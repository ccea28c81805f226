//! `lathunt box --pair KIND --matrix`: from each CPU to each CPU, one after the other.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::signals;
use lathunt_host::tree::LIVE;

use super::session::{broke, say_broke, to_run, Prepared};
use super::{open, table, watch};
use crate::cmd::latency_box::BoxArgs;
use crate::file::write_atomic;
use crate::{exit, out, stopped};

/// Default length per pair.
const LENGTH: Ns = Ns::from_ms(2_000);

/// Measures and prints the medians and maxima as tables.
///
/// # Errors
/// As [`super::session::run`].
pub fn run(args: &BoxArgs) -> Result<ExitCode> {
    let file = args.output.as_deref().map(super::session::output).transpose()?;
    let mut prepared = Prepared::new(args)?;
    let cpus = prepared.place.cpus.clone();
    let before = crate::conditions::before_measuring(&prepared.cpus);
    let (mut finished, mut elapsed, mut longest) = (Vec::new(), Ns::ZERO, Ns::ZERO);
    'all: for local in args.locals() {
        for &from in &cpus {
            for &to in &cpus {
                let name = format!("{local} CPU {from} to {to}");
                let mut options = open::options(args, name, from, prepared.place.priority);
                options.duration = Some(args.duration.unwrap_or(LENGTH));
                let end = open::pair(local, Some(to), options, None)?;
                let (one, length) =
                    watch::follow(args, vec![end], watch::Others::default(), &prepared.conditions);
                finished.extend(one);
                elapsed = elapsed + length;
                longest = longest.max(length);
                if signals::stop_requested().is_some() || broke(&finished).is_some() {
                    break 'all;
                }
            }
        }
    }
    // That of each series: the pairs are measured one after the other.
    prepared.conditions.duration_s = Some(longest.as_secs());
    prepared.conditions.during = before.during(Path::new(LIVE), &prepared.cpus);
    let mut run = to_run(prepared.conditions, &finished);
    stopped::by_signal(elapsed, "all pairs of CPUs").into_iter().for_each(|why| run.stopped(why));
    run.verdict = Some(exit::judged(args.deadline, &run, Quantity::Roundtrip));
    let text =
        if args.json { run.to_json() + "\n" } else { table(args, &run, &cpus) + &table::verdict(&run) };
    let saved = file.map_or(Ok(()), |file| write_atomic(&file, run.to_json().as_bytes()));
    exit::all([out::print(&text).map_err(Into::into), saved])?;
    if let Some(code) = say_broke(args, &finished) {
        return Ok(code);
    }
    let code = exit::of(run.verdict.as_ref());
    let lost = run.of(Quantity::Roundtrip).any(|series| series.lost > 0);
    Ok(if code == ExitCode::SUCCESS && lost { exit::INCONCLUSIVE.into() } else { code })
}

fn table(args: &BoxArgs, run: &Run, cpus: &[Cpu]) -> String {
    let mut text = String::new();
    for local in args.locals() {
        for (name, q) in [("median", 0.5), ("max", 1.0)] {
            let _ = write!(
                text,
                "{local}, round trip, {name}: CPU of the box per row, of the responder per column\n{:>8}",
                ""
            );
            for cpu in cpus {
                let _ = write!(text, "{:>12}", format!("CPU {cpu}"));
            }
            text.push('\n');
            for from in cpus {
                let _ = write!(text, "{:>8}", format!("CPU {from}"));
                for to in cpus {
                    let label = format!("{local} CPU {from} to {to}");
                    let found = run.of(Quantity::Roundtrip).find(|series| series.label() == label);
                    let cell = found.and_then(|series| series.histogram.quantile(q));
                    let _ = write!(text, "{:>12}", cell.map_or("-".to_owned(), |ns| ns.to_string()));
                }
                text.push('\n');
            }
        }
    }
    text
}
