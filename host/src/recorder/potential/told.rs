//! The longest potential latency as reported: the task, and the place in the kernel.

use lathunt_core::peak::Peak;
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Cpu, Mono};

use super::block::Longest;

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

/// `name`: of an address in the kernel.
pub(super) fn peak(
    longest: &Longest,
    cpu: Cpu,
    quantity: Quantity,
    name: &dyn Fn(u64) -> Option<String>,
) -> Peak {
    let thread = Thread { tid: longest.tid, comm: longest.comm.text(), prio: Some(longest.prio) };
    let named = |address: u64| name(address).unwrap_or_else(|| format!("{address:#x}"));
    let stack: Vec<String> = switched_on(longest, name).iter().take(SHOWN).map(|&at| named(at)).collect();
    let begun = match (longest.begun, longest.begun_by) {
        (0, _) => "since idle".to_owned(),
        (at, by) if by == 0 || by == at => format!("in {}", named(at)),
        (at, by) => format!("in {} < {}", named(at), named(by)),
    };
    let ended = match (longest.ended, stack.is_empty()) {
        (0, _) => "for idle".to_owned(),
        (at, true) => format!("in {}", named(at)),
        (_, false) => format!("in {}", stack.join(" < ")),
    };
    Peak {
        quantity,
        cpu,
        begin: Mono(longest.at.0.saturating_sub(longest.ns.0)),
        total_ns: longest.ns,
        victim: Thread::default(),
        culprit: Some(format!("{thread}: off {begun}; on {ended}")),
        explanation: None,
        no_evidence: Some("a potential latency: possibly no task waited".to_owned()),
        context: None,
        during_action: false,
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
    use lathunt_core::comm::Comm;
    use lathunt_core::time::{Ns, Prio, Tid};

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
        let peak = peak(longest, Cpu(0), Quantity::Preemptoff, &name);
        assert_eq!((peak.begin, peak.total_ns), (Mono(94_500), Ns(5_500)));
        peak.culprit.unwrap()
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
}
