//! `lathunt history`: the maxima of consecutive windows recorded by a monitor.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail, Result};
use lathunt_core::monitor::history::History;
use lathunt_core::monitor::moment;
use lathunt_core::monitor::window::{UnixMs, Wanted, QUANTITIES};
use lathunt_core::report::plot::Plot;
use lathunt_core::report::{self, svg};
use lathunt_core::time::{parse_duration, Ns};
use lathunt_host::monitor::clocks;
use lathunt_host::monitor::store::Reader;
use lathunt_host::restrict::{to_reading, Programs};

use super::monitor::DATABASE;
use super::units;
use crate::file::write_atomic;
use crate::out;

/// Show the maxima of consecutive windows recorded by `lathunt monitor`.
///
/// Prints each series with its worst windows, as a table, JSON, CSV or plot. The monitor may be running. Quantiles cover all
/// samples; a quantile that lost samples could change is not printed. Damaged records are named and skipped.
#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    /// Start of the time range: how long ago (30h, 7d; bare numbers are hours), or a time in UTC (2026-11-26T07:30, 2026-11-26,
    /// 07:30)
    #[arg(long, value_name = "TIME", default_value = "30h", value_parser = moment)]
    since: UnixMs,
    /// End of the time range, in the same forms [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<UnixMs>,
    /// Show only this series: timer, wakeup, timer+wakeup, sharedprio, response; of one CPU (wakeup@1), or of the tasks of one
    /// name (wakeup@task:NAME); can be repeated
    #[arg(long, value_name = "SERIES")]
    series: Vec<Wanted>,
    /// Database of the monitor
    #[arg(long, value_name = "FILE", default_value = DATABASE)]
    database: PathBuf,
    /// Print the exceedance probability of this latency for each series; bare numbers are µs. Jobs are judged by their own
    /// deadline
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    deadline: Option<Ns>,
    /// Print everything as JSON, with histograms and explanations
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print one line per window and series as CSV
    #[arg(long)]
    csv: bool,
    /// Plot the maxima instead; the file extension selects the format: .svg or .png (the first quantity that has samples), or
    /// .html (all quantities, with the worst cases)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv"])]
    plot: Option<PathBuf>,
}

/// Width of the table if stdout is not a terminal.
const WIDTH: usize = 132;

/// Reads and prints.
///
/// # Errors
/// One line about the database or the file that cannot be read or written.
pub fn run(args: HistoryArgs) -> Result<ExitCode> {
    let format = match &args.plot {
        None => None,
        Some(path) => match path.extension().and_then(|ending| ending.to_str()) {
            Some(ending @ ("svg" | "png" | "html")) => Some((path, ending)),
            _ => bail!("cannot plot to {}: the name must end in .svg, .png or .html", path.display()),
        },
    };
    if let Some(until) = args.until.filter(|until| *until <= args.since) {
        bail!("no time between --since {} and --until {until}: --until must be later", args.since);
    }
    // A root that reads a database of the user `lathunt` may open it like one being written: SQLite's index is beside it.
    let outputs: Vec<&Path> = args.plot.as_deref().into_iter().chain([args.database.as_path()]).collect();
    let is_png = format.is_some_and(|(_, ending)| ending == "png");
    to_reading(&outputs, if is_png { Programs::Some } else { Programs::None })?;
    let mut history = Reader::open(&args.database)?.history_between(args.since, args.until)?;
    history.latency_deadline = args.deadline;
    if !args.series.is_empty() {
        let known: Vec<String> = history.by_series().keys().map(ToString::to_string).collect();
        history = history.only(|key| args.series.iter().any(|wanted| wanted.is(key)));
        // For a program that reads CSV or JSON, an empty result is not an error.
        if history.rows.is_empty() && !known.is_empty() && !args.json && !args.csv {
            bail!("no such series {}; there are: {}", history.asked(), known.join(", "));
        }
    }
    if let Some((path, ending)) = format {
        write_atomic(path, &draw(&history, &args.series, ending)?)?;
        eprintln!("history: {}", path.display());
    } else if args.json {
        let mut damaged = Vec::new();
        out::print(&(history.to_json(&mut damaged) + "\n"))?;
        tell(&args.database, &damaged);
    } else if args.csv {
        let mut damaged = Vec::new();
        out::print(&history.to_csv(&mut damaged))?;
        tell(&args.database, &damaged);
    } else {
        let width = lathunt_host::terminal::columns().filter(|_| std::io::stdout().is_terminal());
        out::print(&history.to_text(width.unwrap_or(WIDTH).clamp(80, 200)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(database: &Path, damaged: &[String]) {
    damaged.iter().for_each(|damaged| eprintln!("history: {}: {damaged}", database.display()));
}

fn draw(history: &History, wanted: &[Wanted], ending: &str) -> Result<Vec<u8>> {
    let plots: Vec<Plot> = QUANTITIES
        .into_iter()
        .filter_map(|quantity| report::history::plot(history, quantity, wanted))
        .collect();
    let first = plots.first().ok_or_else(|| anyhow!("nothing to plot: no sample {}", history.asked()))?;
    if ending == "html" {
        return Ok(report::history::page(history, &plots)?.into_bytes());
    }
    if plots.len() > 1 && !wanted.is_empty() {
        bail!("an .{ending} file can plot only one quantity; select its series, or write an .html file");
    }
    match ending {
        "png" => super::plot::to_png(&svg::standalone(first)),
        _ => Ok(svg::standalone(first).into_bytes()),
    }
}

/// A bare number means hours.
pub(super) fn since(text: &str) -> Result<Ns, String> {
    match parse_duration(text, Ns(3_600_000_000_000)) {
        Ok(Ns::ZERO) => Err("must be above 0".to_owned()),
        Ok(length) => Ok(length),
        Err(error) => Err(error.to_string()),
    }
}

fn moment(text: &str) -> Result<UnixMs, String> {
    moment::parse(text, clocks::wall()).map_err(|error| error.to_string())
}
