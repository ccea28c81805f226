//! What others did to a thread while it waited for a CPU.

use super::wakers::expect;

const LOWERED: &str = "
      0 c1 switch idle > hog/80@20
      0 c0 switch idle > tuner/70
    100 c0 waking rt/50@10 c1
    300 c0 call 144 50
    310 c0 ret 144
    700 c1 switch hog/80@20:S > rt/50
    800 c1 switch rt/50:S > idle
    900 c0 switch tuner/70:S > idle
";

#[test]
fn who_lowers_a_waiting_thread_is_named_and_so_is_who_raises_it() {
    let low = LOWERED.replace("rt/50@10", "rt/50@30");
    let said = [
        "after tuner/70 (nice 0) had lowered it from RT 30 to nice 0 (sched_setscheduler)",
        "find why tuner lowers",
    ];
    let explanation = expect(&low, (110, 710), &said, &[]);
    assert_eq!(explanation.cause, "priority lowered by tuner");
    // Until then it should have won: the holder was not preempted.
    let first = expect(&low, (110, 290), &["hog/80 (RT 20), lower in priority"], &["tuner"]);
    assert_eq!(first.unexplained_ns.0, 0);
    let raised = LOWERED
        .replace("rt/50@10", "rt/50")
        .replace("S > rt/50\n", "R > rt/50@30\n")
        .replace("rt/50:S", "rt/50@30:S");
    let said = [
        "had raised it from nice 0 to RT 30 (sched_setscheduler)",
        "hog/80 (RT 20), of equal or higher priority",
    ];
    expect(&raised, (110, 710), &said, &["lowered"]);
}

#[test]
fn a_priority_that_changed_by_nobodys_recorded_doing_blames_no_rank() {
    let unseen = LOWERED
        .replace("rt/50@10", "rt/50@30")
        .replace("300 c0 call 144 50\n", "")
        .replace("310 c0 ret 144", "");
    let said = [
        "its priority having changed from RT 30 to nice 0 meanwhile",
        "sched_pi_setprio, or sys_enter of sched_setscheduler, would tell from whom",
    ];
    expect(&unseen, (110, 710), &said, &["not preempted", "of equal or higher priority", "tuner"]);
}

#[test]
fn the_end_of_a_loan_of_priority_splits_the_wait() {
    let deboosted = "
          0 c1 switch idle > hog/80@20
          0 c0 switch idle > asker/70@95
        100 c0 waking rt/50@95 c1
        300 c0 setprio rt/50 10
        700 c1 switch hog/80@20:S > rt/50@10
        800 c1 switch rt/50@10:S > idle
        900 c0 switch asker/70@95:S > idle
    ";
    let said = [
        "after asker/70 (RT 95) had lowered it from RT 95 to RT 10 (sched_pi_setprio)",
        "hog/80 (RT 20), lower in priority",
    ];
    expect(deboosted, (110, 710), &said, &[]);
}

#[test]
fn who_moves_a_waiting_thread_to_another_cpu_is_named() {
    let moved = "
          0 c1 switch idle > hog/80@98
          0 c0 switch idle > tuner/70@99
        100 c0 waking rt/50@95 c0
        300 c0 call 203 50
        305 c0 migrate rt/50@95 0 1
        310 c0 ret 203
        700 c1 switch hog/80@98:S > rt/50@95
        800 c1 switch rt/50@95:S > idle
        900 c0 switch tuner/70@99:S > idle
    ";
    expect(moved, (110, 710), &["migrated from CPU 0 to CPU 1 by tuner/70 (RT 99) (sched_setaffinity)"], &[]);
    let balanced = moved.replace("300 c0 call 203 50\n", "").replace("310 c0 ret 203\n", "");
    expect(&balanced, (110, 710), &["by the scheduler, in the context of tuner/70"], &["sched_setaffinity)"]);
}

#[test]
fn inheritance_is_advised_only_where_it_can_help() {
    let events = |call: &str| {
        format!(
            "
              0 c0 switch idle > owner/60
              0 c1 switch idle > rt/50@95
              5 c1 call {call}
             10 c1 switch rt/50@95:S > idle
            100 c0 switch owner/60:R > hog/80@20
            700 c0 switch hog/80@20:S > owner/60
            750 c0 waking rt/50@95
            760 c1 switch idle > rt/50@95
            800 c1 switch rt/50@95:S > idle
            900 c0 switch owner/60:S > idle
        "
        )
    };
    let inversion = "priority inversion: hog/80 (RT 20) is below rt/50 (RT 95)";
    expect(
        &events("202 4096 0 2"),
        (20, 770),
        &[inversion, "use a priority-inheritance lock, or raise"],
        &[],
    );
    expect(&events("202 4096 9"), (20, 770), &[inversion, "if it waits for a mutex, use one"], &[]);
    let no = ["use a priority-inheritance lock", "use one with priority inheritance"];
    for call in ["0 3", "202 4096 6"] {
        expect(
            &events(call),
            (20, 770),
            &[inversion, "no lock can inherit away: raise owner above hog"],
            &no,
        );
    }
}

#[test]
fn who_runs_by_deadline_is_not_advised_to_be_lowered() {
    let events = |victim: &str| {
        format!(
            "
          0 c1 switch idle > dl/80@100
          0 c0 switch idle > any/70
        100 c0 waking {victim} c1
        700 c1 switch dl/80@100:S > {victim}
        800 c1 switch {victim}:S > idle
        900 c0 switch any/70:S > idle
    "
        )
    };
    expect(
        &events("rt/50@95"),
        (110, 710),
        &["dl/80 (DL)", "before all other classes: reduce"],
        &["lower the priority"],
    );
    expect(&events("rt/50@100"), (110, 710), &["the earlier deadline first"], &["lower the priority"]);
}
