//! `timerlat`: the sample that stopped the trace, or the worst one, with the noise that the `osnoise` events report.
//!
//! The noise figures are net: the time of an interrupt is not part of the thread it interrupted. So they add up; the
//! rest is that of the scheduler and is shown as unexplained.

use std::collections::BTreeMap;

use super::critical::percent;
use super::net_noise::{base, kind_of, Noise};
use super::steps::{self, Step};
use super::{explanation, stack, Finding, Heading, Report};
use crate::explain::segment::{Kind, Segment};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};

/// `#402268 context    irq timer_latency     13585 ns`
struct Sample {
    number: u64,
    context: Context,
    latency: Ns,
}

/// Context of a sample; those of one activation follow each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Context {
    Irq,
    Thread,
    /// A thread that works in user space (since Linux 6.5), on its return there.
    User,
}

impl Context {
    fn place(self) -> &'static str {
        match self {
            Context::Irq => "its interrupt",
            Context::Thread => "its thread",
            Context::User => "the return of its thread to user space",
        }
    }
}

fn sample(what: &str) -> Option<Sample> {
    let (number, rest) = what.strip_prefix('#')?.split_once(" context")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "timer_latency")?;
    let latency = words.get(at + 1)?.parse().ok()?;
    Some(Sample {
        number: number.trim().parse().ok()?,
        context: match *words.first()? {
            "irq" => Context::Irq,
            "user-ret" => Context::User,
            _ => Context::Thread,
        },
        latency: Ns(latency),
    })
}

/// Whether the line of a sample is whole.
pub(super) fn is_sample(what: &str) -> bool {
    sample(what).is_some()
}

/// The worst sample of the text; the last one if tracing stopped at it.
pub(super) fn read(text: &str, heading: &Heading) -> Report {
    let steps = steps::read(text);
    let samples: Vec<(usize, Sample)> =
        steps.iter().enumerate().filter_map(|(place, step)| Some((place, sample(&step.what)?))).collect();
    // Only the last sample of an activation counts.
    let is_followed = |place: usize, of: &Sample| {
        let same = |step: &Step| step.cpu == steps[place].cpu;
        let later = samples.iter().filter(|(later, _)| *later > place && same(&steps[*later]));
        later.take(1).any(|(_, sample)| sample.context > of.context && sample.number == of.number)
    };
    let whole = samples.iter().filter(|(place, sample)| !is_followed(*place, sample));
    let count = whole.clone().count() as u64;
    let worst = whole.max_by_key(|(_, sample)| sample.latency);
    let mut limits: Vec<String> = heading.missing(steps.len() as u64).into_iter().collect();
    let worst = worst.map(|(place, sample)| explained(&steps, &samples, *place, sample));
    if worst.is_none() {
        limits.push("no sample of timerlat is in the text".to_owned());
    }
    Report {
        format: format!("text of the timerlat tracer{}", heading.on()),
        question: "worst sample of the timerlat tracer".to_owned(),
        lines: steps.len() as u64,
        count,
        worst,
        limits,
        is_doubtful: false,
    }
}

