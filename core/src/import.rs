//! Reading the results of other latency tools: cyclictest (histograms, status lines, `-v`, JSON), the other programs of
//! rt-tests, rteval, rtla, jitterdebugger, hwlatdetect, Xenomai's latency, EVL's latmus and the kernel's hist triggers. The tool is detected from the text.
//!
//! Missing data is not invented. A histogram has values up to its last row; of the samples beyond, only the number and
//! the largest are known, so the largest is added and the others are counted as lost. The same holds for status lines
//! alone. A histogram without its line of maxima, or with samples above its maximum, is refused. A thread without
//! samples, a table of rows without header and footer, and samples with missing numbers (which may be the largest) are
//! not a complete run. Several runs of cyclictest in one text are merged; other results
//! are refused where there is more than one. Values are the lower edges of the printed ones; [`Series::rounded_down_ns`] has the
//! width.

use std::borrow::Cow;
use std::fmt;

use crate::conditions::Conditions;
use crate::histogram::{Exact, Histogram, Layout};
use crate::run::Run;
use crate::series::{Quantity, Series, Thread};
use crate::time::{Cpu, Ns, Prio, Tid};
use crate::trace::ftrace_text::line::{self, Line};
use crate::trace::ftrace_text::tidy::characters;

mod hist_trigger;
mod hwlatdetect;
mod jitterdebugger;
mod latmus;
mod limits;
pub mod lines;
mod log;
mod oslat;
mod pairs;
mod rt_json;
mod rt_text;
mod rteval;
mod rtla;
mod several;
mod status;
mod xenomai;

/// Threads of one file: cyclictest has one per CPU, and Linux at most 8192 CPUs.
const MOST_THREADS: usize = 8192;

/// Maximum bins of all threads, 128 MiB: a file of a few kilobytes can request them.
const MOST_BINS: usize = 1 << 24;

/// Why a file cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotImportable {
    /// Line, counted from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for NotImportable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for NotImportable {}

fn at(line: usize, what: impl Into<String>) -> NotImportable {
    NotImportable { line: Some(line), what: what.into() }
}

/// Unit of the latencies in a text; a histogram alone does not contain it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// As the text suggests; µs where it does not.
    #[default]
    Guess,
    /// µs.
    Us,
    /// ns (`-N`).
    Ns,
}

/// Number of lines searched for events of the kernel.
const LINES_OF_EVENTS: usize = 200;

/// `None` if the text is from another tool.
type Reader = fn(&str) -> Option<Result<File, NotImportable>>;

/// The text of a file: UTF-8, or UTF-16 as consoles of other systems save it.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    characters::decoded(bytes)
}

/// Reads the result of a tool; by default as cyclictest's.
///
/// # Errors
/// Names the tool and why its output cannot be read, or the damage and its line.
pub fn read(text: &str, unit: Unit) -> Result<Run, NotImportable> {
    let tools: [Reader; 8] = [
        oslat::recognised,
        jitterdebugger::recognised,
        hwlatdetect::recognised,
        rtla::recognised,
        xenomai::recognised,
        latmus::recognised,
        rteval::recognised,
        pairs::recognised,
    ];
    let text = &*log::unwrapped(text);
    let json = log::json(text);
    several::refuse(text, json)?;
    let text = json.unwrap_or(text);
    if let Some(run) = lines::recognised(text) {
        return run;
    }
    if text.lines().take(LINES_OF_EVENTS).filter(|line| is_event(line)).count() > 1 {
        let what = "this is a recording of events, which `lathunt explain` reads";
        return Err(NotImportable { line: None, what: what.to_owned() });
    }
    let by_another =
        tools.iter().find_map(|tool| tool(text)).or_else(|| hist_trigger::recognised(text, unit));
    let file = match by_another {
        Some(file) => file?,
        None if text.trim_start().starts_with('{') => rt_json::parse(text)?,
        None => rt_text::parse(text, unit).map_err(|error| match without_samples(text) {
            Some(what) if error.line.is_none() => NotImportable { line: None, what },
            _ => error,
        })?,
    };
    Ok(file.into_run())
}

/// The program that wrote `text`, if its output has no latencies of single samples or classes, and what to do.
fn without_samples(text: &str) -> Option<String> {
    let has = |what: &str| text.contains(what);
    let measure = "measure with `lathunt cyclic` or `cyclictest -h`";
    let (program, step) = match () {
        () if has("stress-ng: ") && has(" cyclic: ") => {
            ("stress-ng's cyclic stressor, which prints percentiles only", measure)
        }
        () if has("Latencies percentiles (usec)") => ("schbench, which prints percentiles only", measure),
        () if has("sockperf: ") => {
            ("sockperf, which prints percentiles only", "measure round trips with `lathunt box`")
        }
        () if has("Running in process mode with") || has("Running in threaded mode with") => {
            ("hackbench, which is a load and measures no latency", measure)
        }
        () if has("Runtime ms") && has("delay ms") => (
            "perf sched latency, which has the mean and the largest delay of each thread only",
            "`lathunt explain` reads the perf.data itself",
        ),
        () if has("distribution") && has("secs ") || has("@usecs:") || has("@usecs[") || has("@nsecs") => (
            "bpftrace or bcc, whose classes double in width and which have no largest sample",
            "measure with `lathunt cyclic`, or record events with `lathunt record`",
        ),
        () => return None,
    };
    Some(format!("this is the output of {program}: {step}"))
}

