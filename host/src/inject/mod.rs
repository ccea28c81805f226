//! A known disturbance: holds one CPU for a given time, repeatedly, to prove that instruments detect it.
//!
//! No kernel module: BPF programs that spin on the clock (src/bpf/inject.bpf.c), or plain threads. The report contains
//! the clock readings at both ends of every pulse, not the requested values.
//!
//! Bounded by construction: every pulse ends by the clock, a pulse over [`LONGEST`] needs `yes_really`, and a machine's
//! only CPU is not held, except for [`LONGEST_ALONE`] by tests in a machine of their own. Peers: OSADL's blocksys and
//! mklatency (kernel modules).

mod bpf;
mod method;
mod threads;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lathunt_core::time::{Cpu, Mono, Ns};
use serde::Serialize;

pub use method::Kind;

use crate::clock::mono as now;
use crate::error::{Error, Result};
use method::Method;

/// The longest pulse without `yes_really`: as much as an unprivileged user may be expected to tolerate.
pub const LONGEST: Ns = Ns(1_000_000_000);

/// Name of the injecting thread: the culprit in recordings.
pub const WORKER: &str = "lathunt-inject";

/// Beyond this, watchdogs and other machines notice; not even `yes_really` allows it.
const LONGEST_EVER: Ns = Ns(10_000_000_000);

/// The longest pulse on a machine's only CPU, with `only_cpu`.
pub const LONGEST_ALONE: Ns = Ns(10_000_000);

/// What to inject.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Which CPU to hold.
    pub cpu: Cpu,
    /// How long each time.
    pub length: Ns,
    /// From the start of one pulse to the next.
    pub every: Ns,
    /// How many.
    pub count: u32,
    /// FIFO priority of the `thread` and `pagefault` kinds.
    pub priority: i32,
    /// When the first pulse starts (the others follow by `every`); `None`: at once. Accurate to a few µs unless a
    /// higher priority holds the CPU: the lateness of earlier pulses is compensated.
    pub first: Option<Mono>,
    /// How long before a pulse its thread polls the clock instead of sleeping. Longer than this machine's wake-up
    /// latency, pulses start on time; shorter than the victim's period, they disturb no activation before.
    pub watch: Ns,
    /// Allow pulses longer than [`LONGEST`].
    pub yes_really: bool,
    /// Allow pulses up to [`LONGEST_ALONE`] on the machine's only CPU. For tests in a machine of their own; no command
    /// sets it.
    pub only_cpu: bool,
    /// Ends after the pulse in which it becomes true.
    pub stop: Option<&'a AtomicBool>,
}

impl Options<'_> {
    /// One pulse of `length` on `cpu`, at once.
    #[must_use]
    pub fn once(cpu: Cpu, length: Ns) -> Options<'static> {
        Options {
            cpu,
            length,
            every: length + Ns::from_ms(10),
            count: 1,
            priority: 98,
            first: None,
            watch: Ns::from_us(150),
            yes_really: false,
            only_cpu: false,
            stop: None,
        }
    }
}

/// One disturbance as it happened, by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pulse {
    /// When it began.
    pub begin: Mono,
    /// When it ended.
    pub end: Mono,
}

impl Pulse {
    /// How long it was.
    #[must_use]
    pub fn length(&self) -> Ns {
        self.end.since(self.begin)
    }
}

/// What was done.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Kind of disturbance.
    pub kind: Kind,
    /// Where.
    pub cpu: Cpu,
    /// The method.
    pub method: &'static str,
    /// Requested length.
    pub requested_ns: Ns,
    /// Requested number of pulses.
    pub requested_count: u32,
    /// Pulses that happened.
    pub count: u32,
    /// The shortest; `None`: there was no pulse.
    pub min_ns: Option<Ns>,
    /// The median.
    pub median_ns: Option<Ns>,
    /// The longest.
    pub max_ns: Option<Ns>,
    /// Side effects and limits, in one line each.
    pub notes: Vec<String>,
    /// Every pulse.
    pub pulses: Vec<Pulse>,
}

/// Holds the CPU as requested; returns when the last pulse is over.
///
/// # Errors
/// If the request is refused (length, count, the only CPU), rights are missing, or a pulse did not happen.
pub fn inject(kind: Kind, options: &Options<'_>) -> Result<Report> {
    let online = online_cpus()?;
    check(options, &online)?;
    let mut method = Method::prepare(kind)?;
    let pulses = thread::scope(|scope| {
        let worker = thread::Builder::new().name(WORKER.to_owned());
        let worker = worker
            .spawn_scoped(scope, || run(&mut method, options))
            .map_err(|error| Error::new("start", "the injecting thread", error))?;
        worker.join().unwrap_or_else(|_| Err(Error::refused("inject:", "the worker thread failed", "")))
    })?;
    Ok(report(kind, options, &method, pulses))
}

fn check(options: &Options<'_>, online: &[Cpu]) -> Result<()> {
    let refuse = |what: String, hint: &str| Err(Error::refused("inject:", what, hint));
    let Options { cpu, length, every, count, .. } = *options;
    if !online.contains(&cpu) {
        return refuse(format!("CPU {cpu} is not online"), "see /sys/devices/system/cpu/online");
    }
    if online.len() < 2 && !(options.only_cpu && length <= LONGEST_ALONE) {
        return refuse("this is the only CPU".to_owned(), "one CPU must stay for everything else");
    }
    if length > LONGEST_EVER {
        return refuse(format!("{length} is too long"), "10 s is the limit");
    }
    if length > LONGEST && !options.yes_really {
        return refuse(
            format!("{length} is longer than {LONGEST}"),
            "say --yes-really to hold a CPU that long",
        );
    }
    if length < Ns(1_000) || count == 0 {
        return refuse("nothing to do".to_owned(), "a pulse takes at least 1us, and one at least");
    }
    if every < length + Ns::from_us(100) && count > 1 {
        return refuse(
            format!("a pulse of {length} every {every}"),
            "leave at least 100us between two pulses",
        );
    }
    Ok(())
}

