//! A thread that lowers its own priority.

use super::wakers::expect;
use super::{explained, notation, told};
use crate::trace::window::Window;

/// sched_setscheduler and setpriority of 0: the caller itself.
#[test]
fn a_thread_that_lowered_itself_is_told_so() {
    let events = "
          0 c0 switch idle > rt/50@80
         50 c0 call 1 3
         60 c0 call 144 0 1
         65 c0 ret 144
        100 c0 waking hog/80@60 c0
        110 c0 switch rt/50@40:R > hog/80@60
        700 c0 switch hog/80@60:S > rt/50@40
        800 c0 switch rt/50@40:S > idle
    ";
    let said = [
        "occupied by hog/80 (RT 60), after it had lowered itself from RT 80 to RT 40 (sched_setscheduler)",
        "let rt not lower its own priority here",
    ];
    let explanation = expect(events, (50, 710), &said, &[]);
    assert_eq!(explanation.cause, "priority lowered by itself");
    // After a sleep, too; and by another call on another thread it is not its own doing.
    let slept = events.replace(
        "110 c0 switch rt/50@40:R > hog/80@60",
        "105 c0 switch rt/50@40:S > idle\n110 c0 switch idle > hog/80@60\n200 c0 waking rt/50@40 c0",
    );
    let said = ["after it had lowered itself from RT 80 to RT 40"];
    expect(&slept, (50, 710), &said, &[]);
    expect(
        &events.replace("call 144 0 1", "call 144 80 1"),
        (50, 710),
        &["occupied by hog/80"],
        &["lowered itself"],
    );
    // The hog would have had the CPU anyway.
    expect(
        &events.replace("hog/80@60", "hog/80@90"),
        (50, 710),
        &["occupied by hog/80"],
        &["lowered itself"],
    );
    let fair = events
        .replace("rt/50@80", "rt/50")
        .replace("rt/50@40:R", "rt/50@-40:R")
        .replace("rt/50@40", "rt/50@-40")
        .replace("hog/80@60", "hog/80");
    expect(
        &fair,
        (50, 710),
        &["shared CPU 0 with hog/80 (nice 0)", "after it had lowered itself from nice 0"],
        &[],
    );
}

/// In a record without the calls that set priorities, the priorities at the switches show it.
#[test]
fn a_priority_that_was_lowered_by_an_unrecorded_call_is_the_cause_of_the_wait() {
    let lowered = "
          0 c0 switch idle > rt/50@80
        100 c0 waking hog/80@60 c0
        110 c0 switch rt/50@-20:R > hog/80@60
        700 c0 switch hog/80@60:S > rt/50@-20
        800 c0 switch rt/50@-20:S > idle
    ";
    let told_of = |events: &str| {
        let window = Window { only_blocking_calls: true, ..notation::window(events) };
        told(&window, 50, 790)
    };
    let explanation = told_of(lowered);
    let said = "occupied by hog/80 (RT 60), after its priority had been lowered from RT 80 to nice";
    assert!(explanation.sentence.contains(said), "{}", explanation.sentence);
    assert_eq!(explanation.cause, "priority lowered");
    assert!(explanation.advice.contains("which thread lowers the priority of rt"), "{}", explanation.advice);
    // And was raised again while it waited.
    let raised = lowered.replace("hog/80@60:S > rt/50@-20", "hog/80@60:S > rt/50@80");
    let explanation = told_of(&raised);
    assert!(explanation.sentence.contains("been lowered from RT 80 to nice"), "{}", explanation.sentence);
    assert!(explanation.sentence.contains("and raised to RT 80 meanwhile"), "{}", explanation.sentence);
    assert_eq!(explanation.cause, "priority lowered");
    // By the end of a boost, it is not.
    let boosted = lowered.replace("100 c0 waking", "90 c0 setprio rt/50 back 80\n100 c0 waking");
    assert_eq!(notation::window(&boosted).events.len(), notation::window(lowered).events.len() + 1);
    assert!(!told_of(&boosted).sentence.contains("lowered"), "{}", told_of(&boosted).sentence);
    // The other one would have had the CPU anyway.
    let above = lowered.replace("hog/80@60", "hog/80@90");
    assert_eq!(told_of(&above).cause, "thread: hog");
}

