//! `hwlat` and `osnoise`: how long a loop that does nothing was held up.

use super::steps::{self, Step};
use super::{explanation, Finding, Heading, Report};
use crate::explain::segment::{Kind, Segment};
use crate::hwlat::tracer_line::Sample;
use crate::series::Thread;
use crate::time::{Mono, Ns};

/// The largest gap of the hwlat tracer.
pub(super) fn hwlat(text: &str, heading: &Heading) -> Report {
    let samples: Vec<(&str, Sample)> =
        text.lines().filter_map(|line| Some((line, Sample::parse(line)?))).collect();
    let worst = samples.iter().max_by_key(|(_, sample)| sample.largest());
    let finding = worst.map(|(line, sample)| {
        let at = steps::read(line).first().map_or(Mono(0), |step| step.at);
        let total = sample.largest();
        let (inner, outer) = (Ns::from_us(sample.inner_us), Ns::from_us(sample.outer_us));
        let cpu = sample.cpu.unwrap_or_default();
        let on = sample.cpu.map_or("a CPU that is not printed".to_owned(), |cpu| format!("CPU {cpu}"));
        let width = sample.count.map_or("how many gaps it had is not printed".to_owned(), |count| format!("{count} gap(s) in that width"));
        let nmi = sample.nmi.map_or(String::new(), |nmi| format!(", {nmi} NMI(s)"));
        let sentence = format!(
            "{on} stood still for {total} although its loop ran with interrupts off (inner {inner}, outer {outer}; {width}{nmi}): firmware (SMI), a hypervisor or the hardware took it; worst of {} samples",
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
    report(heading, "largest gap of the hwlat tracer", count, count, finding)
}

/// A period of osnoise: `1000000 185773 81.42270 10081 934 0 283 0 227`.
struct Period {
    runtime: u64,
    noise: u64,
    single: u64,
    counts: [u64; 5],
}

fn period(step: &Step) -> Option<Period> {
    let words: Vec<&str> = step.what.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    words.get(2)?.parse::<f64>().ok()?;
    let mut counts = [0; 5];
    for (at, count) in counts.iter_mut().enumerate() {
        *count = number(4 + at)?;
    }
    Some(Period { runtime: number(0)?, noise: number(1)?, single: number(3)?, counts })
}

/// The period of osnoise with the longest single noise.
pub(super) fn osnoise(text: &str, heading: &Heading) -> Report {
    let steps = steps::read(text);
    let periods: Vec<(&Step, Period)> = steps.iter().filter_map(|step| Some((step, period(step)?))).collect();
    let worst = periods.iter().max_by_key(|(_, period)| period.single);
    let finding = worst.map(|(step, period)| {
        let (total, noise, runtime) = (Ns::from_us(period.single), Ns::from_us(period.noise), Ns::from_us(period.runtime));
        let [hw, nmi, irq, softirq, thread] = period.counts;
        let share = 100.0 - 100.0 * period.noise as f64 / period.runtime.max(1) as f64;
        let cpu = step.cpu;
        let sentence = format!(
            "osnoise on CPU {cpu}: the longest single noise took {total}, in the period that ended at {}; all noise of it took {noise} of {runtime} ({share:.2} % available): {hw} × without a cause in the kernel (HW), {nmi} × NMI, {irq} × IRQ, {softirq} × softirq, {thread} × thread; worst of {} periods",
            step.at, periods.len()
        );
        let advice = "which of them was the longest is not in this table: record the events osnoise:* beside it, or stop at it (osnoise/stop_tracing_us)".to_owned();
        let label = "single noise whose source the table does not name";
        let gap = Segment::unexplained(Kind::Passage, label, step.at, total);
        let tree = Segment::group(Kind::Passage, format!("longest single noise on CPU {cpu}"), step.at, total, vec![gap]);
        let told = (sentence, "unexplained".to_owned(), advice);
        Finding { thread: step.task.clone(), cpu, begin: step.at, explanation: explanation(tree, told, Vec::new()) }
    });
    report(
        heading,
        "longest single noise of the osnoise tracer",
        steps.len() as u64,
        periods.len() as u64,
        finding,
    )
}

fn report(heading: &Heading, question: &str, lines: u64, count: u64, worst: Option<Finding>) -> Report {
    let mut limits: Vec<String> = heading.missing(lines).into_iter().collect();
    if worst.is_none() {
        limits.push(format!("no line of the tracer is in the text: {question} is not known"));
    }
    let format = format!("text of the {} tracer{}", heading.tracer, heading.on());
    Report { format, question: question.to_owned(), lines, count, worst, limits }
}
