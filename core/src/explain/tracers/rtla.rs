//! Output of `rtla timerlat` when it stops: its automatic analysis; and its tables, which have no causes.

use super::critical::percent;
use super::{explanation, timerlat, Finding, Report};
use crate::explain::segment::{Kind, Segment};
use crate::printable;
use crate::series::Thread;
use crate::time::{Mono, Ns};

/// Maximum size of a text of rtla.
const LONGEST: usize = 32 << 20;

/// The analysis, or a table, in `text`.
pub(super) fn read(text: &str) -> Option<Report> {
    if text.len() > LONGEST {
        return None;
    }
    if let Some(report) = analyses(text) {
        return Some(report);
    }
    let is_top = text.contains("IRQ Timer Latency") && text.contains("Thread Timer Latency");
    let is_hist = text.contains("# RTLA timerlat histogram") || text.contains("# RTLA osnoise histogram");
    let is_noise = text.contains("Operating System Noise") && text.contains("Max Single");
    (is_top || is_hist || is_noise).then(|| table(text, is_hist))
}

/// The analysis of the CPU with the largest latency: each CPU above the limit has one.
fn analyses(text: &str) -> Option<Report> {
    const EACH: &str = "hit stop tracing, analyzing it";
    // If only one CPU is above it, some versions print the analysis without that line.
    let alone =
        || text.find("rtla timerlat hit stop tracing").filter(|at| text[*at..].contains("IRQ latency:"));
    let line_of = |at: usize| text[..at].rfind('\n').map_or(0, |at| at + 1);
    let mut starts: Vec<usize> = text.match_indices(EACH).map(|(at, _)| line_of(at)).collect();
    if starts.is_empty() {
        starts.push(line_of(alone()?));
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let mut reports: Vec<Report> =
        starts.iter().zip(ends).map(|(start, end)| analysis(&text[*start..end])).collect();
    let total = |report: &Report| report.worst.as_ref().map(|worst| worst.explanation.total_ns);
    let (largest, count) = ((0..reports.len()).max_by_key(|at| total(&reports[*at]))?, reports.len());
    let mut report = reports.swap_remove(largest);
    if count > 1 {
        report
            .limits
            .push(format!("the text has {count} analyses: that of the largest latency is explained"));
    }
    Some(report)
}

/// `IRQ handler delay:  (exit from idle)   27.49 us (65.52 %)`: name, time.
fn item(line: &str) -> Option<(&str, Ns)> {
    let (before, _) = line.rsplit_once(" us")?;
    let (name, number) = before.trim_end().rsplit_once(char::is_whitespace)?;
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && (0.0..1e12).contains(&number))
        .then(|| (name.trim(), Ns((number * 1000.0).round() as u64)))
}

