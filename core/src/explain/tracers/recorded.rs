//! The same tracers recorded by trace-cmd: their events are printed as the kernel would, and read like its text.
//!
//! Fields: kernel/trace/trace_entries.h. A recording lacks the heading, with the figure and the victim.

use std::fmt::Write;

use super::{critical, function, graph, noise, timerlat, Heading, Report};
use crate::trace::catalogue::EventClass;
use crate::trace::ftrace_text::line::columns_of;
use crate::trace::item::{Item, Record, Span};
use crate::trace::source::Source;

/// Maximum bytes of text made from a recording.
const LONGEST: usize = 64 << 20;

/// The tracers by their events; the first one present is used.
const TRACERS: [(&str, &str); 5] = [
    ("timerlat", "timerlat"),
    ("osnoise", "osnoise"),
    ("hwlat", "hwlat"),
    ("wakeup", "wakeup"),
    ("function", "function"),
];

/// Report of the tracer whose events `source` has; `None` without such events, or with events of the scheduler, which
/// show more than functions.
#[must_use]
pub fn of_source(source: &dyn Source) -> Option<Report> {
    if let Some(report) = graph::of_source(source) {
        return Some(report);
    }
    let classes = source.catalogue().classes();
    if !classes.iter().any(|class| TRACERS.iter().any(|(event, _)| class.name == *event)) {
        return None;
    }
    let (text, seen, is_lossy, last) = text_of(source);
    let (_, tracer) = TRACERS.into_iter().find(|(event, _)| seen.iter().any(|name| name == event))?;
    let heading = Heading { tracer: tracer.to_owned(), ..Heading::default() };
    let is_scheduled = seen.iter().any(|name| name == "sched_switch");
    let mut report = match tracer {
        "timerlat" => timerlat::read(&text, &heading),
        "osnoise" => noise::osnoise(&text, &heading),
        "hwlat" => noise::hwlat(&text, &heading),
        "wakeup" if !is_scheduled => critical::wakeup(&text, &heading),
        "function" if !is_scheduled => function::read(&text, &heading),
        _ => return None,
    };
    report.format = format!("{}, events of the {tracer} tracer", source.info().format);
    if text.len() >= LONGEST {
        report.limits.push("the recording is long: only its beginning was read".to_owned());
        report.is_doubtful = true;
    }
    // Times of a text may count from its start.
    let total = report.worst.as_ref().map(|worst| worst.explanation.total_ns);
    if total.is_some_and(|total| total.0 > last) && source.info().format != "ftrace text" {
        report.limits.push(
            "the latency is longer than the clock of the trace has run: the file is damaged".to_owned(),
        );
        report.is_doubtful = true;
    }
    report.is_doubtful |= is_lossy;
    if is_lossy {
        report.limits.push(
            "events are missing: lost by the recorder, or in an unreadable part of the file".to_owned(),
        );
    }
    report
        .limits
        .extend(source.info().damage.iter().take(5).map(|damage| format!("the file is damaged at {damage}")));
    Some(report)
}

/// Its lines, the names of their events, whether others are missing, and the time of the last.
fn text_of(source: &dyn Source) -> (String, Vec<String>, bool, u64) {
    let classes = source.catalogue().classes();
    let (mut text, mut seen) = (String::new(), Vec::<String>::new());
    let mut last = 0;
    let mut is_lossy = !source.info().damage.is_empty();
    let mut walk = source.events(Span::ALL);
    while let Some(item) = walk.next() {
        is_lossy |= !matches!(item, Item::Event(_));
        let Item::Event(record) = item else { continue };
        last = record.at.0;
        let Some(class) = classes.get(record.class as usize) else { continue };
        if !seen.contains(&class.name) {
            seen.push(class.name.clone());
        }
        line(&mut text, source, class, &record);
        if text.len() >= LONGEST {
            break;
        }
    }
    (text, seen, is_lossy, last)
}

