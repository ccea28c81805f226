//! Parts of an explanation besides the tree: evidence, stacks, limits.

use super::super::text::{render, Options};
use super::super::{explain_wakeup, WakeInterval};
use super::{explained, notation};
use crate::time::{Cpu, Mono, Tid};

const LATE: &str = "
  0   c1 switch idle > vnd/812
510   c1 vec+ local_timer
511   c1 timer+ hrtimer_wakeup 100
512   c1 waking rt/50@95
512   c1 stack vnd/812 kernel asm_sysvec_apic_timer_interrupt _raw_spin_unlock_irqrestore vnd_ioctl
513   c1 timer-
514   c1 vec- local_timer
515   c1 switch vnd/812:R > rt/50@95
516   c1 other mark
";

#[test]
fn every_explained_leaf_names_the_event_that_proves_it() {
    let explanation = explained(&notation::window(LATE), 100, 516);
    for leaf in explanation.tree.leaves() {
        assert!(!leaf.evidence.is_empty(), "{leaf:#?}");
    }
    let text = render(&explanation, Options { evidence: true, stacks: true });
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "by sched_switch idle (R) => vnd/812 (nice 0) on CPU 1 at 0.000000000",
        "by kernel stack taken in the timer's interrupt on CPU 1 at 0.000512000",
        "stack: _raw_spin_unlock_irqrestore < vnd_ioctl",
        "by hrtimer_expire_entry hrtimer_wakeup on CPU 1 at 0.000511000",
        "by sched_waking rt/50 (RT 95) on CPU 1 at 0.000512000",
    ] {
        assert!(text.contains(told), "{told} is not in\n{text}");
    }
}

#[test]
fn evidence_that_begins_late_or_ends_early_is_a_limit_and_a_gap() {
    let mut window = notation::window(LATE);
    window.complete_from.insert(Cpu(1), Mono(150_000));
    let explanation = explained(&window, 100, 530);
    assert!(explanation.limits.contains(&"the record of CPU 1 starts 50.0 µs too late".to_owned()));
    assert!(explanation.limits.contains(&"the record ends 14.0 µs too early".to_owned()));
    assert_eq!(explanation.unexplained_ns.0, 64_000);
}

#[test]
fn the_time_before_recording_is_no_loss_of_events() {
    let mut window = notation::window(
        "
        100   c1 waking rt/50@95
        350   c1 switch hog/99@98:S > other/8
        400   c1 switch other/8:S > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
    );
    window.complete_from.insert(Cpu(1), Mono(300_000));
    let cause_of = |window: &_| {
        let (begin, end) = (Mono(100_000), Mono(400_000));
        let explanation = explain_wakeup(window, &WakeInterval { tid: Tid(50), cpu: Cpu(1), begin, end });
        assert!(explanation.sentence.contains(&explanation.cause), "{}", explanation.sentence);
        explanation.cause
    };
    assert_eq!(cause_of(&window), "events lost");
    window.began = Some(Mono(301_000));
    assert_eq!(cause_of(&window), "before recording began");
    // The ring has been overwritten since.
    window.complete_from.insert(Cpu(1), Mono(310_000));
    assert_eq!(cause_of(&window), "events lost");
}

#[test]
fn an_empty_window_explains_nothing_and_says_so() {
    let explanation = explained(&crate::trace::window::Window::default(), 100, 530);
    assert_eq!(explanation.unexplained_ns, explanation.total_ns);
    assert_eq!(explanation.cause, "unexplained");
    assert!(
        explanation.limits.contains(&"nothing was recorded on CPU 1".to_owned()),
        "{:?}",
        explanation.limits
    );
}
