//! The text that cyclictest prints, byte for byte: scripts depend on widths, separators and blank lines.
//!
//! Numbers are in the unit of the output (µs, or ns with `-N`), already truncated. All functions return complete lines.

use std::fmt::Write;

/// Figures of one thread in the unit of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Thread id.
    pub tid: i32,
    /// Priority.
    pub priority: i32,
    /// Interval, always µs.
    pub interval_us: u64,
    /// Samples.
    pub cycles: u64,
    /// Smallest, latest, average and largest latency; `None` without a sample.
    pub latencies: Option<Latencies>,
    /// System management interrupts, if counted.
    pub smis: Option<u64>,
}

/// Latencies of one thread in the unit of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Latencies {
    pub min: u64,
    pub act: u64,
    pub avg: u64,
    pub max: u64,
}

/// Placeholder for "no sample yet", as in the original.
const NO_SAMPLE: Latencies = Latencies { min: 1_000_000, act: 0, avg: 0, max: 0 };

impl Figures {
    fn shown(&self) -> Latencies {
        self.latencies.unwrap_or(NO_SAMPLE)
    }
}

/// `# /dev/cpu_dma_latency set to 0us`.
#[must_use]
pub fn latency_target(us: i32) -> String {
    format!("# /dev/cpu_dma_latency set to {us}us\n")
}

/// `T: 0 ( 8439) P:80 I:1000 C:   1996 Min:      4 Act:    6 Avg:   18 Max:    2925`.
#[must_use]
pub fn status_line(index: usize, figures: &Figures, nsecs: bool) -> String {
    let Latencies { min, act, avg, max } = figures.shown();
    let Figures { tid, priority, interval_us, cycles, .. } = figures;
    let width = if nsecs { 8 } else { 5 };
    let mut line = format!(
        "T:{index:2} ({tid:5}) P:{priority:2} I:{interval_us} C:{cycles:7} Min:{min:7} Act:{act:width$} \
         Avg:{avg:width$} Max:{max:8}"
    );
    if let Some(smis) = figures.smis {
        let _ = write!(line, " SMI:{smis:8}");
    }
    line.push('\n');
    line
}

/// All status lines.
#[must_use]
pub fn status_lines(threads: &[Figures], nsecs: bool) -> String {
    threads.iter().enumerate().map(|(index, figures)| status_line(index, figures, nsecs)).collect()
}

/// One refresh of the screen. `load` is `/proc/loadavg` without newline; `again` moves the cursor up first.
#[must_use]
pub fn screen(again: bool, policy: &str, load: &str, threads: &[Figures], nsecs: bool) -> String {
    let up = if again { format!("\x1b[{}A", threads.len() + 2) } else { String::new() };
    format!("{up}policy: {policy}: loadavg: {load}          \n\n{}", status_lines(threads, nsecs))
}

/// Output of SIGUSR1 (stderr) and SIGUSR2 (shared memory).
#[must_use]
pub fn status_report(threads: &[Figures], nsecs: bool) -> String {
    let rule = "#---------------------------\n";
    format!("{rule}# cyclictest current status:\n{}{rule}", status_lines(threads, nsecs))
}

/// One line of `-v`: thread, cycle, latency.
#[must_use]
pub fn sample_line(thread: usize, cycle: u64, latency: u64) -> String {
    format!("{thread:8}:{cycle:8}:{latency:8}\n")
}

/// One thread of a histogram block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Samples of each row, from 0; all columns have equal length.
    pub rows: Vec<u64>,
    /// Samples at or above the last row.
    pub overflows: u64,
    /// Cycle numbers of the first of them.
    pub overflow_cycles: Vec<u64>,
    /// `None` without a sample.
    pub latencies: Option<Latencies>,
    /// System management interrupts, if counted.
    pub smis: Option<u64>,
}