/// Prints one event like the kernel (kernel/trace/trace_output.c); `None` for events that are not of a tracer.
fn line(text: &mut String, source: &dyn Source, class: &EventClass, record: &Record<'_>) -> Option<()> {
    let number = |names: &[&str]| class.field_of(names).and_then(|field| class.bits(field, record));
    // Far after a symbol there are others, which are not known.
    let symbol = |address: u64| match source.symbols().resolve(address) {
        Some((name, offset)) if offset < 0x4000 => name.to_owned(),
        _ => format!("{address:#x}"),
    };
    let comm_of = |tid: u64| {
        let known = source.info().comms.get(&crate::time::Tid(tid as i32));
        known.map_or("<...>", String::as_str)
    };
    let what = match class.name.as_str() {
        "timerlat" => {
            let context = ["irq", "thread", "user-ret"].get(number(&["context"])? as usize)?;
            let (seq, latency) = (number(&["seqnum", "seq"])?, number(&["timer_latency"])?);
            format!("#{seq} context {context} timer_latency {latency} ns")
        }
        "osnoise" => {
            let (noise, runtime) = (number(&["noise"])?, number(&["runtime"])?);
            let share = 100.0 - 100.0 * noise as f64 / runtime.max(1) as f64;
            let mut what = format!("{runtime} {noise} {share:.5} {}", number(&["max_sample", "max_noise"])?);
            for name in ["hw_count", "nmi_count", "irq_count", "softirq_count", "thread_count"] {
                let _ = write!(what, " {}", number(&[name])?);
            }
            what
        }
        "hwlat" => {
            let (inner, outer) = (number(&["duration"])?, number(&["outer_duration"])?);
            let mut what = format!("#{} inner/outer(us): {inner}/{outer} ts:", number(&["seqnum"])?);
            let _ =
                write!(what, "{}.{:09}", number(&["tv_sec"]).unwrap_or(0), number(&["tv_nsec"]).unwrap_or(0));
            if let Some(count) = number(&["count"]) {
                let _ = write!(what, " count:{count}");
            }
            what
        }
        "wakeup" | "context_switch" => {
            let arrow = if class.name == "wakeup" { "  +" } else { "==>" };
            let (left, right) = (number(&["prev_pid"])?, number(&["next_pid"])?);
            let (of_left, of_right) = (number(&["prev_prio"])?, number(&["next_prio"])?);
            let cpu = number(&["next_cpu"])?;
            format!("{left}:{of_left}:R {arrow} [{cpu:03}] {right}:{of_right}:R {}", comm_of(right))
        }
        "function" => format!("{} <-{}", symbol(number(&["ip"])?), symbol(number(&["parent_ip"])?)),
        "irq_noise" | "softirq_noise" | "thread_noise" | "nmi_noise" => {
            let (start, net) = (number(&["start"])?, number(&["duration"])?);
            let of = match class.name.as_str() {
                "irq_noise" => format!("{}:{}", text_field(class, record, "desc")?, number(&["vector"])?),
                "softirq_noise" => format!("softirq:{}", number(&["vector"])?),
                "thread_noise" => format!("{}:{}", text_field(class, record, "comm")?, number(&["pid"])?),
                _ => String::new(),
            };
            format!(
                "{}: {of} start {}.{:09} duration {net} ns",
                class.name,
                start / 1_000_000_000,
                start % 1_000_000_000
            )
        }
        "sample_threshold" => {
            let (start, net, count) =
                (number(&["start"])?, number(&["duration"])?, number(&["interference"])?);
            format!(
                "sample_threshold: start {}.{:09} duration {net} ns interference {count}",
                start / 1_000_000_000,
                start % 1_000_000_000
            )
        }
        "kernel_stack" => "<stack trace>".to_owned(),
        _ => return None,
    };
    let tid = number(&["common_pid"])?;
    let flags = number(&["common_flags"]).map_or("....", |flags| {
        columns_of(flags, number(&["common_preempt_count"]).is_none_or(|count| count & 0xf == 0))
    });
    let (seconds, nanos) = (record.at.0 / 1_000_000_000, record.at.0 % 1_000_000_000);
    let _ =
        writeln!(text, "{}-{tid} [{:03}] {flags} {seconds}.{nanos:09}: {what}", comm_of(tid), record.cpu.0);
    if class.name == "kernel_stack" {
        let frames = class.field("caller").and_then(|field| class.value(field, record));
        for frame in frames.iter().flat_map(addresses) {
            let _ = writeln!(text, " => {}", symbol(frame));
        }
    }
    Some(())
}

fn addresses(value: &crate::trace::value::Value<'_>) -> Vec<u64> {
    match value {
        crate::trace::value::Value::Array(array) => {
            (0..array.len()).filter_map(|at| array.get(at)?.bits()).collect()
        }
        _ => Vec::new(),
    }
}

fn text_field(class: &EventClass, record: &Record<'_>, name: &str) -> Option<String> {
    let bytes = class.text(class.field(name)?, record)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}
