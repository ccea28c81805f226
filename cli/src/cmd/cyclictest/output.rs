//! From what the instrument measured to the figures that cyclictest prints.

use lathunt_core::cyclictest::json;
use lathunt_core::cyclictest::options::Options;
use lathunt_core::cyclictest::plan::Plan;
use lathunt_core::cyclictest::text::{Column, Figures, Latencies};
use lathunt_core::histogram::Layout;
use lathunt_core::time::Ns;
use lathunt_host::instrument::cyclic::{Live, ThreadResult};

use super::machine;
use super::tap::Overflows;

/// Nanoseconds per unit of the output.
pub fn unit(options: &Options) -> u64 {
    if options.nsecs {
        1
    } else {
        1_000
    }
}

/// Rows as asked for; without a histogram the usual ones, so that nothing measured is lost.
pub fn layout(options: &Options) -> Layout {
    let rows = options.histogram.unwrap_or(0);
    let width = unit(options) as u32;
    // at least 32: the layout's own minimum; rows beyond those asked for are overflows of the output
    let rows = if rows == 0 { 10_240 } else { rows.max(32) };
    Layout::new(width, rows).unwrap_or(Layout::LATENCY)
}

/// Figures of a thread from its live state.
pub fn figures(options: &Options, plan: &Plan, index: usize, live: &Live, smis: Option<u64>) -> Figures {
    let unit = unit(options);
    let latencies = live.min.zip(live.max).zip(live.now).zip(live.avg_ns).map(|(((min, max), act), avg)| {
        Latencies { min: min.0 / unit, act: act.0 / unit, avg: avg as u64 / unit, max: max.0 / unit }
    });
    let thread = plan.threads[index];
    Figures {
        tid: live.tid.0,
        priority: thread.priority,
        interval_us: thread.interval_us,
        cycles: live.count,
        latencies,
        smis,
    }
}

/// The live state that a finished thread ends with.
pub fn last_state(result: &ThreadResult) -> Live {
    let histogram = &result.series.histogram;
    Live {
        tid: result.series.thread.as_ref().map(|thread| thread.tid).unwrap_or_default(),
        count: histogram.count(),
        min: histogram.min(),
        now: result.last,
        avg_ns: histogram.mean_ns(),
        max: histogram.max(),
        missed: result.series.missed.unwrap_or(0), // the instrument counts them
        done: true,
    }
}

fn rows(options: &Options, result: &ThreadResult) -> Vec<u64> {
    let rows = result.series.histogram.rows();
    rows[..(options.histogram.unwrap_or(0) as usize).min(rows.len())].to_vec()
}

/// A column of the histogram block.
pub fn column(
    options: &Options,
    result: &ThreadResult,
    figures: &Figures,
    overflows: Option<&Overflows>,
) -> Column {
    let rows = rows(options, result);
    let inside: u64 = rows.iter().sum();
    Column {
        overflows: result.series.histogram.count() - inside,
        rows,
        overflow_cycles: overflows.map(Overflows::cycles).unwrap_or_default(),
        latencies: figures.latencies,
        smis: figures.smis,
    }
}

/// A thread of the JSON file; `sum` is that of its latencies in whole units.
pub fn json_thread(
    options: &Options,
    plan: &Plan,
    index: usize,
    result: &ThreadResult,
    sum: u64,
) -> json::Thread {
    let unit = unit(options);
    let histogram = &result.series.histogram;
    let rows = rows(options, result);
    let inside: u64 = rows.iter().sum();
    let thread = plan.threads[index];
    let in_unit = |ns: Ns| ns.0 / unit;
    let latencies = histogram.min().zip(histogram.max());
    json::Thread {
        rows: (0u64..).zip(rows.iter().copied()).filter(|(_, count)| *count > 0).collect(),
        overflows: options.histogram.map(|_| histogram.count() - inside),
        cycles: histogram.count(),
        latencies: latencies
            .map(|(min, max)| (in_unit(min), in_unit(max), sum as f64 / histogram.count() as f64)),
        cpu: i64::from(thread.cpu.0),
        node: if options.smp { -1 } else { machine::node_of(thread.cpu) },
        missed: result.series.missed.unwrap_or(0), // the instrument counts them
        priority: thread.priority,
        interval_us: thread.interval_us,
    }
}
