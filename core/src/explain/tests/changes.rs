//! What others did to a thread while it waited for a CPU.

use super::wakers::expect;
use crate::explain::record::Record;
use crate::explain::{explain_interval, Interval};
use crate::time::{Cpu, Mono, Prio, Tid};
use crate::trace::event::Kind;

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
        "sched_pi_setprio, or sys_enter of sched_setscheduler, would show who changed it",
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
            &[inversion, "priority inheritance cannot fix: raise owner above hog"],
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

#[test]
fn a_cpu_that_goes_offline_is_no_idle_one_that_the_thread_is_kept_from() {
    let moved = "
          0 c1 switch idle > rt/50@80
          0 c0 switch idle > operator/70
         50 c0 offline 1
        100 c1 switch rt/50@80:R > migration/1/26@99
        105 c1 migrate rt/50@80 1 0
        110 c1 switch migration/1/26@99:S > idle
        111 c0 switch operator/70:R > hog/80@90
        700 c0 switch hog/80@90:S > rt/50@80
        800 c0 switch rt/50@80:S > operator/70
        900 c0 switch operator/70:S > idle
    ";
    let said = [
        "migrated from CPU 1 to CPU 0: CPU 1 was taken offline by operator/70 (nice 0) (cpuhp_enter at",
        "occupied by hog/80 (RT 90), while CPU 1 was taken offline by operator/70 (nice 0)",
        "take no CPU offline while rt has to run",
    ];
    expect(moved, (10, 750), &said, &["pinned", "was idle"]);
    // Back online it could have run there.
    let back = moved.replace("111 c0 switch", "106 c0 online 1\n 111 c0 switch");
    let said = ["while CPU 1 was idle: why it was not migrated is not recorded"];
    expect(&back, (112, 750), &said, &["pinned", "while CPU 1 was taken"]);
    // Without these events only the thread that takes CPUs offline shows.
    let unseen = moved
        .replace("50 c0 offline 1", "")
        .replace("0 c1 switch idle > rt/50@80", "0 c1 switch cpuhp/1/24:S > idle")
        .replace("100 c1 switch rt/50@80:R >", "100 c1 switch idle >")
        .replace("105 c1 migrate rt/50@80 1 0", "105 c0 waking rt/50@80 c0")
        .replace(" 0 c1 switch", " 0 c1 switch idle > cpuhp/1/24\n 1 c1 switch");
    expect(&unseen, (106, 750), &["while CPU 1 was idle, or going offline"], &["pinned"]);
}

#[test]
fn of_a_chain_of_locks_each_owner_is_known_by_its_own_priority() {
    let chain = "
          0 c0 switch idle > low/50@10
          0 c1 switch idle > mid/60@20
         10 c0 switch low/50@10:R > hog/90@50
         20 c1 call 202 8192 6
         22 c1 setprio low/50 20
         30 c1 switch mid/60@20:S > rt/70@80
        100 c1 call 202 4096 6
        102 c1 setprio mid/60 80
        104 c1 setprio low/50 80
        110 c1 switch rt/70@80:S > idle
        150 c0 switch hog/90@50:R > low/50@80
        400 c0 waking mid/60@80
        410 c0 setprio low/50 10
        420 c1 switch idle > mid/60@80
        600 c1 waking rt/70@80
        610 c1 setprio mid/60 20
        620 c1 switch mid/60@20:R > rt/70@80
        700 c1 switch rt/70@80:S > mid/60@20
        900 c0 switch low/50@10:S > hog/90@50
    ";
    let mut window = super::notation::window(chain);
    // The notation knows no former priority.
    let mut now = std::collections::HashMap::from([(50, Prio::from_rt(10)), (60, Prio::from_rt(20))]);
    for event in &mut window.events {
        if let Kind::PiSetprio { task, old, new } = &mut event.kind {
            *old = now.insert(task.tid.0, *new).unwrap();
        }
    }
    let interval = Interval { tid: Tid(70), cpu: Cpu(1), begin: Mono(90_000), end: Mono(650_000) };
    let explanation = explain_interval(&Record::new(&window), &interval);
    let told = format!("{} {:?} {:?}", explanation.sentence, explanation.tree, explanation.limits);
    for words in [
        "held by mid/60 (RT 80), which is RT 20 by itself and was boosted to RT 80",
        "which is RT 10 by itself and was boosted to RT 80",
        "hog/90 (RT 50), lower in priority",
    ] {
        assert!(told.contains(words), "'{words}' in {told}");
    }
    assert!(explanation.tree.adds_up() && !told.contains("would show who changed it"), "{told}");
}