/// Whether a line is an event of the kernel.
fn is_event(line: &str) -> bool {
    matches!(line::parse(line), Some(Line::Event(event)) if event.name.starts_with("sched_"))
}

/// Data of one thread, in the unit of the file.
#[derive(Clone, Debug, Default, PartialEq)]
struct FromFile {
    tid: Option<i32>,
    priority: Option<i32>,
    interval_us: Option<u64>,
    cpu: Option<u32>,
    cycles: Option<u64>,
    min: Option<u64>,
    avg: Option<f64>,
    max: Option<u64>,
    rows: Vec<(u64, u64)>,
    overflows: Option<u64>,
    missed: Option<u64>,
    /// Single samples (`-v`).
    samples: Vec<u64>,
    /// Number of the next single sample.
    next_cycle: u64,
    /// Missing single samples, whose values are unknown.
    absent: u64,
    /// Other runs of this thread in the same text.
    more_runs: u32,
    /// The rows are upper ends of classes wider than the unit: the average of the file is closer.
    are_rows_rounded: bool,
    /// Quantity of the thread; `None`: that of the file.
    quantity: Option<Quantity>,
}

impl FromFile {
    /// Adds the status lines of the thread. Single samples before them are from another run of cyclictest.
    fn take_status(&mut self, status: FromFile) {
        let others = self.samples.len() as u64;
        self.more_runs += status.more_runs + u32::from(others > 0);
        self.cycles = status.cycles.map(|cycles| cycles.saturating_add(others));
        (self.tid, self.priority, self.interval_us) = (status.tid, status.priority, status.interval_us);
        self.cpu = status.cpu;
        (self.min, self.avg, self.max) = (status.min, status.avg, status.max);
        self.quantity = status.quantity;
    }

    /// Samples in the rows; `None` on overflow.
    fn inside(&self) -> Option<u64> {
        self.rows.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(*count))
    }

    /// A contradiction between a histogram of `end` rows and the maximum: either may be wrong.
    fn contradiction(&self, end: u64) -> Option<String> {
        let max = self.max?;
        let highest = self.rows.iter().map(|(row, _)| *row).max();
        if let Some(highest) = highest.filter(|highest| *highest > max) {
            return Some(format!("the maximum is {max}, but the histogram has a sample at {highest}"));
        }
        let overflows = self.overflows.filter(|overflows| *overflows > 0 && max < end)?;
        Some(format!("the maximum is {max}, but {overflows} samples are beyond the rows, which end above it"))
    }

    /// Whether no sample without a value can exceed the stated maximum.
    fn is_bounded(&self) -> bool {
        self.absent == 0 && self.max.is_some()
    }
}

/// A whole file.
#[derive(Clone, Debug, PartialEq)]
struct File {
    /// The program that wrote it.
    tool: &'static str,
    /// Its quantity.
    quantity: Quantity,
    threads: Vec<FromFile>,
    /// Nanoseconds per unit.
    unit: u64,
    /// The file does not state the unit.
    unit_assumed: bool,
    /// Rows of the histogram; 0 without one.
    rows: u64,
    /// Only rows: neither the number of samples beyond them nor the maximum.
    rows_alone: bool,
    /// The latency that ended the run (`-b`), if its thread is unknown; 0 if the latency is unknown.
    break_of_nobody: Option<u64>,
    dma_latency_us: Option<i32>,
    conditions: Conditions,
}

impl Default for File {
    /// For cyclictest.
    fn default() -> File {
        File {
            tool: "rt-tests",
            quantity: Quantity::Cyclic,
            threads: Vec::new(),
            unit: 0,
            unit_assumed: false,
            rows: 0,
            rows_alone: false,
            break_of_nobody: None,
            dma_latency_us: None,
            conditions: Conditions::default(),
        }
    }
}

impl File {
    /// For another program that measures `quantity` in units of `unit` ns.
    fn of(tool: &'static str, quantity: Quantity, unit: u64) -> File {
        File { tool, quantity, unit, ..File::default() }
    }

    fn into_run(self) -> Run {
        let mut conditions = self.conditions.clone();
        conditions.knobs.cpu_dma_latency_held_us = self.dma_latency_us;
        conditions
            .notes
            .push(format!("imported from the output of {}: other conditions are not known", self.tool));
        if self.rows_alone {
            conditions.notes.push(
                "the imported file has the rows of a histogram alone: what was beyond the last row, and the largest \
                 latency, is not known"
                    .to_owned(),
            );
        }
        if let Some(latency) = self.break_of_nobody {
            conditions.notes.push(format!(
                "the latency that ended the measurement, {}, is of no thread of the imported file",
                if latency > 0 {
                    Ns(latency.saturating_mul(self.unit)).to_string()
                } else {
                    "not told".to_owned()
                },
            ));
        }
        if self.unit_assumed {
            conditions.notes.push("nothing in the imported file says its unit: µs are assumed".to_owned());
        }
        let mut run = Run::new(conditions);
        run.complete = !self.rows_alone && self.break_of_nobody.is_none();
        for (index, thread) in self.threads.iter().enumerate() {
            let series = self.series(index, thread);
            // hwlatdetect without samples is a valid result; a latency measurement without samples is not.
            let is_measured = series.histogram.count() > 0 || self.quantity == Quantity::Hardware;
            run.complete &= is_measured && (series.lost == 0 || thread.is_bounded());
            run.conditions.notes.extend(limits::notes(&series, thread));
            run.series.push(series);
        }
        run
    }

