//! The longest section of one kind: `struct longest` of src/bpf/longest.h, restated, read, and named.
//!
//! The kernel side writes some 100,000 times a second. A read counts if nothing was written during it, and is repeated
//! otherwise: the longest is consistent, never the length of one with the location of another.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{fence, AtomicI32, AtomicU64};

use lathunt_core::comm::Comm;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::series::Thread;
use lathunt_core::time::{Mono, Ns, Prio, Tid};

use crate::symbols::Symbols;

const STACK: usize = 30;
/// Maximum number of attempts to read while it is being written.
const ATTEMPTS: usize = 1_000;

/// Functions in which kernels turn interrupts off to report an event (include/linux/tracepoint.h, as long as it has
/// rcuidle): before 5.18, and since.
pub(super) const TELLING: [[&str; 2]; 2] =
    [["rcu_irq_enter_irqson", "rcu_irq_exit_irqson"], ["ct_irq_enter_irqson", "ct_irq_exit_irqson"]];

/// `telling` of src/bpf/longest.h; zeroes if this kernel has no such functions, or hides them.
pub(super) fn telling(symbols: &Symbols) -> Vec<u8> {
    let names = TELLING.iter().find(|names| symbols.address(names[0]).is_some()).unwrap_or(&TELLING[0]);
    let bounds = names.map(|name| symbols.address(name).and_then(|address| symbols.bounds(address)));
    let words = bounds.map(Option::unwrap_or_default).map(|(begin, end)| [begin, end]);
    words.concat().into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// The result of `read` from a moment without writes, of which `seq` is odd during one; after many attempts of any moment.
pub(super) fn quiet<T>(seq: &AtomicU64, read: impl Fn() -> T) -> T {
    let mut attempt = 1;
    loop {
        let before = seq.load(Acquire);
        let found = read();
        fence(Acquire);
        let torn = before % 2 == 1 || seq.load(Relaxed) != before;
        if !torn || attempt == ATTEMPTS {
            return found;
        }
        attempt += 1;
    }
}

/// `struct longest`.
#[repr(C)]
pub(super) struct Kept {
    pub ns: AtomicU64,
    at: AtomicU64,
    begun: AtomicU64,
    begun_by: AtomicU64,
    ended: AtomicU64,
    tid: AtomicI32,
    prio: AtomicI32,
    comm: [AtomicU64; 2],
    pub depth: AtomicU64,
    pub stack: [AtomicU64; STACK],
}

// src/bpf/longest.h asserts the same number.
const _: () = assert!(size_of::<Kept>() == 312);

/// The longest of one kind. Addresses are the kernel's; 0: unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Longest {
    pub ns: Ns,
    /// When it ended.
    pub at: Mono,
    /// Where it was switched off.
    pub begun: u64,
    /// Caller of that.
    pub begun_by: u64,
    /// Where it was switched on.
    pub ended: u64,
    pub tid: Tid,
    pub prio: Prio,
    pub comm: Comm,
    /// Stack of its end, innermost first: starts with our own program and its callers.
    pub stack: Vec<u64>,
    /// It has not ended yet: `at` is the time of reading, and the task is unknown.
    pub is_open: bool,
}

/// Those of `cpus` that are online: a section that was open when a CPU went down is not part of its figures.
pub(super) fn online(cpus: &CpuSet) -> CpuSet {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let online: Option<CpuSet> = online.trim().parse().ok();
    online.map_or_else(|| cpus.clone(), |online| cpus.iter().filter(|&cpu| online.contains(cpu)).collect())
}

impl Kept {
    /// A copy; consistent if nothing was written meanwhile ([`quiet`]).
    pub fn read(&self) -> Longest {
        let mut comm = [0; 16];
        for (part, word) in comm.chunks_exact_mut(8).zip(&self.comm) {
            part.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        let depth = (self.depth.load(Relaxed) as usize).min(STACK);
        Longest {
            ns: Ns(self.ns.load(Relaxed)),
            at: Mono(self.at.load(Relaxed)),
            begun: self.begun.load(Relaxed),
            begun_by: self.begun_by.load(Relaxed),
            ended: self.ended.load(Relaxed),
            tid: Tid(self.tid.load(Relaxed)),
            prio: Prio(self.prio.load(Relaxed)),
            comm: Comm::new(comm),
            stack: self.stack[..depth].iter().map(|address| address.load(Relaxed)).collect(),
            is_open: false,
        }
    }
}

/// Number of functions shown of a stack.
const SHOWN: usize = 4;

/// Name prefixes of functions between our program and the code that switched: of BPF, of tracepoints, and of counting
/// and reporting.
const MACHINERY: [&str; 9] = [
    "bpf_prog_",
    "bpf_trace_run",
    "__bpf_trace_",
    "__traceiter_",
    "trace_preempt_",
    "trace_hardirqs_",
    "trace_irq_",
    "preempt_count_sub",
    "preempt_latency_stop",
];

impl Longest {
    /// The task that ended it.
    pub fn thread(&self) -> Thread {
        Thread { tid: self.tid, comm: self.comm.text(), prio: Some(self.prio) }
    }

