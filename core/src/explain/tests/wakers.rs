//! Wakers and parents of threads: with only `sched_wakeup` recorded, and for new threads.

use super::notation;
use super::told;
use crate::explain::Explanation;
use crate::time::Ns;

pub(super) fn expect(events: &str, (begin, end): (u64, u64), said: &[&str], unsaid: &[&str]) -> Explanation {
    let explanation = told(&notation::window(events), begin, end);
    let text = crate::explain::text::render(&explanation, crate::explain::text::Options::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    assert!(said.iter().all(|part| text.contains(part)), "{text}");
    assert!(!unsaid.iter().any(|part| text.contains(part)), "{text}");
    explanation
}

#[test]
fn a_recording_without_sched_waking_leads_to_the_waker_by_sched_wakeup() {
    let events = "
          0 c0 switch idle > helper/60
         10 c1 switch rt/50@95:S > other/70
        100 c0 switch helper/60:R > hog/80@20
        400 c0 switch hog/80@20:S > helper/60
        500 c0 wakeup rt/50@95 c1
        510 c1 switch other/70:R > rt/50@95
        600 c1 switch rt/50@95:S > idle
        600 c0 switch helper/60:S > idle
    ";
    let explanation =
        expect(events, (20, 520), &["until helper/60", "priority inversion: hog/80"], &["not recorded"]);
    assert_eq!(explanation.unexplained_ns.0, 0);
    // The first event of the thread: it slept until then, and did not wait for a CPU.
    let begins_late = events.replace("10 c1 switch rt/50@95:S > other/70", "10 c1 switch any/9:S > other/70");
    expect(&begins_late, (20, 520), &["until helper/60", "priority inversion"], &["by fair scheduling"]);
}

#[test]
fn a_wakeup_that_another_cpu_handed_over_blames_nobody_who_happened_to_run() {
    let events = "
          0 c1 switch idle > rt/50@95
          0 c0 switch idle > helper/60
         10 c1 switch rt/50@95:S > bystander/70
        500 c1 vec+ reschedule
        501 c1 wakeup rt/50@95
        502 c1 vec- reschedule
        510 c1 switch bystander/70:R > rt/50@95
        600 c1 switch rt/50@95:S > idle
        600 c0 switch helper/60:S > idle
    ";
    let said = [
        "sched_wakeup does not record the waker, which may be on another CPU",
        "sched_waking is not recorded",
    ];
    expect(events, (20, 520), &said, &["until bystander", "reschedule woke"]);
    // Inter-processor interrupts are not recorded, and the event does not show its context.
    let unseen = events.replace("500 c1 vec+ reschedule", "").replace("502 c1 vec- reschedule", "");
    expect(&unseen, (20, 520), &said, &["until bystander"]);
    let own = unseen.replace("wakeup rt/50@95", "wakeup rt/50@95 ^thread");
    expect(&own, (20, 520), &["until bystander/70"], &["not recorded: it"]);
    let in_idle = events.replace("bystander/70:R", "idle:R").replace("bystander/70", "idle");
    let in_idle = in_idle.replace("vec+ reschedule", "idle-").replace("502 c1 vec- reschedule", "");
    expect(&in_idle, (20, 520), &said, &["until helper"]);
}

#[test]
fn who_waits_for_a_new_thread_waits_for_its_creator_first() {
    let events = "
          0 c1 switch idle > rt/50@95
          0 c0 switch idle > starter/60
         10 c1 switch rt/50@95:S > idle
        300 c0 fork starter/60 job/61
        310 c0 new job/61
        320 c0 switch starter/60:S > hog/80@20
        400 c0 switch hog/80@20:S > job/61
        500 c0 waking rt/50@95
        510 c1 switch idle:R > rt/50@95
        600 c1 switch rt/50@95:S > idle
        600 c0 switch job/61:S > idle
    ";
    let said = ["until starter/60 (nice 0) created job/61", "job/61 (nice 0) RUNNABLE on CPU 0: created"];
    let explanation = expect(events, (20, 520), &said, &["the activity of"]);
    assert_eq!(explanation.unexplained_ns.0, 0);
    let without_fork = events.replace("300 c0 fork starter/60 job/61", "");
    expect(&without_fork, (20, 520), &said, &["the activity of"]);
    let without_new = events.replace("310 c0 new job/61", "");
    expect(&without_new, (20, 520), &said, &["the activity of"]);
}

/// It was created with the rank of its creator: the one that it gives itself later did not change while it waited.
#[test]
fn a_new_thread_waits_with_the_priority_it_was_created_with() {
    let events = "
          0 c1 switch idle > rt/50@95
          0 c0 switch idle > starter/60
         10 c1 switch rt/50@95:S > idle
        100 c0 fork starter/60 job/61
        110 c0 new job/61
        120 c0 switch starter/60:S > busy/80
        400 c0 switch busy/80:R > job/61
        500 c0 waking rt/50@95
        510 c1 switch idle:R > rt/50@95
        600 c1 switch rt/50@95:S > idle
        600 c0 switch job/61@80:S > idle
    ";
    let explanation = expect(
        events,
        (20, 520),
        &["busy/80 (nice 0)", "shared CPU 0"],
        &["changed from", "changes the priority"],
    );
    assert_eq!(explanation.unexplained_ns.0, 0);
}

#[test]
fn vfork_waits_for_the_child_until_it_runs_another_program() {
    let events = "
          0 c1 switch idle > rt/50@95
        100 c1 call 58
        110 c1 fork rt/50@95 rt/51
        112 c1 new rt/51 c0
        120 c1 switch rt/50@95:D > idle
        121 c0 switch idle > hog/80@20
        400 c0 switch hog/80@20:S > rt/51
        700 c0 waking rt/50@95
        710 c1 switch idle:R > rt/50@95
        720 c1 ret 58
        900 c1 switch rt/50@95:S > idle
        900 c0 switch rt/51:S > idle
    ";
    let said = ["in vfork", "rt/51 (nice 0) RUNNABLE on CPU 0: created", "hog/80 (RT 20)"];
    expect(events, (100, 720), &said, &["the activity of", "page fault"]);
}

#[test]
fn a_number_that_is_used_again_does_not_inherit_the_former_threads_call() {
    let events = "
          0 c1 switch idle > old/50
         10 c1 call 231
         20 c1 switch old/50:X > idle
        100 c0 switch idle > starter/60
        110 c0 fork starter/60 rt/50@95
        112 c0 new rt/50@95 c1
        130 c1 switch idle > rt/50@95
        140 c1 switch rt/50@95:S > idle
        500 c0 waking rt/50@95
        510 c1 switch idle > rt/50@95
        600 c1 switch rt/50@95:S > idle
        600 c0 switch starter/60:S > idle
    ";
    expect(events, (135, 520), &["until starter/60"], &["exit_group", "has ended"]);
    expect(events, (15, 520), &["until starter/60", "has ended"], &["in exit_group"]);
}

#[test]
fn a_page_that_another_thread_provides_is_a_page_fault_too() {
    let events = "
          0 c1 switch idle > rt/50@95
          0 c0 switch idle > pager/60
        100 c1 fault 8192
        110 c1 switch rt/50@95:S > idle
        300 c0 call 16 5 3223890435
        310 c0 waking rt/50@95
        320 c0 ret 16
        330 c1 switch idle > rt/50@95
        600 c1 switch rt/50@95:S > idle
        600 c0 switch pager/60:S > idle
    ";
    expect(events, (50, 400), &["in a page fault on memory at address 0x2000", "pager/60"], &[]);
    let other_call = events.replace("call 16 5 3223890435", "call 16 5 21505");
    expect(&other_call, (50, 400), &["until pager/60"], &["in a page fault", "userfaultfd"]);
    // As recordings without these calls have it.
    let hidden = events.replace("300 c0 call 16 5 3223890435", "").replace("320 c0 ret 16", "");
    let said = [
        "would show whether it waited in the fault, for a page that pager/60 (nice 0) provides (userfaultfd)",
    ];
    expect(&hidden, (50, 400), &said, &["in a page fault on"]);
    let later = hidden.replace("110 c1 switch", "305 c1 switch");
    expect(&later, (50, 400), &["rt/50 (RT 95) BLOCKED"], &["userfaultfd"]);
}

#[test]
fn a_thread_woken_on_its_way_to_sleep_waits_for_the_cpu_and_is_not_blocked() {
    let events = "
          0 c1 switch idle > rt/50@95
          0 c0 switch idle > helper/60
        100 c0 waking rt/50@95 c1
        102 c1 switch rt/50@95:S > hog/70@97
        104 c0 wakeup rt/50@95
       5104 c1 switch hog/70@97:S > rt/50@95
       5200 c1 switch rt/50@95:S > idle
    ";
    let explanation = expect(events, (102, 5104), &["hog/70"], &["blocked", "helper"]);
    assert_eq!(explanation.unexplained_ns.0, 0);
    expect(&events.replace("104 c0 wakeup rt/50@95", ""), (102, 5104), &["hog/70"], &["blocked"]);
}

#[test]
fn a_thread_that_may_have_run_among_lost_events_is_not_blocked_until_it_was_woken() {
    let events = "
          0 c0 switch idle > rt/50@95
          0 c1 switch idle > helper/60
        100 c0 switch rt/50@95:S > idle
      90000 c0 lost 40
      90000 c0 other marker
     100000 c1 waking rt/50@95 c0
     100010 c0 switch idle > rt/50@95
     100100 c0 switch rt/50@95:S > idle
    ";
    let explanation = expect(events, (100, 100_010), &["until helper/60"], &["99.900 ms"]);
    assert!(explanation.unexplained_ns.0 >= 89_900_000, "{explanation:#?}");
    let elsewhere = events.replace("90000 c0", "90000 c2");
    let explanation = expect(&elsewhere, (100, 100_010), &["until helper/60"], &[]);
    assert_eq!(explanation.unexplained_ns.0, 0);
}

#[test]
fn a_request_completed_in_an_interrupt_on_top_of_the_waker_is_not_the_wakers() {
    let events = "
          0 c1 switch idle > rt/50@95
          0 c0 switch idle > writer/60
          5 c0 disk+ 4096
         10 c1 switch rt/50@95:S > idle
        480 c0 irq+ 36 virtio1
        481 c0 soft-raise BLOCK
        482 c0 irq- 36
        483 c0 soft+ BLOCK
        485 c0 disk- 4096
        487 c0 soft- BLOCK
        500 c0 waking rt/50@95
        510 c1 switch idle > rt/50@95
        600 c1 switch rt/50@95:S > idle
        600 c0 switch writer/60:S > idle
    ";
    expect(events, (20, 520), &["until writer/60"], &["disk", "request", "block I/O"]);
    let in_line = events.replace("483 c0 soft+ BLOCK", "").replace("487 c0 soft- BLOCK", "");
    expect(
        &in_line.replace("485 c0", "481.5 c0"),
        (20, 520),
        &["until writer/60"],
        &["request", "block I/O"],
    );
    // Neither entry nor exit is recorded, but the event shows its context.
    let by_flags = in_line.replace("480 c0 irq+ 36 virtio1", "").replace("482 c0 irq- 36", "");
    let by_flags = by_flags.replace("disk- 4096", "disk- 4096 ^soft").replace("481 c0 soft-raise BLOCK", "");
    expect(&by_flags, (20, 520), &["until writer/60"], &["request", "block I/O"]);
    let own = by_flags.replace(" ^soft", "");
    expect(&own, (20, 520), &["block I/O"], &[]);
}

/// A sleep of 400 µs whose timer was due at 410 and came at 900.
const LATE_SLEEP: &str = "
      0 c1 switch idle > rt/50@95
      8 c1 arm 410
     10 c1 switch rt/50@95:S > other/70
    900 c1 vec+ local_timer
    901 c1 timer+ hrtimer_wakeup
    903 c1 waking rt/50@95
    905 c1 timer-
    906 c1 vec- local_timer
    910 c1 switch other/70:R > rt/50@95
   1000 c1 switch rt/50@95:S > idle
";

#[test]
fn a_late_timer_is_no_wanted_sleep_by_whatever_its_expiry_is_known() {
    let slept = ["slept 390 µs (44 %) as requested", "timer late"];
    expect(LATE_SLEEP, (20, 915), &slept, &["not recorded: "]);
    // The handler's event tells it, and no arming is recorded.
    let unarmed = LATE_SLEEP.replace("8 c1 arm 410", "");
    let by_handler = unarmed.replace("timer+ hrtimer_wakeup", "timer+ hrtimer_wakeup 410");
    expect(&by_handler, (20, 915), &slept, &["how late"]);
    // On another clock, whose time is in the handler's event.
    let by_now = LATE_SLEEP
        .replace("arm 410", "arm 99000000410")
        .replace("timer+ hrtimer_wakeup", "timer+ hrtimer_wakeup - 99000000901");
    expect(&by_now, (20, 915), &slept, &["how late"]);
    // Of a timer with slack that came within it, it is known that it was not late.
    let slack = LATE_SLEEP.replace("arm 410", "arm 1100 800");
    expect(&slack, (20, 915), &["slept 780 µs", "longer than requested, by its timer slack"], &["how late"]);
}

#[test]
fn of_a_sleep_whose_expiry_is_not_recorded_nothing_is_claimed() {
    let unknown = LATE_SLEEP.replace("8 c1 arm 410", "");
    let said = ["until its own timer woke it", "the lateness of the timer is not recorded"];
    expect(&unknown, (20, 915), &said, &["as it wanted", "asked for it", "timer late"]);
    let of_another = LATE_SLEEP
        .replace("timer+ hrtimer_wakeup", "timer+ posix_timer_fn")
        .replace("8 c1 arm 410", "8 c0 runs maker/60\n 9 c0 arm 99000000000");
    expect(&of_another, (20, 915), &["until it fired: its lateness is not recorded"], &["until it expired"]);
}

#[test]
fn a_cpu_on_which_a_thread_was_woken_is_not_idle_until_its_first_event() {
    let events = "
          0 c1 switch idle > rt/50@95
          0 c2 switch any/9:S > idle
         10 c1 switch rt/50@95:S > idle
        100 c2 vec+ local_timer
        102 c2 waking writer/60 c2
        103 c2 wakeup writer/60 c2
        105 c2 vec- local_timer
       1199 c2 runs writer/60
       1200 c2 waking rt/50@95 c1
       1205 c2 wakeup rt/50@95 c1
       1210 c1 switch idle > rt/50@95
       1300 c1 switch rt/50@95:S > idle
       1400 c2 switch writer/60:S > idle
    ";
    let said = ["unexplained", "until writer/60"];
    let explanation = expect(events, (20, 1250), &said, &["CPU 2 took", "CPU 2 idle"]);
    assert!(explanation.unexplained_ns.0 > 1_000_000, "{explanation:#?}");
    // The interrupt that woke it had ended the idle state, whenever the switch came.
    let late = events.replace("1199 c2 runs writer/60", "1190 c2 switch idle > writer/60");
    let explanation =
        expect(&late, (20, 1250), &["CPU 2 was awake when writer/60"], &["to wake up from idle"]);
    assert_eq!(explanation.unexplained_ns.0, 1_085_000);
    // Nor if another thread waits elsewhere meanwhile, or if its next known event is its next wake-up.
    let meanwhile = "
          0 c1 switch idle > hog/80@98
          0 c2 switch any/9:S > idle
        100 c1 waking rt/50@95 c1
        110 c2 vec+ local_timer
        112 c2 waking writer/60 c2
        113 c2 wakeup writer/60 c2
        115 c2 vec- local_timer
       1100 c2 vec+ local_timer
       1112 c2 waking writer/60 c2
       1115 c2 vec- local_timer
       1120 c1 switch hog/80@98:S > rt/50@95
       1300 c1 switch rt/50@95:S > idle
    ";
    expect(meanwhile, (100, 1200), &["occupied by hog/80"], &["while CPU 2 was idle"]);
    let idle = meanwhile
        .replace("1100 c2", "116 c2 switch idle > writer/60\n 118 c2 switch writer/60:S > idle\n 1100 c2");
    expect(&idle, (100, 1200), &["while CPU 2 was idle"], &[]);
}

#[test]
fn page_faults_are_summed_up_and_part_no_cause() {
    let events = "
          0 c1 switch idle > rt/50@95
        100 c1 faults 30
        101 c1 switch rt/50@95:R > hog/80@98
        200 c1 switch hog/80@98:S > rt/50@95
        300 c1 faults 41
        301 c1 switch rt/50@95:R > hog/80@98
        400 c1 switch hog/80@98:S > rt/50@95
        500 c1 switch rt/50@95:S > idle
    ";
    let said = ["itself, with 71 page faults (counted here)", "rt/50 (RT 95) itself, with 30 page faults"];
    let explanation = expect(events, (10, 450), &said, &["with 41 page faults (counted here)"]);
    let leaves = explanation.tree.leaves();
    let faults: Vec<u32> = leaves.iter().map(|leaf| leaf.faults).filter(|faults| *faults > 0).collect();
    assert_eq!(faults, [30, 41]);
    assert!(leaves.iter().all(|leaf| !leaf.label.contains("fault")), "{leaves:?}");
}

#[test]
fn a_thread_seen_on_the_cpu_of_another_without_a_switch_is_named_but_not_blamed() {
    let events = "
          0 c1 switch idle > rt/50@40
        100 c1 other first
        101 c1 runs hog/60@60
        700 c1 switch hog/60@60:S > rt/50@40
        800 c1 switch rt/50@40:S > idle
    ";
    let said = ["hog/60 (RT 60) had CPU 1, and no switch of rt/50 (RT 40) away from it is recorded"];
    let explanation = expect(events, (10, 750), &said, &["the time is the thread's own"]);
    assert_ne!(explanation.cause, "thread: hog");
    assert_eq!(explanation.unexplained_ns, Ns::from_us(600));
}

#[test]
fn without_any_switch_no_thread_is_said_to_have_run() {
    let events = "
          0 c0 runs rt/50@40
        100 c0 vec+ local_timer
        110 c0 vec- local_timer
        300 c0 runs other/60@120
        400 c0 vec+ local_timer
        410 c0 vec- local_timer
        740 c0 runs rt/50@40
    ";
    let said = ["sched_switch is not recorded: whether <unknown>/50 ran, waited or slept is unknown"];
    let explanation = expect(events, (0, 740), &said, &["ran 7", "had CPU", "the time is the thread's own"]);
    assert_eq!(explanation.unexplained_ns, Ns::from_us(740));
}
