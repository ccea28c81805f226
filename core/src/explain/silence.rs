//! CPUs whose events end long before those of the others, and CPUs without any event.
//!
//! A stream truncated between two packets looks complete: only LTTng's index would show more. But a thread that
//! migrates to a CPU is switched in there, which is an event. CPUs that are only idle until the end are normal. A trace of some
//! CPUs only looks complete, too: a thread that runs on another CPU seems to wait for all that time.

use crate::cpuset::CpuSet;
use crate::hash::HashMap;
use crate::time::{Cpu, Mono, Ns, Tid};

/// Maximum number of CPUs; that of the kernel.
const MOST_CPUS: usize = 1 << 13;
/// Minimum silence of a CPU with work to report it: longer than any wait for a CPU, except behind a thread that is
/// never interrupted.
const SILENT: Ns = Ns::from_ms(100);

/// A CPU with work but without events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::explain) struct Silence {
    pub cpu: Cpu,
    /// Its last event.
    pub last: Mono,
    /// The thread that migrated there since, and when.
    pub moved: (Tid, Mono),
}

/// Last events of all CPUs.
#[derive(Default)]
pub(in crate::explain) struct Silences {
    /// By number; `Mono(0)` without events.
    last: Vec<Mono>,
    /// The thread that each CPU was given since its last event, and when.
    waiting: HashMap<Cpu, (Tid, Mono)>,
    /// The CPU for which a thread is in `waiting`: a thread is on one CPU only.
    place: HashMap<Tid, Cpu>,
    /// The first thread that was moved to each CPU before the first event of that, and when.
    given: HashMap<Cpu, (Tid, Mono)>,
}

/// CPUs without any event, to which threads were moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::explain) struct Unrecorded {
    pub cpus: CpuSet,
    /// The first thread that was moved there, and when.
    pub moved: (Tid, Mono),
}

impl Silences {
    /// An event of `cpu`.
    #[inline]
    pub fn event(&mut self, cpu: Cpu, at: Mono) {
        let index = cpu.0 as usize;
        if index >= self.last.len() {
            if index >= MOST_CPUS {
                return;
            }
            self.last.resize(index + 1, Mono(0));
        }
        self.last[index] = at;
    }

    /// An event of another CPU shows that `tid` migrated to `to`.
    pub fn moved(&mut self, tid: Tid, to: Cpu, at: Mono) {
        if let Some(before) = self.place.remove(&tid) {
            self.waiting.remove(&before);
        }
        let last = self.last_of(to);
        if last == Mono(0) && (to.0 as usize) < MOST_CPUS {
            self.given.entry(to).or_insert((tid, at));
        }
        let known = self.waiting.get(&to);
        if (to.0 as usize) < MOST_CPUS && known.is_none_or(|(_, since)| *since <= last) {
            self.place.insert(tid, to);
            if let Some((other, _)) = self.waiting.insert(to, (tid, at)) {
                self.place.remove(&other);
            }
        }
    }

    fn last_of(&self, cpu: Cpu) -> Mono {
        self.last.get(cpu.0 as usize).copied().unwrap_or_default()
    }

    /// The CPUs without any event that threads were moved to; `None`: there are none.
    pub fn unrecorded(&self) -> Option<Unrecorded> {
        let never = || self.given.iter().filter(|(cpu, _)| self.last_of(**cpu) == Mono(0));
        let moved = never().map(|(_, moved)| *moved).min_by_key(|(tid, at)| (*at, *tid))?;
        Some(Unrecorded { cpus: never().map(|(cpu, _)| *cpu).collect(), moved })
    }

    /// Silences that last until the `end` of the trace.
    pub fn found(&self, end: Mono) -> impl Iterator<Item = Silence> + '_ {
        let mut all: Vec<Silence> = self
            .waiting
            .iter()
            .map(|(cpu, moved)| Silence { cpu: *cpu, last: self.last_of(*cpu), moved: *moved })
            .collect();
        all.retain(|silence| silence.last > Mono(0) && silence.moved.1 > silence.last);
        all.retain(|silence| end.since(silence.moved.1) >= SILENT);
        all.sort_by_key(|silence| silence.cpu);
        all.into_iter()
    }
}