    /// Where it was switched off and on. `name`: of an address in the kernel.
    pub fn place(&self, name: &dyn Fn(u64) -> Option<String>) -> String {
        let (off, on) = self.places(name);
        format!("off {off}; on {on}")
    }

    /// Where it began, and where it ended.
    pub fn places(&self, name: &dyn Fn(u64) -> Option<String>) -> (String, String) {
        let named = |address: u64| name(address).unwrap_or_else(|| format!("{address:#x}"));
        let stack: Vec<String> = switched_on(self, name).iter().take(SHOWN).map(|&at| named(at)).collect();
        let begun = match (self.begun, self.begun_by) {
            (0, _) => "since idle".to_owned(),
            (at, by) if by == 0 || by == at => format!("in {}", named(at)),
            (at, by) => format!("in {} < {}", named(at), named(by)),
        };
        let ended = match (self.ended, stack.is_empty()) {
            _ if self.is_open => "not before recording ended".to_owned(),
            (0, _) => "for idle".to_owned(),
            (at, true) => format!("in {}", named(at)),
            (_, false) => format!("in {}", stack.join(" < ")),
        };
        (begun, ended)
    }
}

/// The stack from the code that switched on: without our program and the reporting code.
fn switched_on<'s>(longest: &'s Longest, name: &dyn Fn(u64) -> Option<String>) -> &'s [u64] {
    let stack = &longest.stack;
    let is_machinery = |&address: &u64| {
        name(address).is_some_and(|name| MACHINERY.iter().any(|machinery| name.starts_with(machinery)))
    };
    // The address in the event is the return address of its own call.
    let told = stack.iter().position(|&address| address == longest.ended);
    // Before the machinery comes our own program, which has no name in an older symbol table.
    let behind = || {
        let first = stack.iter().position(is_machinery)?;
        Some(first + stack[first..].iter().position(|address| !is_machinery(address))?)
    };
    &stack[told.or_else(behind).unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(address: u64) -> Option<String> {
        let name = match address {
            1 => "bpf_trace_run2",
            2 => "trace_preempt_on",
            3 => "preempt_count_sub",
            4 => "_raw_spin_unlock",
            5 => "driver_poll",
            6 => "_raw_spin_lock",
            7 => "driver_lock",
            _ => return None,
        };
        Some(format!("{name}+0x1"))
    }

    fn longest(ended: u64) -> Longest {
        Longest {
            ns: Ns(5_500),
            at: Mono(100_000),
            begun: 6,
            ended,
            tid: Tid(7),
            prio: Prio(120),
            comm: Comm::cut("driver"),
            stack: vec![0x99, 1, 2, 3, 4, 5],
            ..Longest::default()
        }
    }

    fn culprit(longest: &Longest) -> String {
        format!("{}: {}", longest.thread(), longest.place(&name))
    }

    #[test]
    fn the_code_that_switched_is_named_and_not_what_told_of_it() {
        let expected =
            "driver/7 (nice 0): off in _raw_spin_lock+0x1; on in _raw_spin_unlock+0x1 < driver_poll+0x1";
        assert_eq!(culprit(&longest(4)), expected);
        // An address that is not in the stack: known machinery is skipped by name.
        assert_eq!(culprit(&longest(0x1234)), expected);
        let by = Longest { begun_by: 7, ..longest(4) };
        assert!(culprit(&by).contains("off in _raw_spin_lock+0x1 < driver_lock+0x1; on"), "{}", culprit(&by));
    }

    #[test]
    fn idle_at_either_end_and_a_stack_that_is_missing_are_said_as_what_they_are() {
        let after = Longest { begun: 0, ..longest(4) };
        assert!(culprit(&after).contains(": off since idle; on in _raw"), "{}", culprit(&after));
        assert!(culprit(&longest(0)).ends_with("; on for idle"), "{}", culprit(&longest(0)));
        let bare = Longest { stack: Vec::new(), ..longest(0xabc) };
        assert!(culprit(&bare).ends_with("; on in 0xabc"), "{}", culprit(&bare));
    }

    #[test]
    fn what_is_being_written_is_read_again() {
        let seq = AtomicU64::new(1);
        let attempts = std::cell::Cell::new(0);
        let seen = quiet(&seq, || {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 3 {
                seq.store(2, Relaxed); // consistent, but not before this attempt
            }
            attempts.get()
        });
        assert_eq!(seen, 4);
    }
}