fn analysis(text: &str) -> Report {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let cpu = first.split_whitespace().find_map(|word| word.parse::<u32>().ok());
    let mut parts: Vec<(Kind, String, Ns)> = Vec::new();
    let mut under: Option<Kind> = None;
    let (mut total, mut irq_latency, mut stack) = (None, None, Vec::new());
    // The thread that a late interrupt found on the CPU has no time.
    let (mut names_thread, mut found) = (false, None);
    let mut blocked = None;
    let mut count = 0;
    for line in lines {
        count += 1;
        let trimmed = line.trim();
        if let Some(frame) = trimmed.strip_prefix("->") {
            stack.push(printable::line(frame.trim()).into_owned());
            continue;
        }
        if trimmed.starts_with("Max timerlat") || trimmed.starts_with("Printing CPU tasks") {
            break;
        }
        let Some((name, net)) = item(trimmed) else {
            if names_thread {
                found = thread(trimmed);
            }
            names_thread = trimmed.starts_with("Blocking thread:");
            continue;
        };
        // Versions before 6.4 print no newline between these two.
        let name = name.find("IRQ handler delay").map_or(name, |at| &name[at..]);
        let label = printable::line(name.trim_end_matches(':').trim()).into_owned();
        let mut take = |kind: Kind, label: String| parts.push((kind, label, net));
        match name {
            name if name.starts_with("Thread latency") => {
                total = Some(net);
                break;
            }
            name if name.starts_with("IRQ latency") => {
                irq_latency = Some(net);
                under = None;
            }
            name if name.starts_with("Previous IRQ interference") => under = None,
            name if name.starts_with("IRQ handler delay") => {
                let idle = trimmed.contains("exit from idle");
                take(if idle { Kind::Idle } else { Kind::TimerLate }, label);
                under = None;
            }
            name if name.starts_with("Timerlat IRQ duration") => {
                take(Kind::TimerInterrupt, label);
                under = None;
            }
            name if name.starts_with("Blocking thread") => {
                // Its name is in the next line, unless the text was cut.
                (under, blocked) = (Some(Kind::Thread), Some((Kind::Thread, "(name cut)".to_owned(), net)));
            }
            name if name.starts_with("IRQ interference") => under = Some(Kind::HardIrq),
            name if name.starts_with("Softirq interference") => under = Some(Kind::Softirq),
            name if name.starts_with("NMI interference") => {
                take(Kind::Nmi, label);
                under = None;
            }
            name if name.starts_with("Thread interference") => under = Some(Kind::Thread),
            _ => {
                if let Some(kind) = under {
                    take(kind, label);
                }
            }
        }
    }
    // Without the line that names the CPU, its idle task does.
    let cpu = cpu.or_else(|| {
        let idle = parts.iter().find_map(|(_, name, _)| name.strip_prefix("swapper/"))?;
        idle.split(':').next()?.parse().ok()
    });
    // Only the analysis of a late thread has items after the latency of the interrupt; its last line is the total.
    let is_cut = total.is_none()
        && (blocked.is_some()
            || parts.iter().any(|(kind, ..)| !matches!(kind, Kind::Idle | Kind::TimerLate | Kind::Nmi)));
    if is_cut && !parts.iter().any(|(kind, ..)| *kind == Kind::Thread) {
        parts.extend(blocked);
    }
    let in_thread = total.is_some() || is_cut;
    let sum = parts.iter().map(|(_, _, net)| *net).sum();
    let total = match is_cut {
        true => irq_latency.unwrap_or_default().max(sum),
        false => total.or(irq_latency).unwrap_or(sum),
    };
    let mut left = total;
    let mut leaves = Vec::new();
    for (kind, label, net) in &parts {
        let net = (*net).min(left);
        left = left.saturating_sub(net);
        if net > Ns::ZERO {
            leaves.push(Segment::leaf(*kind, label.clone(), Mono(0), net));
        }
    }
    let label = if in_thread {
        "expiry of the timer → its thread"
    } else {
        "expiry of the timer → its interrupt"
    };
    let mut tree = Segment::group(Kind::Passage, label, Mono(0), total, leaves);
    let code: Vec<String> = super::stack::interrupted(&stack).to_vec();
    let main = parts.iter().filter(|(_, _, net)| *net > Ns::ZERO).max_by_key(|(_, _, net)| *net);
    let on = cpu.map_or("?".to_owned(), |cpu| cpu.to_string());
    let at = if is_cut { "at least " } else { "" };
    let mut sentence = format!("rtla timerlat stopped on CPU {on} at {at}{total}");
    let mut sorted: Vec<_> = parts.iter().collect();
    sorted.sort_by_key(|(_, _, net)| std::cmp::Reverse(*net));
    for (kind, name, net) in sorted.into_iter().take(4).filter(|(_, _, net)| net.0 * 20 >= total.0) {
        let what = if *kind == Kind::Thread { "thread " } else { "" };
        sentence.push_str(&format!("; {what}{name} took {net} ({})", percent(*net, total)));
    }
    if let Some(found) = &found {
        sentence.push_str(&format!("; the late interrupt found {found} on the CPU"));
    }
    if let Some(call) = super::stack::call(&code) {
        sentence.push_str(&format!("; the timer interrupted it in system call {call}"));
    } else if let Some(frame) = code.first() {
        sentence.push_str(&format!("; the timer interrupted it in {frame}"));
    }
    tree.stack = code;
    let (cause, advice) = match main {
        Some((Kind::Thread, name, _)) => (format!("thread: {name}"), format!("{name} was not preempted: find where it keeps preemption off (the stack shows it), or keep it off this CPU")),
        Some((Kind::Idle, ..)) => ("idle exit".to_owned(), "forbid deep idle states (0 in /dev/cpu_dma_latency)".to_owned()),
        Some((_, name, _)) => (name.clone(), OFF.to_owned()),
        None => ("unexplained".to_owned(), found.map_or(String::new(), |_| OFF.to_owned())),
    };
    let told = (sentence, cause, advice);
    let mut limits = Vec::new();
    if total == Ns::ZERO {
        limits.push("no time is in the analysis: it was cut".to_owned());
    } else if is_cut {
        limits.push(
            "the analysis has no line 'Thread latency': it was cut, and the rest is not known".to_owned(),
        );
    }
    let worst = (total > Ns::ZERO).then(|| Finding {
        thread: Thread { comm: "timerlat".to_owned(), ..Thread::default() },
        cpu: timerlat::on(cpu),
        begin: Mono(0),
        explanation: explanation(tree, told, limits.clone()),
    });
    Report {
        format: "automatic analysis of rtla timerlat".to_owned(),
        question: "latency at which rtla stopped".to_owned(),
        lines: count,
        count: u64::from(worst.is_some()),
        worst,
        limits,
        is_doubtful: is_cut,
    }
}