    fn layout(&self) -> Layout {
        // Higher rows have a resolution of 1/32 of their value.
        let most = (MOST_BINS / self.threads.len().max(1)).clamp(1 << 10, 1 << 20) as u32;
        let rows = u32::try_from(self.rows.max(1_024)).unwrap_or(most).min(most);
        Layout::new(self.unit as u32, rows).unwrap_or(Layout::LATENCY)
    }

    fn series(&self, index: usize, thread: &FromFile) -> Series {
        let (histogram, lost) = self.histogram(thread);
        let mut series =
            Series::new(thread.quantity.unwrap_or(self.quantity), thread.cpu.map(Cpu), histogram);
        series.lost = lost;
        series.lost_below_max = lost > 0 && thread.is_bounded();
        series.rounded_down_ns = (self.unit > 1 && series.histogram.count() > 0).then_some(Ns(self.unit));
        series.missed = thread.missed.or_else(|| self.none_missed(thread).then_some(0));
        series.interval_ns = thread.interval_us.map(Ns::from_us);
        // Other quantities are per CPU.
        series.thread = (self.quantity == Quantity::Cyclic || thread.cpu.is_none()).then(|| Thread {
            tid: Tid(thread.tid.unwrap_or(0)),
            comm: format!("thread {index}"),
            prio: thread
                .priority
                .map(|priority| if priority > 0 { Prio::from_rt(priority) } else { Prio(120) }),
        });
        series
    }

    /// Whether each release gave a sample: cyclictest skips them after a latency above the interval; it rounds down.
    fn none_missed(&self, thread: &FromFile) -> bool {
        let is_cyclictest = self.tool == "rt-tests" && thread.quantity.is_none() && thread.priority.is_some();
        let us = thread.interval_us.filter(|_| is_cyclictest && thread.is_bounded()).unwrap_or(0);
        thread.max.is_some_and(|max| max.saturating_mul(self.unit) < us.saturating_mul(1_000))
    }

    /// The samples with known values, and the number of the others.
    fn histogram(&self, thread: &FromFile) -> (Histogram, u64) {
        let mut histogram = Histogram::of_few(self.layout());
        let ns = |value: u64| Ns(value.saturating_mul(self.unit));
        let by_rows = !thread.rows.is_empty() || thread.overflows.is_some();
        let mut values = if by_rows {
            thread.rows.clone()
        } else {
            thread.samples.iter().map(|&value| (value, 1)).collect()
        };
        let mut known: u64 = values.iter().map(|(_, count)| count).sum();
        let counted = thread.cycles.unwrap_or(0).max(known.saturating_add(thread.overflows.unwrap_or(0)));
        let highest = values.iter().map(|(value, _)| *value).max();
        let beyond = thread.max.filter(|max| highest.is_none_or(|highest| *max > highest));
        // A stated maximum was measured, even if the counts of the file have no sample for it.
        let told = known.saturating_add(u64::from(beyond.is_some() && counted > 0));
        let cycles = counted.saturating_add(thread.absent).max(told);
        let missing = usize::try_from(cycles - known).unwrap_or(usize::MAX);
        let extremes = [beyond, thread.min.filter(|_| known == 0 && thread.min != thread.max)];
        for value in extremes.into_iter().flatten().take(missing) {
            values.push((value, 1));
            known += 1;
        }
        let lost = cycles - known;
        let (Some(min), Some(max)) = (values.iter().map(|v| v.0).min(), values.iter().map(|v| v.0).max())
        else {
            return (histogram, lost);
        };
        let entered = values.iter().fold(0u64, |sum, (v, n)| sum.saturating_add(ns(*v).0.saturating_mul(*n)));
        // The average in the file covers all samples, so it is better if some values are missing or rounded.
        let sum_ns = match thread.avg.filter(|avg| (lost > 0 || thread.are_rows_rounded) && avg.is_finite()) {
            Some(avg) => (avg * self.unit as f64 * known as f64) as u64,
            None => entered,
        };
        let layout = histogram.layout();
        let counts: Vec<(usize, u64)> = values.iter().map(|(v, n)| (layout.index(ns(*v)), *n)).collect();
        let added = histogram.add_counts(&counts, Exact { sum_ns, min: ns(min), max: ns(max) });
        debug_assert!(added.is_ok(), "{added:?}");
        (histogram, lost)
    }
}

#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod tests;
