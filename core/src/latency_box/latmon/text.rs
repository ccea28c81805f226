//! The lines that latmus and Xenomai's latency print (RTT, RTH, RTD, RTS; µs), and latmus's plot file.

use std::fmt::Write as _;

use super::totals::Totals;
use super::wire::Record;
use crate::time::Ns;

/// Header data.
#[derive(Clone, Debug)]
pub struct Head {
    /// What is measured: the channel.
    pub context: String,
    /// Period, µs.
    pub period_us: u32,
    /// Priority of the answering thread.
    pub priority: i32,
    /// Its CPU; `None`: any.
    pub cpu: Option<u32>,
}

/// Data lines after which the header is repeated, as latmus does without -l.
pub const LINES: u64 = 21;

fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

fn cpu(head: &Head) -> String {
    head.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU{cpu}"))
}

/// The header, `seconds` after the start.
#[must_use]
pub fn head(head: &Head, seconds: u64) -> String {
    format!(
        "RTT|  {}  ({}, {} us period, priority {}, {})\n\
         RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst\n",
        clock(seconds),
        head.context,
        head.period_us,
        head.priority,
        cpu(head)
    )
}

/// The line of a record that was added to the totals. Mode switches (`msw`) exist only in EVL: always 0.
#[must_use]
pub fn data(record: &Record, totals: &Totals) -> String {
    let mean = record.sum_ns / i64::from(record.samples.max(1));
    format!(
        "RTD|{:11.3}|{:11.3}|{:11.3}|{:8}|{:6}|{:11.3}|{:11.3}\n",
        f64::from(record.min_ns) / 1_000.0,
        mean as f64 / 1_000.0,
        f64::from(record.max_ns) / 1_000.0,
        totals.overruns,
        0,
        us(totals.min.0),
        us(totals.max.0)
    )
}

/// The summary; empty without a sample, as latmus does.
#[must_use]
pub fn summary(totals: &Totals, seconds: u64, planned: Option<u64>) -> String {
    let Some(mean) = totals.mean_ns() else { return String::new() };
    format!(
        "---|-----------|-----------|-----------|--------|------|-------------------------\n\
         RTS|{:11.3}|{:11.3}|{:11.3}|{:8}|{:6}|    {}/{}\n",
        us(totals.min.0),
        us(mean),
        us(totals.max.0),
        totals.overruns,
        0,
        clock(seconds),
        clock(planned.unwrap_or(seconds))
    )
}

/// Machine data in a plot file, if known.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// When the test started.
    pub started: String,
    /// /proc/version, one line.
    pub version: String,
    /// /proc/cmdline, one line.
    pub command_line: String,
    /// Clock source of the kernel.
    pub clocksource: String,
}

/// The plot file: comments, then `CELL COUNT`; the last cell with `+` when there are latencies above it.
///
/// latmus adds 1 to each count except the last, for a logarithmic axis; here counts are exact, and empty cells are
/// omitted.
#[must_use]
pub fn plot(head: &Head, machine: &Machine, totals: &Totals, cells: &[u32], seconds: u64) -> String {
    let mut text = String::new();
    let mut comment = |line: String| {
        let _ = writeln!(text, "# {}", line.replace(['\n', '\r'], " ")); // to a String
    };
    comment(format!("test started on: {}", machine.started));
    comment(machine.version.clone());
    comment(machine.command_line.clone());
    comment(format!("sampling period: {} microseconds", head.period_us));
    comment(format!("clocksource: {}", machine.clocksource));
    comment(format!("context: {}", head.context));
    comment(format!("thread priority: {}", head.priority));
    comment(format!("thread affinity: {}", cpu(head)));
    comment(format!("duration (hhmmss): {}", clock(seconds)));
    comment(format!("peak (hhmmss): {}", clock(u64::from(totals.peak_second))));
    if totals.overruns > 0 {
        comment(format!("OVERRUNS: {}", totals.overruns));
    }
    if let Some(mean) = totals.mean_ns() {
        comment(format!("min latency: {:.3}", us(totals.min.0)));
        comment(format!("avg latency: {:.3}", us(mean)));
        comment(format!("max latency: {:.3}", us(totals.max.0)));
    }
    comment(format!("sample count: {}", totals.samples));
    let last = cells.iter().rposition(|&count| count > 0);
    for (cell, count) in cells.iter().enumerate().filter(|&(_, &count)| count > 0) {
        let above = Some(cell) == last && totals.max >= Ns::from_us(cells.len() as u64);
        let _ = writeln!(text, "{cell}{} {count}", if above { "+" } else { "" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::wire::Request;
    use super::*;

    #[test]
    fn lines_are_those_of_latmus() {
        let of = Head { context: "gpio".to_owned(), period_us: 1_000, priority: 98, cpu: Some(1) };
        assert_eq!(
            head(&of, 3_661),
            "RTT|  01:01:01  (gpio, 1000 us period, priority 98, CPU1)\n\
             RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst\n"
        );
        let mut totals = Totals::new(Request { period_us: 1_000, cells: 4 });
        let record = Record { sum_ns: 9_000, min_ns: 1_500, max_ns: 5_250, overruns: 1, samples: 3 };
        totals.add(&record, 7);
        assert_eq!(
            data(&record, &totals),
            "RTD|      1.500|      3.000|      5.250|       1|     0|      1.500|      5.250\n"
        );
        assert_eq!(
            summary(&totals, 10, Some(60)).lines().nth(1),
            Some("RTS|      1.500|      3.000|      5.250|       1|     0|    00:00:10/00:01:00")
        );
        let text = plot(&of, &Machine::default(), &totals, &[0, 1, 0, 2], 10);
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(rows, ["1 1", "3+ 2"], "5.25 us are above the last cell");
        for line in
            ["# peak (hhmmss): 00:00:07", "# OVERRUNS: 1", "# max latency: 5.250", "# sample count: 3"]
        {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