/// The pulses in sequence, in a thread of their own (it changes its CPU and priority).
fn run(method: &mut Method, options: &Options<'_>) -> Result<Vec<Pulse>> {
    method.enter(options)?;
    let mut pulses = Vec::with_capacity(options.count as usize);
    let mut next = options.first.unwrap_or_else(|| now() + Ns::from_us(200));
    let mut early = Ns::ZERO;
    for _ in 0..options.count {
        let start = Mono(next.0.saturating_sub(early.0));
        if !wait_until(start, options) {
            break;
        }
        let pulse = method.pulse(options)?;
        // Smoothed, so that one delayed pulse does not shift the next.
        early = Ns((3 * early.0 + pulse.begin.since(start).0) / 4).min(options.watch);
        pulses.push(pulse);
        // A late pulse shifts those after it by whole periods: the phase is kept.
        let periods = now().since(next).0 / options.every.0.max(1) + 1;
        next = next + Ns(options.every.0.saturating_mul(periods));
    }
    Ok(pulses)
}

/// Sleeps, then polls the clock for the last stretch. False if it is to stop.
fn wait_until(moment: Mono, options: &Options<'_>) -> bool {
    loop {
        if options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return false;
        }
        let left = moment.since(now());
        if left == Ns::ZERO {
            return true;
        }
        if left > options.watch {
            thread::sleep(Duration::from_nanos(left.0 - options.watch.0).min(Duration::from_millis(100)));
        } else {
            std::hint::spin_loop();
        }
    }
}

fn report(kind: Kind, options: &Options<'_>, method: &Method, pulses: Vec<Pulse>) -> Report {
    let mut lengths: Vec<Ns> = pulses.iter().map(Pulse::length).collect();
    lengths.sort_unstable();
    Report {
        kind,
        cpu: options.cpu,
        method: method.name(),
        requested_ns: options.length,
        requested_count: options.count,
        count: pulses.len() as u32,
        min_ns: lengths.first().copied(),
        median_ns: median(&lengths),
        max_ns: lengths.last().copied(),
        notes: method.notes(options),
        pulses,
    }
}

/// The middle of ascending lengths, or the mean of the two in the middle.
fn median(lengths: &[Ns]) -> Option<Ns> {
    let (low, high) = (lengths.get(lengths.len().saturating_sub(1) / 2)?, lengths.get(lengths.len() / 2)?);
    Some(Ns(low.0.midpoint(high.0)))
}

fn online_cpus() -> Result<Vec<Cpu>> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path).map_err(|error| Error::new("read", path, error))?;
    let set: lathunt_core::cpuset::CpuSet =
        text.trim().parse().map_err(|error| Error::new("understand", path, Box::new(error)))?;
    Ok(set.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Cpu; 2] = [Cpu(0), Cpu(1)];

    fn of(length: Ns) -> Options<'static> {
        Options::once(Cpu(1), length)
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[Ns(7)]), Some(Ns(7)));
        assert_eq!(median(&[Ns(1), Ns(2), Ns(6), Ns(9)]), Some(Ns(4)));
        assert_eq!(median(&[Ns(1), Ns(2), Ns(6)]), Some(Ns(2)));
    }

    #[test]
    fn the_only_cpu_is_not_held() {
        let options = Options { cpu: Cpu(0), yes_really: true, ..of(Ns::from_us(10)) };
        assert!(check(&options, &TWO[..1]).unwrap_err().to_string().contains("only CPU"));
        assert!(check(&options, &TWO).is_ok());
    }

    #[test]
    fn a_test_may_hold_the_only_cpu_of_its_machine_for_a_moment() {
        let alone = Options { cpu: Cpu(0), only_cpu: true, ..of(LONGEST_ALONE) };
        assert!(check(&alone, &TWO[..1]).is_ok());
        let longer = Options { length: LONGEST_ALONE + Ns(1), yes_really: true, ..alone };
        assert!(check(&longer, &TWO[..1]).unwrap_err().to_string().contains("only CPU"));
    }

    #[test]
    fn a_second_and_more_must_be_confirmed_and_ten_are_too_many() {
        let long = Options { yes_really: true, ..of(Ns::from_ms(1_001)) };
        assert!(check(&of(Ns::from_ms(1_000)), &TWO).is_ok());
        assert!(check(&of(Ns::from_ms(1_001)), &TWO).unwrap_err().to_string().contains("--yes-really"));
        assert!(check(&long, &TWO).is_ok());
        assert!(check(&Options { length: Ns::from_ms(10_001), ..long }, &TWO).is_err());
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let fits = Options { count: 2, every: Ns::from_us(200), ..of(Ns::from_us(100)) };
        assert!(check(&fits, &TWO).is_ok());
        for bad in [
            Options { cpu: Cpu(7), ..fits },
            Options { count: 0, ..fits },
            Options { length: Ns::ZERO, ..fits },
            Options { every: Ns::from_us(150), ..fits },
        ] {
            assert!(check(&bad, &TWO).is_err(), "{bad:?}");
        }
    }
}
