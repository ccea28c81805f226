//! The reason of a block and the cause of the wake-up: only if the events show them.

use super::notation;
use super::wakers::expect;
use crate::time::{Mono, Tid};

/// `rt/50` takes a page fault and blocks 60 µs later; `between` stands between the two.
fn behind_a_fault(between: &str) -> String {
    format!(
        "
          0 c1 switch idle > rt/50@95
          0 c0 switch idle > child/60
        100 c1 fault 8192
        {between}
        160 c1 switch rt/50@95:D > idle
        700 c0 waking rt/50@95
        710 c1 switch idle:R > rt/50@95
        900 c1 switch rt/50@95:S > idle
        900 c0 switch child/60:S > idle
    "
    )
}

#[test]
fn a_page_fault_is_over_where_the_thread_did_something_else_since() {
    let others = [
        "130 c1 marker vf_begin",
        "130 c1 disk-write+ 777",
        "130 c1 fork rt/50@95 child/61",
        "130 c1 signal other/70 10",
    ];
    for other in others {
        let unsaid = ["in a page fault", "the activity of"];
        expect(&behind_a_fault(other), (50, 800), &["until child/60", "blocked 540 µs"], &unsaid);
    }
    // A handler that interrupts the fault is not the thread.
    let by_interrupt = "120 c1 irq+ 26 disk \n 130 c1 disk-write+ 777 \n 135 c1 irq- 26";
    expect(&behind_a_fault(by_interrupt), (50, 800), &["perhaps in a page fault"], &[]);
}

#[test]
fn a_page_fault_that_read_nothing_is_named_with_a_perhaps() {
    let said = ["BLOCKED, perhaps in a page fault on memory at address 0x2000", "or in a system call"];
    let told = expect(&behind_a_fault(""), (50, 800), &said, &["blocked 540 µs in a page fault"]);
    assert_ne!(told.cause, "page fault");
    let read = "130 c1 disk+ 777";
    // The recorder knows that it blocked in the fault.
    let mut known = notation::window(&behind_a_fault(""));
    known.in_faults.push((Tid(50), Mono(160_000)));
    let sentence = super::told(&known, 50, 800).sentence;
    assert!(sentence.contains("in a page fault on memory") && !sentence.contains("perhaps"), "{sentence}");
    let told = expect(&behind_a_fault(read), (50, 800), &["in a page fault on memory"], &["perhaps"]);
    assert!(!told.limits.iter().any(|limit| limit.contains("system call")), "{:?}", told.limits);
}

/// `helper/60` wakes `rt/50`, followed by `signal`.
fn woken_beside(signal: &str) -> String {
    format!(
        "
          0 c1 switch idle > rt/50@95
          0 c0 switch idle > helper/60
        100 c1 switch rt/50@95:S > idle
        700 c0 waking rt/50@95
        703 c0 {signal}
        710 c1 switch idle:R > rt/50@95
        900 c1 switch rt/50@95:S > idle
        900 c0 switch helper/60:S > idle
    "
    )
}

#[test]
fn a_signal_wakes_whom_it_is_for_if_it_was_sent() {
    expect(&woken_beside("signal rt/50@95 10"), (50, 800), &["woke it with signal 10 (SIGUSR1)"], &[]);
    for none in ["signal other/70 10", "signal rt/50@95 10 1", "signal rt/50@95 10 2"] {
        expect(&woken_beside(none), (50, 800), &["until helper/60 (nice 0) woke it"], &["signal"]);
    }
}