impl Silence {
    /// The text; `comm` is the name of the thread that migrated.
    pub fn told(&self, comm: &str) -> String {
        let Silence { cpu, last, moved: (tid, at) } = *self;
        format!(
            "CPU {cpu} has no event after {last}, although {comm}/{tid} was moved there at {at}: the end of its stream is missing (truncated \
             file), or one thread kept running without any event"
        )
    }
}

impl Unrecorded {
    /// The text; `comm` is the name of the thread.
    pub fn told(&self, comm: &str) -> String {
        let Unrecorded { cpus, moved: (tid, at) } = self;
        let of = if cpus.len() == 1 { "CPU" } else { "CPUs" };
        format!(
            "no event of {of} {cpus} is in the trace, although threads were moved there, first {comm}/{tid} at {at}: a thread that \
             runs there seems to wait for a CPU, and its wake-ups and waits may be missing or too long"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum What {
        Event(u32),
        Moved(i32, u32),
    }

    fn told(events: &[(u32, u64)], moves: &[(i32, u32, u64)]) -> Vec<(u32, i32)> {
        read(events, moves)
            .found(Mono(1_000_000_000))
            .map(|silence| (silence.cpu.0, silence.moved.0 .0))
            .collect()
    }

    fn read(events: &[(u32, u64)], moves: &[(i32, u32, u64)]) -> Silences {
        let events = events.iter().map(|&(cpu, at)| (at, What::Event(cpu)));
        let mut all: Vec<(u64, What)> =
            events.chain(moves.iter().map(|&(tid, to, at)| (at, What::Moved(tid, to)))).collect();
        all.sort_by_key(|(at, _)| *at);
        let ms = |at: u64| Mono(at * 1_000_000);
        let mut silences = Silences::default();
        for (at, what) in all {
            match what {
                What::Event(cpu) => silences.event(Cpu(cpu), ms(at)),
                What::Moved(tid, to) => silences.moved(Tid(tid), Cpu(to), ms(at)),
            }
        }
        silences
    }

    #[test]
    fn cpus_without_any_event_are_told_only_if_a_thread_was_moved_there() {
        let only = |moves: &[(i32, u32, u64)]| read(&[(0, 1), (0, 990)], moves).unrecorded();
        let found = only(&[(51, 3, 400), (50, 1, 300), (50, 0, 310)]).unwrap();
        assert_eq!(
            (found.cpus.to_string(), found.moved.0),
            ("1,3".to_owned(), Tid(50)),
            "also if it came back"
        );
        assert!(found.told("a").starts_with("no event of CPUs 1,3 is in the trace"));
        assert_eq!(only(&[]), None);
        assert_eq!(only(&[(50, 0, 300)]), None);
        assert_eq!(
            read(&[(0, 1), (1, 301)], &[(50, 1, 300)]).unrecorded(),
            None,
            "its first event comes later"
        );
    }

    #[test]
    fn only_a_cpu_that_had_something_to_do_and_no_event_is_told() {
        let both = [(0, 1), (1, 2), (0, 990)];
        assert_eq!(told(&both, &[(50, 1, 300)]), [(1, 50)]);
        assert_eq!(told(&both, &[(50, 1, 300), (51, 1, 400)]), [(1, 50)], "the first of them");
        assert_eq!(told(&both, &[]), [], "it may be idle");
        assert_eq!(told(&both, &[(50, 1, 950)]), [], "the trace ends");
        assert_eq!(told(&both, &[(50, 1, 300), (50, 0, 310)]), [], "it was moved on");
        assert_eq!(told(&[(0, 1), (1, 2), (1, 301), (0, 990)], &[(50, 1, 300)]), [], "it went there");
        assert_eq!(told(&[(0, 1), (0, 990)], &[(50, 1, 300)]), [], "this CPU is not recorded");
    }
}