fn explained(steps: &[Step], samples: &[(usize, Sample)], place: usize, sample: &Sample) -> Finding {
    let step = &steps[place];
    let cpu = step.cpu;
    let total = sample.latency;
    let begin = Mono(step.at.0.saturating_sub(total.0));
    let earlier = |context: Context| {
        let of = |(at, other): &&(usize, Sample)| {
            *at <= place && steps[*at].cpu == cpu && other.context == context && other.number == sample.number
        };
        samples.iter().rfind(of)
    };
    let timer = earlier(Context::Irq);
    let mut parts = Parts { left: total, parts: Vec::new(), told: Vec::new() };
    let mut limits = Vec::new();
    let within = || {
        steps.iter().take(place + usize::from(sample.context == Context::Irq)).filter(|step| step.cpu == cpu)
    };
    let base = base(steps);
    let noises: Vec<Noise<'_>> = within()
        .filter_map(|step| Noise::of(step, base))
        .filter(|noise| noise.start + noise.net > begin)
        .collect();
    let fired = timer.map_or(begin, |(at, _)| steps[*at].at);
    let slack = if base > Ns::ZERO { Ns(3_000) } else { Ns(1_000) };
    let own = noises.iter().find(|noise| {
        noise.kind == "irq" && noise.start <= fired + slack && noise.start + noise.net + slack >= fired
    });
    // Contexts that ran before the timer interrupt delayed it; the rest of that time is its own delay.
    let mut delay = match (own, timer) {
        (Some(own), _) => own.start.since(begin),
        (None, Some((_, timer))) => timer.latency,
        (None, None) => total,
    };
    let own_start = own.map(|own| own.start);
    for noise in noises
        .iter()
        .filter(|noise| matches!(noise.kind, "irq" | "nmi") && own_start.is_some_and(|own| noise.start < own))
    {
        let net = (noise.start + noise.net).since(begin.max(noise.start)).min(delay);
        delay = delay.saturating_sub(net);
        let label = format!("{} ran when the timer was due", noise.named());
        parts.add(kind_of(noise.kind), &label, noise.start.max(begin), net);
    }
    let what = match own {
        Some(_) => "from the expiry to the timer's interrupt",
        None => "from the expiry to the sample in the timer's interrupt",
    };
    let idle = timer.is_some_and(|(at, _)| steps[*at].task.tid == Tid::IDLE);
    let (kind, exit) = if idle {
        (Kind::Idle, " (the CPU was idle: includes the exit from idle)")
    } else {
        (Kind::TimerLate, "")
    };
    parts.add(kind, &format!("timer late: {what}{exit}"), begin, delay);
    let mut threads: BTreeMap<(usize, String), (Mono, Ns, u32)> = BTreeMap::new();
    for noise in &noises {
        let Noise { kind, name, start, net } = *noise;
        if own_start.is_some_and(|own| start < own) || own_start.is_none() && start < fired.min(step.at) {
            continue;
        }
        let is_own = Some(start) == own_start;
        let name = if is_own { format!("the timer's interrupt ({name})") } else { noise.named() };
        let order = ["irq", "nmi", "softirq", "thread"].iter().position(|known| *known == kind).unwrap_or(4);
        let known = threads.entry((order, name)).or_insert((start, Ns::ZERO, 0));
        *known = (known.0, known.1 + net, known.2 + 1);
    }
    for ((order, name), (start, net, count)) in threads {
        parts.add_counted(kind_of(["irq", "nmi", "softirq", "thread", ""][order]), &name, start, net, count);
    }
    if noises.is_empty() {
        limits.push("no osnoise:* event is in the text: the code that ran in between was not recorded (echo 1 > events/osnoise/enable)".to_owned());
    }
    let stack = steps[place..]
        .iter()
        .find(|other| other.cpu == cpu && other.is_stack())
        .map(|step| step.stack.as_slice());
    let code = stack.map(stack::interrupted).unwrap_or_default();
    let interrupted = timer.map(|(at, _)| name_of(steps, &steps[*at].task));
    let who = match sample.context {
        Context::Irq => Thread { comm: String::new(), ..step.task.clone() },
        Context::Thread | Context::User => name_of(steps, &step.task),
    };
    if let Some((_, thread)) = earlier(Context::Thread).filter(|_| sample.context == Context::User) {
        let net = total.saturating_sub(thread.latency);
        parts.add(Kind::Running, "from its thread's start to user space", begin + thread.latency, net);
    }
    let place = sample.context.place();
    let mut sentence =
        format!("timerlat on CPU {cpu}: {place} came {total} after the expiry (sample #{})", sample.number);
    parts.told.sort_by_key(|(_, net)| std::cmp::Reverse(*net));
    for (name, net) in parts.told.iter().take(4).filter(|(_, net)| net.0 * 20 >= total.0) {
        sentence.push_str(&format!("; {name} took {net} ({})", percent(*net, total)));
    }
    if idle && !code.is_empty() {
        sentence.push_str("; the timer interrupted the idle CPU");
    } else if !code.is_empty() {
        let task = interrupted.map_or("the interrupted task".to_owned(), |task| task.to_string());
        let call = stack::call(code).map_or(String::new(), |call| format!(", system call {call}"));
        let first: Vec<&str> = code.iter().take(3).map(String::as_str).collect();
        sentence.push_str(&format!("; the timer interrupted {task} in {}{call}", first.join(" ← ")));
    }
    let (cause, advice) = match parts.told.first() {
        Some((name, net)) if *net >= parts.left => (name.clone(), advice_for(name)),
        _ => (
            "unexplained".to_owned(),
            "record the events osnoise:*, sched:sched_switch and irq:* beside it".to_owned(),
        ),
    };
    let label = format!("expiry of the timer → {place}");
    let mut tree = Segment::group(Kind::Passage, label, begin, total, parts.parts);
    tree.stack = code.to_vec();
    limits
        .push("times of the lines are in µs, those of the noise in ns: a part may be off by 1 µs".to_owned());
    Finding { thread: who, cpu, begin, explanation: explanation(tree, (sentence, cause, advice), limits) }
}

/// `task` with its name from any line: the kernel prints `<...>` if it does not know it.
fn name_of(steps: &[Step], task: &Thread) -> Thread {
    let named = |step: &&Step| step.task.tid == task.tid && step.task.comm != "<...>";
    steps.iter().find(named).map_or(task, |step| &step.task).clone()
}

/// Parts that must not exceed the total.
struct Parts {
    left: Ns,
    parts: Vec<Segment>,
    told: Vec<(String, Ns)>,
}

impl Parts {
    fn add(&mut self, kind: Kind, name: &str, begin: Mono, net: Ns) {
        self.add_counted(kind, name, begin, net, 1);
    }

    fn add_counted(&mut self, kind: Kind, name: &str, begin: Mono, net: Ns, count: u32) {
        let net = net.min(self.left);
        if net == Ns::ZERO {
            return;
        }
        self.left = self.left.saturating_sub(net);
        let mut leaf = Segment::leaf(kind, name, begin, net);
        leaf.count = count;
        self.parts.push(leaf);
        self.told.push((name.to_owned(), net));
    }
}

fn advice_for(name: &str) -> String {
    match name {
        name if name.starts_with("thread ") => format!("{name} was not preempted: find where it keeps preemption off, or keep it off this CPU"),
        name if name.starts_with("timer late") && name.contains("idle") => "forbid deep idle states (0 in /dev/cpu_dma_latency), or measure the hardware alone (lathunt hwlat)".to_owned(),
        name if name.starts_with("timer late") => "interrupts were off on that CPU, or the hardware or the host was late: the irqsoff tracer and lathunt hwlat show which".to_owned(),
        name if name.starts_with("from its thread") => "the work of its thread before it returns: signals, task work, the exit path of the system call".to_owned(),
        name if name.starts_with("the timer's interrupt") => "timers of this CPU: keep the tasks that arm them on other CPUs (nohz_full)".to_owned(),
        _ => "move the interrupt to another CPU: /proc/irq/N/smp_affinity".to_owned(),
    }
}

/// The CPU of a text, for the reports of rtla.
pub(super) fn on(cpu: Option<u32>) -> Cpu {
    cpu.map_or_else(Cpu::default, Cpu)
}
