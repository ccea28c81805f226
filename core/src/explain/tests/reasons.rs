//! The reason of a block and the cause of the wake-up: only if the events show them.

use super::notation;
use super::wakers::expect;
use crate::time::{Mono, Tid};
use crate::trace::window::Overdue;

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

#[test]
fn who_ends_a_sleep_that_is_over_does_not_answer_for_its_late_timer() {
    let events = "
          0 c1 switch idle > rt/50@95
          0 c0 switch idle > helper/60
        100 c1 switch rt/50@95:S > hog/70
        700 c0 waking rt/50@95
        703 c0 signal rt/50@95 10
        790 c1 vec+ local_timer
        791 c1 timer+ hrtimer_wakeup 400
        792 c1 timer-
        795 c1 vec- local_timer
        800 c1 switch hog/70:R > rt/50@95
        900 c1 switch rt/50@95:S > idle
        900 c0 switch helper/60:S > idle
    ";
    let mut window = notation::window(events);
    let by_signal = super::told(&window, 50, 850).sentence;
    assert!(by_signal.contains("600 µs") && by_signal.contains("helper/60"), "{by_signal}");
    let at = |us: u64| Mono(us * 1_000);
    window.overdue.push(Overdue { tid: Tid(50), due: at(390), expires: at(400), woken: at(700) });
    let told = super::told(&window, 50, 850);
    assert!(told.tree.adds_up() && !told.cause.contains("helper"), "{told:?}");
    let said = ["slept 290 µs (36 %) as requested;", "overslept by 300 µs"];
    assert!(said.iter().all(|said| told.sentence.contains(said)), "{}", told.sentence);
    assert!(told.tree.all_gaps().iter().any(|gap| gap.label.contains("while hog/70")), "{:?}", told.tree);
    let events = events.replace("792 c1 timer-", &format!("791 c1 stack hog/70 kernel {OFF}\n792 c1 timer-"));
    let overdue = std::mem::replace(&mut window, notation::window(&events)).overdue;
    window.overdue = overdue;
    let told = super::told(&window, 50, 850);
    let said =
        "its timer came late: hog/70 (nice 0) kept interrupts off on CPU 1, in vnd_ioctl, for 300 µs (38 %)";
    assert!(told.sentence.contains(said), "{}", told.sentence);
    assert_eq!(told.cause, "irqs off: hog");
}

/// Kernel stack of a timer interrupt that came when `vnd_ioctl` enabled interrupts again.
const OFF: &str = "hrtimer_interrupt asm_sysvec_apic_timer_interrupt _raw_spin_unlock_irqrestore vnd_ioctl";

#[test]
fn what_kept_the_timer_of_a_sleep_back_is_named_whatever_its_name() {
    let events = format!(
        "
          0 c1 switch idle > rt/50@95
         90 c1 arm 390
        100 c1 switch rt/50@95:S > a{{}}b/70
        790 c1 vec+ local_timer
        791 c1 timer+ hrtimer_wakeup 390
        791 c1 stack a{{}}b/70 kernel {OFF}
        792 c1 waking rt/50@95
        793 c1 timer-
        795 c1 vec- local_timer
        800 c1 switch a{{}}b/70:R > rt/50@95
        900 c1 switch rt/50@95:S > idle
    "
    );
    let told = super::told(&notation::window(&events), 390, 850);
    let said = "came late: a{}b/70 (nice 0) kept interrupts off on CPU 1, in vnd_ioctl, for 400 µs (87 %)";
    assert!(told.sentence.contains(said), "{}", told.sentence);
    assert_eq!(told.cause, "irqs off: a{}b");
    let in_user = events.replace(&format!("kernel {OFF}"), "user");
    let told = super::told(&notation::window(&in_user), 390, 850);
    assert_eq!(
        (told.cause.as_str(), told.advice.contains("lathunt hwlat")),
        ("timer late", true),
        "{told:?}"
    );
}

#[test]
fn beside_a_named_cause_the_rest_of_the_lateness_of_a_timer_has_its_own_size() {
    let events = "
          0 c1 switch idle > rt/50@95
         90 c1 arm 390
        100 c1 switch rt/50@95:S > hog/70
        390 c1 irq+ 25 eth0
        630 c1 irq- 25
        630 c1 irq+ 26 eth1
        690 c1 irq- 26
        690 c1 irq+ 27 eth2
        750 c1 irq- 27
        750 c1 irq+ 28 eth3
        790 c1 irq- 28
        790 c1 vec+ local_timer
        791 c1 timer+ hrtimer_wakeup 390
        792 c1 waking rt/50@95
        793 c1 timer-
        795 c1 vec- local_timer
        800 c1 switch hog/70:R > rt/50@95
        900 c1 switch rt/50@95:S > idle
    ";
    let told = super::told(&notation::window(events), 390, 850).sentence;
    assert!(
        told.contains("its timer came late: hard IRQ 25 (eth0) ran on CPU 1 for 240 µs (52 %)"),
        "{told}"
    );
    assert!(told.contains("; its timer was late by 162 µs (35 %) more"), "{told}");
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
