//! `hwlat` and `osnoise`: gaps in a busy loop.

use std::borrow::Cow;

use super::critical::percent;
use super::net_noise::{base, kind_of, start_and_duration, Noise};
use super::steps::{self, Step};
use super::{explanation, Finding, Heading, Report};
use crate::explain::segment::{Kind, Segment};
use crate::hwlat::tracer_line::Sample;
use crate::series::Thread;
use crate::time::{Mono, Ns};

/// The largest gap of the hwlat tracer.
pub(super) fn hwlat(text: &str, heading: &Heading) -> Report {
    // A mail program may have wrapped a line before its figures.
    let lines = || text.lines().map(str::trim);
    let is_rest = |line: &str| {
        let head = line.split_once("inner/outer(us):").map(|(head, _)| head.trim());
        head.is_some_and(|head| head.bytes().all(|byte| byte == b'#' || byte.is_ascii_digit()))
    };
    let whole = lines().zip(std::iter::once("").chain(lines())).map(|(line, before)| match is_rest(line) {
        true => Cow::Owned(format!("{before} {line}")),
        false => Cow::Borrowed(line),
    });
    let samples: Vec<(Cow<'_, str>, Sample)> =
        whole.filter_map(|line| Sample::parse(&line).map(|sample| (line, sample))).collect();
    let worst = samples.iter().max_by_key(|(_, sample)| sample.largest());
    let finding = worst.map(|(line, sample)| {
        let step = steps::read(line).into_iter().next();
        let at = step.as_ref().map_or(Mono(0), |step| step.at);
        let total = sample.largest();
        let (inner, outer) = (Ns::from_us(sample.inner_us), Ns::from_us(sample.outer_us));
        // With the verbose option, the number in brackets is not the CPU.
        let known = step.map(|step| step.cpu).or(sample.cpu);
        let cpu = known.unwrap_or_default();
        let on = known.map_or("a CPU that is not printed".to_owned(), |cpu| format!("CPU {cpu}"));
        let width = sample.count.map_or("the number of its gaps is not printed".to_owned(), |count| format!("{count} gap(s) in that width"));
        let nmi = sample.nmi.map_or(String::new(), |nmi| format!(", {nmi} NMI(s)"));
        let sentence = format!(
            "{on} stalled for {total} although its loop ran with interrupts off (inner {inner}, outer {outer}; {width}{nmi}): firmware (SMI), a hypervisor or the hardware took it; worst of {} samples",
            samples.len()
        );
        let advice = "count SMIs (lathunt hwlat reads the counter), switch off power management and USB legacy support in the firmware; on a virtual machine look at steal time".to_owned();
        let label = "no code of this kernel ran: firmware (SMI), hypervisor or hardware";
        let gap = Segment::stood_still(Kind::Stolen, label, at, total);
        let tree = Segment::group(Kind::Passage, format!("gap of the hwlat loop on {on}"), at, total, vec![gap]);
        let told = (sentence, "hardware, firmware or hypervisor".to_owned(), advice);
        Finding { thread: Thread { comm: "hwlat".to_owned(), ..Thread::default() }, cpu, begin: at, explanation: explanation(tree, told, Vec::new()) }
    });
    let count = samples.len() as u64;
    // With the verbose option, the number in brackets is not the CPU.
    let is_without_cpu =
        worst.is_some_and(|(line, sample)| sample.cpu.is_none() && steps::read(line).is_empty());
    let mut report = report(heading, "largest gap of the hwlat tracer", count, count, finding);
    if is_without_cpu {
        report.limits.push("the CPU of the largest gap is not in the text".to_owned());
        report.is_doubtful = true;
    }
    report
}

/// A period of osnoise: `1000000 185773 81.42270 10081 934 0 283 0 227`.
struct Period {
    runtime: u64,
    noise: u64,
    single: u64,
    counts: [u64; 5],
}

fn period(what: &str) -> Option<Period> {
    let words: Vec<&str> = what.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    words.get(2)?.parse::<f64>().ok()?;
    let mut counts = [0; 5];
    for (at, count) in counts.iter_mut().enumerate() {
        *count = number(4 + at)?;
    }
    Some(Period { runtime: number(0)?, noise: number(1)?, single: number(3)?, counts })
}

/// Whether the line of a period is whole.
pub(super) fn is_period(what: &str) -> bool {
    period(what).is_some()
}

/// The longest single noise: from a `sample_threshold` event, or from the table of a period.
pub(super) fn osnoise(text: &str, heading: &Heading) -> Report {
    let steps = steps::read(text);
    let periods: Vec<(&Step, Period)> =
        steps.iter().filter_map(|step| Some((step, period(&step.what)?))).collect();
    let single = steps.iter().enumerate().filter_map(|(place, step)| Some((place, noise_at(step)?)));
    let singles: Vec<_> = single.collect();
    let single = singles.iter().copied().max_by_key(|(_, (_, length))| *length);
    let worst = periods.iter().max_by_key(|(_, period)| period.single);
    let in_table = worst.map_or(Ns::ZERO, |(_, period)| Ns::from_us(period.single));
    let (count, finding) = match (single, worst) {
        // The table has whole microseconds.
        (Some((place, (start, length))), _) if length + Ns::from_us(1) > in_table => {
            (singles.len(), Some(detailed(&steps, place, start, length)))
        }
        (_, Some((step, period))) => (periods.len(), Some(of_period(step, period, periods.len()))),
        _ => (0, None),
    };
    report(heading, "longest single noise of the osnoise tracer", steps.len() as u64, count as u64, finding)
}

/// `sample_threshold: start 18.402544662 duration 14465989 ns interference 5`
fn noise_at(step: &Step) -> Option<(Mono, Ns)> {
    start_and_duration(step.what.strip_prefix("sample_threshold:")?.trim().strip_prefix("start ")?)
}

/// Number of interruptions counted by the tracer in the same line: `interference 5`.
fn interference(step: &Step) -> Option<u64> {
    step.what.split_once(" interference ")?.1.split_whitespace().next()?.parse().ok()
}

/// One noise, with the events within it.
fn detailed(steps: &[Step], place: usize, start: Mono, total: Ns) -> Finding {
    let step = &steps[place];
    let base = base(steps);
    let start = Mono(start.0.saturating_sub(base.0));
    let cpu = step.cpu;
    let mut left = total;
    let mut found: Vec<(&str, String, Mono, Ns, u32)> = Vec::new();
    let of_cpu = steps.iter().filter(|step| step.cpu == cpu).filter_map(|step| Noise::of(step, base));
    for noise in of_cpu.filter(|noise| noise.start >= start && noise.start < start + total) {
        let net = noise.net.min(left);
        left = left.saturating_sub(net);
        match found.iter_mut().find(|(_, name, ..)| *name == noise.named()) {
            Some((_, _, _, sum, count)) => (*sum, *count) = (*sum + net, *count + 1),
            None => found.push((noise.kind, noise.named(), noise.start, net, 1)),
        }
    }
    let leaf = |(kind, name, at, net, count): &(&str, String, Mono, Ns, u32)| {
        let mut leaf = Segment::leaf(kind_of(kind), name.clone(), *at, *net);
        leaf.count = *count;
        leaf
    };
    let mut parts: Vec<Segment> = found.iter().map(leaf).collect();
    let there: u64 = found.iter().map(|(.., count)| u64::from(*count)).sum();
    // The tracer counts the interruptions of its loop: only if all of them are in the text is the rest outside the
    // kernel.
    let missing = interference(step).map(|all| all.saturating_sub(there));
    let is_whole = missing.map_or(there > 0, |missing| missing == 0);
    if left > Ns::ZERO && is_whole {
        let label = match found.is_empty() {
            true => "no event of the kernel is in it: firmware (SMI), a hypervisor or the hardware",
            false => "no event of the kernel accounts for it: firmware (SMI), a hypervisor or the hardware, or the switches between them",
        };
        parts.push(Segment::stood_still(Kind::Stolen, label, start, left));
    } else if left > Ns::ZERO {
        let label = "what interrupted the loop there is not in the text";
        parts.push(Segment::unexplained(Kind::Passage, label, start, left));
    }
    found.sort_by_key(|(_, _, _, net, _)| std::cmp::Reverse(*net));
    let mut sentence = format!("osnoise on CPU {cpu}: the longest single noise took {total}, from {start}");
    for (_, name, _, net, count) in found.iter().take(3).filter(|(_, _, _, net, _)| net.0 * 20 >= total.0) {
        let times = if *count > 1 { format!(" in {count} runs") } else { String::new() };
        sentence.push_str(&format!("; {name} took {net} ({}){times}", percent(*net, total)));
    }
    let share = percent(left, total);
    if left.0 * 20 >= total.0 && is_whole {
        sentence.push_str(&format!(
            "; no event of the kernel accounts for {left} ({share}): firmware (SMI), a hypervisor or the hardware"
        ));
    } else if left.0 * 20 >= total.0 {
        sentence.push_str(&format!("; {left} ({share}) are not explained by the text"));
    }
    let limit = missing.filter(|missing| *missing > 0).map(|missing| {
        let all = missing + there;
        format!("{missing} of the {all} interruptions that the tracer counted in it are not in the text: record all events osnoise:*, in a larger buffer")
    });
    let (cause, advice) = match found.first() {
        Some((kind, name, _, net, _)) if *net >= left => {
            let advice = if *kind == "thread" { "keep it off this CPU (isolcpus, cpusets, affinity)" } else { "move the interrupt, or the timers behind it, to another CPU" };
            (name.clone(), advice)
        }
        _ if !is_whole => ("unexplained".to_owned(), "record all events osnoise:* (echo 1 > events/osnoise/enable), in a larger buffer (buffer_size_kb)"),
        _ => ("hardware, firmware or hypervisor".to_owned(), "count SMIs and measure the hardware alone (lathunt hwlat); on a virtual machine look at steal time"),
    };
    let tree =
        Segment::group(Kind::Passage, format!("longest single noise on CPU {cpu}"), start, total, parts);
    let told = (sentence, cause, advice.to_owned());
    let explanation = explanation(tree, told, limit.into_iter().collect());
    Finding { thread: step.task.clone(), cpu, begin: start, explanation }
}

fn of_period(step: &Step, period: &Period, count: usize) -> Finding {
    let (total, noise, runtime) =
        (Ns::from_us(period.single), Ns::from_us(period.noise), Ns::from_us(period.runtime));
    let [hw, nmi, irq, softirq, thread] = period.counts;
    let share = 100.0 - 100.0 * period.noise as f64 / period.runtime.max(1) as f64;
    let cpu = step.cpu;
    let sentence = format!(
        "osnoise on CPU {cpu}: the longest single noise took {total}, in the period that ended at {}; all noise of it took {noise} of {runtime} ({share:.2} % available): {hw} × without a cause in the kernel (HW), {nmi} × NMI, {irq} × IRQ, {softirq} × softirq, {thread} × thread; worst of {count} periods",
        step.at
    );
    let advice = "this table does not show which of them was the longest: also record the events osnoise:*, or stop at it (osnoise/stop_tracing_us)".to_owned();
    let label = "single noise whose source the table does not name";
    let gap = Segment::unexplained(Kind::Passage, label, step.at, total);
    let tree = Segment::group(
        Kind::Passage,
        format!("longest single noise on CPU {cpu}"),
        step.at,
        total,
        vec![gap],
    );
    let told = (sentence, "unexplained".to_owned(), advice);
    Finding {
        thread: step.task.clone(),
        cpu,
        begin: step.at,
        explanation: explanation(tree, told, Vec::new()),
    }
}

fn report(heading: &Heading, question: &str, lines: u64, count: u64, worst: Option<Finding>) -> Report {
    let mut limits: Vec<String> = heading.missing(lines).into_iter().collect();
    if worst.is_none() {
        limits.push(format!("the text has no line of the tracer: {question} is unknown"));
    }
    let format = format!("text of the {} tracer{}", heading.tracer, heading.on());
    Report { format, question: question.to_owned(), lines, count, worst, limits, is_doubtful: false }
}
