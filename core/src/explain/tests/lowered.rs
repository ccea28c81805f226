//! A thread that lowers its own priority.

use super::wakers::expect;

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