#[test]
fn on_a_preemptible_kernel_no_other_kernel_is_advised() {
    let events = "
          0 c1 switch idle > low/80@20
         50 c1 call 0 3
        100 c0 waking rt/50@95 c1
        700 c1 switch low/80@20:R > rt/50@95
        800 c1 switch rt/50@95:S > idle
    ";
    let full = ["in read, with preemption off", "find where low has preemption off"];
    expect(events, (110, 710), &full, &["a kernel with full preemption", "not preemptible there"]);
    let none = events.replace("0 c1 switch idle", "0 c1 preemption none\n 0 c1 switch idle");
    expect(
        &none,
        (110, 710),
        &["in read, kernel not preemptible there", "preempt=full"],
        &["with preemption off"],
    );
}

const BOOSTED: &str = "
      0 c1 switch idle > low/80
      0 c0 switch idle > asker/70@80
    100 c0 setprio low/80 80
    200 c0 waking rt/50@50 c1
    500 c1 setprio low/80 back 80
    520 c1 switch low/80:R > rt/50@50
    600 c1 switch rt/50@50:S > idle
    700 c0 switch asker/70@80:S > idle
";

#[test]
fn who_was_lent_a_priority_from_another_cpu_has_the_cpu_by_right_as_long_as_it_has_it() {
    let lent = "300.0 57.7 +10.0 low/80 (RT 80), of equal or higher priority";
    let own = "20.0 3.8 +310.0 low/80 (nice 0), lower in priority, runs: not preempted";
    expect(BOOSTED, (190, 710), &[lent, own], &[]);
    // The loan began before the record does.
    expect(&BOOSTED.replace("100 c0 setprio low/80 80\n", ""), (190, 710), &[lent, own], &[]);
    // It begins while the victim waits.
    let later = BOOSTED.replace("100 c0 setprio", "300 c0 setprio");
    let said = [
        "200.0 38.5 +110.0 low/80 (RT 80), of equal or higher priority",
        "low/80 (nice 0), lower in priority",
    ];
    expect(&later, (190, 710), &said, &[]);
}

#[test]
fn who_lowered_a_running_thread_so_that_another_took_its_cpu_is_named() {
    let events = "
          0 c1 switch idle > rt/50@40
          0 c0 switch idle > boss/70
        100 c0 call 144 50
        105 c0 ret 144
        110 c1 switch rt/50:R > hog/80@10
        900 c1 switch hog/80@10:S > rt/50
       1000 c1 switch rt/50:S > idle
        999 c0 switch boss/70:S > idle
    ";
    let said = ["after boss/70 (nice 0) had lowered it from RT 40 to nice 0 (sched_setscheduler)"];
    let explanation = expect(events, (50, 950), &said, &[]);
    assert_eq!(explanation.cause, "priority lowered by boss");
    // The preempting task would have preempted anyway, or the priority is unchanged since its wake-up.
    expect(&events.replace("hog/80@10", "hog/80@60"), (50, 950), &["hog/80"], &["lowered"]);
    expect(&events.replace("rt/50@40", "rt/50"), (50, 950), &["hog/80"], &["lowered"]);
}

/// `tuner` raises `hog`, which then takes CPU 1 from `rt`.
const RAISED: &str = "
      0 c1 switch idle > hog/80
      0 c0 switch idle > tuner/70
     50 c1 switch hog/80:R > rt/50@60
    300 c0 call 144 80 1
    301 c1 switch rt/50@60:R > hog/80@70
    310 c0 ret 144
    700 c0 call 144 80 0
    701 c1 switch hog/80:R > rt/50@60
    710 c0 ret 144
    800 c1 switch rt/50@60:S > idle
    900 c0 switch tuner/70:S > idle
";