/// The histogram block of `-h`, or with a column for all threads (`-H`).
#[must_use]
pub fn histogram(columns: &[Column], with_sum: bool) -> String {
    let with_sum = with_sum && columns.len() > 1;
    let rows = columns.first().map_or(0, |column| column.rows.len());
    let mut text = String::with_capacity(64 + rows * 8 * (columns.len() + 2));
    text.push_str("# Histogram\n");
    for row in 0..rows {
        let counts: Vec<u64> = columns.iter().map(|column| column.rows[row]).collect();
        let sum = with_sum.then(|| counts.iter().sum::<u64>());
        let _ = write!(text, "{row:06} ");
        for (at, count) in counts.into_iter().chain(sum).enumerate() {
            let separator = if at == 0 { "" } else { "\t" };
            let _ = write!(text, "{separator}{count:06}");
        }
        text.push('\n');
    }
    summary(&mut text, columns, with_sum);
    overflow_cycles(&mut text, columns);
    text.push('\n');
    text
}

fn summary(text: &mut String, columns: &[Column], with_sum: bool) {
    let all = |of: fn(&Column) -> u64| -> Vec<u64> { columns.iter().map(of).collect() };
    let shown = |column: &Column| column.latencies.unwrap_or(NO_SAMPLE);
    let mut line = |name: &str, width: usize, values: &[u64], last: Option<u64>| {
        let _ = write!(text, "# {name}:");
        for value in values.iter().copied().chain(last.filter(|_| with_sum)) {
            let _ = write!(text, " {value:0width$}");
        }
        text.push('\n');
    };
    let totals = all(|column| column.rows.iter().sum());
    line("Total", 9, &totals, Some(totals.iter().sum()));
    let latencies: Vec<Latencies> = columns.iter().map(shown).collect();
    let each = |of: fn(&Latencies) -> u64| -> Vec<u64> { latencies.iter().map(of).collect() };
    line("Min Latencies", 5, &each(|l| l.min), None);
    line("Avg Latencies", 5, &each(|l| l.avg), None);
    let maxima = each(|l| l.max);
    line("Max Latencies", 5, &maxima, maxima.iter().max().copied());
    let overflows = all(|column| column.overflows);
    line("Histogram Overflows", 5, &overflows, Some(overflows.iter().sum()));
}

fn overflow_cycles(text: &mut String, columns: &[Column]) {
    text.push_str("# Histogram Overflow at cycle number:\n");
    for (index, column) in columns.iter().enumerate() {
        let _ = write!(text, "# Thread {index}:");
        for cycle in &column.overflow_cycles {
            let _ = write!(text, " {cycle:05}");
        }
        let others = column.overflows.saturating_sub(column.overflow_cycles.len() as u64);
        if others > 0 {
            let _ = write!(text, " # {others:05} others");
        }
        text.push('\n');
    }
    if columns.iter().any(|column| column.smis.is_some()) {
        text.push_str("# SMIs:");
        for column in columns {
            let _ = write!(text, " {:05}", column.smis.unwrap_or(0));
        }
        text.push('\n');
    }
}

/// Output of `-b` at the end; `hit`: the thread id and latency above the limit.
#[must_use]
pub fn breaktrace(tids: &[i32], hit: Option<(i32, u64)>) -> String {
    let mut text = "# Thread Ids:".to_owned();
    for tid in tids {
        let _ = write!(text, " {tid:05}");
    }
    text.push('\n');
    if let Some((tid, value)) = hit {
        let _ = write!(text, "# Break thread: {tid}\n# Break value: {value}\n");
    }
    text
}

/// A sample above the limit of `--spike`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spike {
    /// Number of the thread.
    pub thread: usize,
    /// Latency in the unit of the output.
    pub latency: u64,
    /// When, in µs of the clock of the activations.
    pub at_us: u64,
}

/// The list of `--spike`; empty if there was none. `count` includes those not kept.
#[must_use]
pub fn spikes(kept: &[Spike], count: u64) -> String {
    if kept.is_empty() {
        return String::new();
    }
    let mut text = "\n".to_owned();
    for Spike { thread, latency, at_us } in kept {
        let _ = writeln!(text, "T:{thread:2} Spike:{latency:8}: TS: {at_us:12}");
    }
    let _ = write!(text, "spikes = {count}\n\n");
    text
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