/// Advice for a late interrupt.
const OFF: &str = "find what kept interrupts off on that CPU, or which interrupt came first";

/// `ip:3567`
fn thread(text: &str) -> Option<String> {
    let (_, tid) = text.rsplit_once(':')?;
    tid.trim().parse::<u32>().ok().map(|_| printable::line(text).into_owned())
}

/// A table of rtla: the largest of its figures, without a cause.
fn table(text: &str, is_hist: bool) -> Report {
    let limit = "a table of rtla has no causes: `rtla timerlat top -a 100` stops at 100 µs and analyses that, and explain reads the analysis and its timerlat_trace.txt";
    let mut worst: Option<(u64, String)> = None;
    let mut keep = |value: u64, name: String| {
        if worst.as_ref().is_none_or(|(known, _)| value > *known) {
            worst = Some((value, name));
        }
    };
    let mut rows = 0;
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if is_hist && line.starts_with("Index") {
            names = line.split_whitespace().skip(1).collect();
        } else if let Some(rest) = line.strip_prefix("max:").filter(|_| is_hist) {
            rows += 1;
            for (column, value) in rest.split_whitespace().enumerate() {
                let name = names.get(column).map_or("?", |name| *name);
                value.parse().into_iter().for_each(|value| keep(value, name.to_owned()));
            }
        } else if let Some((cpu, rest)) = line.split_once('#').filter(|_| !is_hist) {
            let Ok(cpu) = cpu.trim().parse::<u32>() else { continue };
            rows += 1;
            let columns: Vec<&str> = rest.split('|').collect();
            for (column, name) in [(1, "interrupt"), (2, "thread"), (3, "return to user space")] {
                let max = columns
                    .get(column)
                    .and_then(|column| column.split_whitespace().next_back()?.parse().ok());
                max.into_iter().for_each(|max| keep(max, format!("{name} on CPU {cpu}")));
            }
            if columns.len() == 1 {
                let max = rest.split_whitespace().nth(5).and_then(|word| word.parse().ok());
                max.into_iter().for_each(|max| keep(max, format!("single noise on CPU {cpu}")));
            }
        }
    }
    let mut limits = vec![limit.to_owned()];
    if let Some((max, name)) = &worst {
        let is_ns = text.contains("Time unit is nanoseconds") || text.contains("Timer Latency (ns)");
        let max = if is_ns { Ns(*max) } else { Ns::from_us(*max) };
        limits.insert(0, format!("largest figure: {name}, {max}"));
    }
    Report {
        format: "table of rtla".to_owned(),
        question: "a latency with its cause".to_owned(),
        lines: rows,
        count: 0,
        worst: None,
        limits,
        is_doubtful: false,
    }
}
