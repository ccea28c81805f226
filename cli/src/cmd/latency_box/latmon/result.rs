//! The run of a measurement by latmon: one series, and its caveats.

use lathunt_core::comm::Comm;
use lathunt_core::conditions::Conditions;
use lathunt_core::run::{Loss, Run};
use lathunt_core::series::{Quantity, SecondMax, Series, Thread};
use lathunt_core::time::{Ns, Prio, Tid};

use super::session::{End, Measured};

/// Facts besides the box's figures.
pub(super) struct Answered {
    pub(super) channel: String,
    pub(super) period: Ns,
    pub(super) cpu: Option<lathunt_core::time::Cpu>,
    pub(super) priority: i32,
    pub(super) pulses: u64,
    pub(super) box_name: String,
}

/// Creates the run.
pub(super) fn run(mut conditions: Conditions, measured: &Measured, answered: &Answered) -> Run {
    let totals = &measured.totals;
    let (histogram, _) = totals.histogram(measured.cells.as_deref());
    conditions.notes.push(format!(
        "measured by latmon at {}: {} records with {} latencies and {} overruns; {} pulses were answered on {}",
        answered.box_name, totals.records, totals.samples, totals.overruns, answered.pulses, answered.channel
    ));
    conditions.notes.extend(doubts(measured));
    let mut run = Run::new(conditions);
    run.complete = matches!(measured.end, End::Asked);
    let mut series = Series::new(Quantity::Roundtrip, answered.cpu, histogram);
    let prio = if answered.priority > 0 { Prio::from_rt(answered.priority) } else { Prio(120) };
    series.thread = Some(Thread { tid: Tid(0), comm: Comm::cut("respond").text(), prio: Some(prio) });
    series.interval_ns = Some(answered.period);
    series.channel = Some(answered.channel.clone());
    series.missed = None;
    series.lost = totals.overruns;
    let maxima = totals.seconds().iter().map(|&(second, max_ns)| SecondMax { second, max_ns });
    series.set_seconds(maxima.collect());
    run.series.push(series);
    if measured.damaged_bytes > 0 {
        run.losses.push(Loss {
            counter: "latmon_damaged_bytes".to_owned(),
            count: measured.damaged_bytes,
            meaning: "bytes of the box that are part of no record: latencies in them are lost".to_owned(),
            evidence_only: false,
        });
    }
    run
}

/// Workarounds for the firmware of the box, and contradictions in its figures, one line each.
pub(super) fn doubts(measured: &Measured) -> Vec<String> {
    let mut lines = measured.totals.histogram(measured.cells.as_deref()).1;
    let totals = &measured.totals;
    match &measured.end {
        End::Stalled if totals.overruns > 0 => lines.push(format!(
            "the box stopped after a late reply: no pulse and no record for 2 s, and its results have {} overruns \
             (Zephyr's latmon ends at the first reply later than 1 ms); that latency is not in the figures",
            totals.overruns
        )),
        End::Stalled => lines.push(
            "the box stopped by itself: no pulse and no record for 2 s; its results so far were requested (Zephyr's latmon ends at the \
             first reply later than 1 ms)"
                .to_owned(),
        ),
        End::Box => lines.push(
            "the box ended the measurement by itself, as latmon does with a period or a number of cells that it does not take"
                .to_owned(),
        ),
        End::Closed(why) => lines.push(format!("the box disconnected before it was asked to stop: {why}")),
        End::Unresponsive => lines.push("latmon is unresponsive: no answer to stop within 5 s".to_owned()),
        End::Asked => {}
    }
    if measured.damaged_bytes > 0 {
        lines.push(format!(
            "skipped {} bytes that are part of no record: firmware that is stopped may cut one",
            measured.damaged_bytes
        ));
    }
    if totals.odd > 0 {
        lines.push(format!(
            "{} records do not have {} latencies: the first may be of an earlier measurement; they are included",
            totals.odd,
            totals.bulk()
        ));
    }
    lines
}