/// A mutex with a priority ceiling (PTHREAD_PRIO_PROTECT) sets the priority of its owner by a call, and sets it back before
/// the owner leaves the CPU: both switches show the old one.
#[test]
fn a_thread_that_raised_itself_in_its_run_is_not_one_that_is_not_preempted() {
    let events = "
          0 c0 switch idle > owner/60@20
         10 c0 call 144 0 1
         12 c0 ret 144
        100 c0 vec+ local_timer
        101 c0 timer+ hrtimer_wakeup 99
        102 c0 waking rt/50@80 c0
        103 c0 timer-
        104 c0 vec- local_timer
        900 c0 call 144 0 1
        905 c0 switch owner/60@20:R > rt/50@80
       1000 c0 switch rt/50@80:S > idle
    ";
    let said = [
        "waited 801 µs (99 %) for CPU 0, where owner/60 (RT 20) ran with a priority that it had set meanwhile",
        "shorten what it does with it",
    ];
    let explanation = expect(events, (102, 910), &said, &["lower in priority", "not preempted"]);
    assert_eq!(explanation.cause, "thread: owner");
    let by_other = events.replace("10 c0 call 144 0 1", "0 c1 switch idle > boss/70\n10 c1 call 144 60 1");
    expect(&by_other, (102, 910), &["ran with a priority that boss/70 (nice 0) had set"], &["preempted"]);
    // Set at the end of its run only, or in an earlier one: until then it had the priority that its switch-in shows.
    let at_the_end = events.replace("10 c0 call 144 0 1", "").replace("12 c0 ret 144", "");
    expect(&at_the_end, (102, 910), &["owner/60 (RT 20), of lower priority, ran: not preempted"], &[]);
    let earlier = events
        .replace("0 c0 switch idle > owner", "0 c0 switch idle > owner/60@20\n    5 c0 call 144 0 1\n    7 c0 ret 144\n   10 c0 switch owner/60@20:R > other/90@30\n 15 c0 switch other/90@30:S > owner")
        .replace("10 c0 call 144 0 1", "")
        .replace("12 c0 ret 144", "");
    expect(&earlier, (102, 910), &["owner/60 (RT 20), of lower priority, ran: not preempted"], &[]);
    // The recorder of lathunt notes the priority at the waking, here and in its own worst cases.
    let noted = at_the_end.replace("waking rt/50@80 c0", "waking rt/50@80 c0 90");
    let said = ["occupied by owner/60 (RT 90)"];
    expect(&noted, (102, 910), &said, &["lower in priority", "not preempted"]);
    let window = notation::window(&noted.replace("c0", "c1"));
    let live = explained(&window, 99, 905);
    assert!(live.sentence.contains("owner/60 (RT 90)") && live.cause == "thread: owner", "{}", live.sentence);
}

#[test]
fn a_new_thread_has_the_priority_that_its_creator_gave_it_at_once() {
    let events = "
          0 c1 switch idle > hog/80@50
          0 c0 switch idle > rt/50@80
         50 c0 fork rt/50@80 helper/60@80
         52 c0 new helper/60@80 c1
         60 c0 call 144 60
         65 c0 ret 144
        100 c0 switch rt/50@80:S > idle
        700 c1 switch hog/80@50:S > helper/60
        720 c1 waking rt/50@80 c0
        730 c0 switch idle > rt/50@80
        800 c1 switch helper/60:S > idle
    ";
    let said = [
        "helper/60 (nice 0) waited 600 µs (86 %) for CPU 1, occupied by hog/80 (RT 50)",
        "priority inversion",
        "raise helper above hog",
    ];
    expect(events, (40, 740), &said, &["changed", "lowered"]);
}