#[test]
fn who_raises_the_thread_that_takes_the_cpu_is_named() {
    let said = [
        "occupied by hog/80 (RT 70), raised from nice 0 to RT 70 by tuner/70 (nice 0) (sched_setscheduler at",
        "find why hog is raised above rt",
    ];
    expect(RAISED, (100, 750), &said, &[]);
    let unseen = RAISED.replace("300 c0 call 144 80 1\n", "");
    expect(&unseen, (100, 750), &["occupied by hog/80 (RT 70)"], &["raised", "tuner"]);
    let of_another = RAISED.replace("300 c0 call 144 80 1", "300 c0 call 144 81 1");
    expect(&of_another, (100, 750), &["occupied by hog/80 (RT 70)"], &["raised", "tuner"]);
}

#[test]
fn a_thread_that_yields_gave_way_itself() {
    let yields = RAISED
        .replace("hog/80@70", "hog/80@60")
        .replace("hog/80:R > rt/50@60\n    710", "hog/80@60:S > rt/50@60\n    710")
        .replace("300 c0 call 144 80 1", "300 c1 call 24");
    let said =
        ["occupied by hog/80 (RT 60), to which it gave way by sched_yield", "let rt not call sched_yield"];
    expect(&yields, (100, 750), &said, &["raised from", "SCHED_RR"]);
}

#[test]
fn who_writes_the_cpuset_moves_the_thread_itself_or_by_the_stopper() {
    let at_once = "
          0 c0 switch idle > hog/80@70
          0 c1 switch idle > rt/50@60
        100 c1 switch rt/50@60:R > admin/70@75
        110 c1 call 1 5
        120 c1 migrate rt/50@60 1 0
        130 c1 ret 1
        140 c1 switch admin/70@75:S > idle
        700 c0 switch hog/80@70:S > rt/50@60
        800 c0 switch rt/50@60:S > idle
    ";
    let said = [
        "migrated from CPU 1 to CPU 0 by admin/70 (RT 75) (write: its cpuset was changed)",
        "to which admin/70 (RT 75) (write: its cpuset was changed) had moved it from CPU 1",
        "while CPU 1 was idle: its affinity was changed",
    ];
    expect(at_once, (50, 750), &said, &["by the scheduler", "is not recorded"]);
    // The scheduler itself moves it in the context of any thread, but to no CPU with a task of higher priority.
    let low = at_once.replace("hog/80@70", "hog/80@10");
    expect(&low, (50, 750), &["by the scheduler, in the context of admin/70"], &["cpuset"]);
    let by_stopper = "
          0 c0 switch idle > admin/70@75
          0 c1 switch idle > rt/50@60
        100 c0 call 1 5
        110 c0 waking migration/1/20@99 c1
        112 c1 switch rt/50@60:R > migration/1/20@99
        115 c0 switch admin/70@75:D > hog/80@70
        120 c1 migrate rt/50@60 1 0
        125 c1 waking admin/70@75 c0
        126 c0 switch hog/80@70:R > admin/70@75
        127 c0 ret 1
        130 c0 switch admin/70@75:S > hog/80@70
        140 c1 switch migration/1/20@99:S > idle
        700 c0 switch hog/80@70:S > rt/50@60
        800 c0 switch rt/50@60:S > idle
    ";
    expect(by_stopper, (50, 750), &said[1..], &["by the scheduler"]);
    // A stopper that the writer does not wait for moved it for the scheduler.
    let balanced = by_stopper.replace("125 c1 waking admin", "125 c0 waking admin");
    expect(&balanced, (50, 750), &["migrated from CPU 1 to CPU 0"], &["cpuset"]);
    // Without system calls either may be the reason; the migration itself and the wake-up of the mover may be missing.
    let no_calls = by_stopper.replace("        100 c0 call 1 5\n", "").replace("        127 c0 ret 1\n", "");
    let by_either =
        ["to which admin/70 (RT 75) (a change of its affinity or cpuset) had moved it from CPU 1"];
    expect(&no_calls, (50, 750), &by_either, &["by the scheduler", "is not recorded"]);
    let hidden = no_calls.replace("        120 c1 migrate rt/50@60 1 0\n", "");
    let hidden = hidden.replace("        125 c1 waking admin/70@75 c0\n", "");
    expect(&hidden, (50, 750), &by_either, &["is not recorded"]);
    // On its own CPU the scheduler asks for the stopper, too, and a thread may sleep at any time.
    let own = hidden.replace("110 c0 waking migration", "110 c1 waking migration");
    expect(&own, (50, 750), &["occupied by hog/80"], &["to which admin"]);
}
