//! The victim was blocked.

use super::super::{expect, notation, told};
use crate::time::Ns;

#[test]
fn a_softirq_before_the_switch_is_named_net_of_what_interrupted_it() {
    expect(
        "
          0   c1 switch idle > any/3
        101   c1 irq+ 25 virtio0
        103   c1 waking rt/50@95
        105   c1 irq- 25
        106   c1 soft+ NET_RX
        200   c1 vec+ reschedule
        210   c1 vec- reschedule
        300   c1 nmi 20
        400   c1 soft- NET_RX
        405   c1 switch any/3:R > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause softirq NET_RX
        waited 320 µs: softirq NET_RX ran on CPU 1 for 264 µs (82 %)
        → move the network interrupts and RPS away from this CPU; threadirqs or PREEMPT_RT make softirqs
          preemptible
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               3.0    0.9        +0.0 ~   blocked
               3.0    0.9        +0.0       waited for hard IRQ 25 (virtio0)
             302.0   94.4        +3.0     waking → switched in
             264.0   82.5        +6.0       softirq NET_RX
              20.0    6.2      +180.0       NMI
              10.0    3.1      +100.0       vector reschedule
               6.0    1.9        +5.0       switching away from any/3 (nice 0)
               2.0    0.6        +3.0       hard IRQ 25 (virtio0)
              15.0    4.7      +305.0     switched in → user space
              15.0    4.7      +305.0       return to user space
        ",
    );
}

#[test]
fn blocked_time_leads_to_the_thread_that_ended_it_and_to_what_held_that_one_up() {
    expect(
        "
         10   c1 switch rt/50@95:S > idle
         11   c1 idle+ 1
          0   c0 switch idle > server/60@80
        120   c0 switch server/60@80:D > hog/99@98
        200   c0 irq+ 25 virtio0
        201   c0 waking server/60@80
        203   c0 irq- 25
        350   c0 switch hog/99@98:S > server/60@80
        401   c0 waking rt/50@95 c1
        450   c1 idle-
        451   c1 vec+ reschedule
        452   c1 vec- reschedule
        460   c1 switch idle:R > rt/50@95
        490   c1 switch rt/50@95:S > idle
        ",
        100,
        480,
        "
        cause thread: hog
        waited 380 µs: hog/99 (RT 98), of equal or higher priority, held CPU 0 for 147 µs (39 %); it was
        blocked until hard IRQ 25 (virtio0) on CPU 0 woke it, for 81.0 µs (21 %)
        → lower the priority of hog, shorten its runs, or pin it to another CPU
                µs      %       begin   what
             380.0  100.0        +0.0   programmed wake-up → user space
             301.0   79.2        +0.0     blocked
              20.0    5.3        +0.0       server/60 (RT 80) runs on CPU 0
              20.0    5.3        +0.0         server/60 (RT 80) itself
              81.0   21.3       +20.0       server/60 (RT 80) BLOCKED
              81.0   21.3       +20.0         waited for hard IRQ 25 (virtio0)
             149.0   39.2      +101.0       server/60 (RT 80) RUNNABLE on CPU 0: woken, waits for the CPU
             147.0   38.7      +103.0         hog/99 (RT 98), of equal or higher priority, occupies CPU 0,
                                              while CPU 1 was idle: it must be pinned to CPU 0 (affinity; no
                                              migration, the mask is not recorded), else it could have run
                                              there at once
               2.0    0.5      +101.0         hard IRQ 25 (virtio0)
              51.0   13.4      +250.0       server/60 (RT 80) runs on CPU 0
              51.0   13.4      +250.0         server/60 (RT 80) itself
              59.0   15.5      +301.0     waking → switched in
              58.0   15.3      +301.0       idle in C1
               1.0    0.3      +351.0       vector reschedule
              20.0    5.3      +360.0     switched in → user space
              20.0    5.3      +360.0       return to user space
        ",
    );
}

#[test]
fn a_wake_in_interrupt_context_never_names_the_interrupted_thread() {
    expect(
        "
         10   c1 switch rt/50@95:S > bystander/9
        300   c1 irq+ 25 virtio0
        302   c1 waking rt/50@95
        304   c1 irq- 25
        310   c1 switch bystander/9:R > rt/50@95
        350   c1 switch rt/50@95:S > idle
        ",
        100,
        320,
        "
        cause waited for: hard IRQ 25 (virtio0)
        waited 220 µs: it was blocked until hard IRQ 25 (virtio0) on CPU 1 woke it, for 202 µs (92 %)
        → this is the time until hard IRQ 25 (virtio0) arrived: check the device or timer that raises it
                µs      %       begin   what
             220.0  100.0        +0.0   programmed wake-up → user space
             202.0   91.8        +0.0     blocked
             202.0   91.8        +0.0       waited for hard IRQ 25 (virtio0)
               8.0    3.6      +202.0     waking → switched in
               6.0    2.7      +204.0       switching away from bystander/9 (nice 0)
               2.0    0.9      +202.0       hard IRQ 25 (virtio0)
              10.0    4.5      +210.0     switched in → user space
              10.0    4.5      +210.0       return to user space
        ",
    );
}

/// 98 is `futex` there, which is `getrusage` on x86-64.
#[test]
fn system_calls_have_the_numbers_of_the_traced_machine() {
    let events = "
        0 c0 switch idle > holder/257@10
        100 c1 switch idle > worker/50@50
        300 c1 call 98 4096 0
        310 c1 switch worker/50@50:S > idle
        900 c0 call 98 4096 1
        905 c0 waking worker/50@50 c1
        910 c0 ret 98
        915 c1 switch idle > worker/50@50
        920 c1 ret 98
        1000 c1 switch worker/50@50:S > idle
    ";
    let said = |machine: &str| {
        told(&notation::window(&format!("0 c0 machine {machine}\n{events}")), 200, 950).sentence
    };
    let there = said("aarch64");
    assert!(
        there.contains("in futex (FUTEX_WAIT 0x1000)") && there.contains("released by holder"),
        "{there}"
    );
    let here = said("x86_64");
    assert!(here.contains("in getrusage"), "{here}");
}

const ASLEEP: &str = "
    0 c0 switch idle > other/9
    10 c1 switch idle > worker/50@50
    100 c1 switch worker/50@50:S > bystander/7
    900 c1 waking worker/50@50 ^LEVEL
    905 c1 switch bystander/7:R > worker/50@50
    1000 c1 switch worker/50@50:S > idle
";

/// `perf record -e sched:*` and the like record no interrupts; the events' flags show them.
#[test]
fn who_was_interrupted_by_what_is_not_recorded_is_not_taken_for_the_waker() {
    let said = |events: &str| {
        let explanation = told(&notation::window(events), 50, 950);
        (explanation.sentence.clone(), format!("{explanation:?}"))
    };
    let (sentence, all) = said(&ASLEEP.replace("^LEVEL", "^hard"));
    assert!(sentence.contains("for an interrupt that is not recorded"), "{sentence}");
    assert!(!sentence.contains("until bystander") && all.contains("irq_vectors:local_timer_entry"), "{all}");
    let (sentence, _) = said(&ASLEEP.replace("^LEVEL", "^soft"));
    assert!(sentence.contains("for a softirq that is not recorded"), "{sentence}");
    let (sentence, _) = said(&ASLEEP.replace("^LEVEL", "^thread"));
    assert!(sentence.contains("bystander/7 (nice 0)"), "{sentence}");
}

#[test]
fn a_sleep_that_an_interrupt_ends_is_the_threads_own() {
    let events = ASLEEP.replace("100 c1 switch", "90 c1 call 230\n100 c1 switch");
    let explanation = told(&notation::window(&events.replace("^LEVEL", "^hard")), 50, 950);
    let said = &explanation.sentence;
    assert!(
        said.contains("slept") && said.contains("in clock_nanosleep until its own timer woke it"),
        "{said}"
    );
}

#[test]
fn where_nothing_tells_interrupts_from_threads_neither_is_blamed() {
    let blind = |events: &str| told(&notation::window(&format!("0 c0 hides interrupts\n{events}")), 50, 950);
    let explanation = blind(&ASLEEP.replace("^LEVEL", ""));
    let all = format!("{explanation:?}");
    assert!(all.contains("or by an interrupt") && explanation.unexplained_ns.0 > 700_000, "{all}");
    // In a system call it is taken for its own.
    let events = ASLEEP.replace("^LEVEL", "").replace("900 c1", "890 c1 call 1\n900 c1");
    assert!(
        blind(&events).sentence.contains("until bystander/7 (nice 0) woke it"),
        "{}",
        blind(&events).sentence
    );
}

#[test]
fn a_victim_whose_way_to_the_cpu_is_not_recorded_is_not_said_to_have_waited_for_what_it_asked_for() {
    expect(
        "
          0   c1 switch idle > rt/50@95
         50   c1 switch rt/50@95:S > idle
        530   c1 switch rt/50@95:S > idle
        ",
        100,
        500,
        "
        cause unexplained
        waited 400 µs: 400 µs (100 %) unexplained, most of it: the activity of the thread is not recorded
        → the record does not show the cause: the limits below list what is missing
                µs      %       begin   what
             400.0  100.0        +0.0   programmed wake-up → user space
             400.0  100.0        +0.0 ?   unexplained: the activity of the thread is not recorded
        ! no waking of the victim is recorded in the interval
        ! no switch-in of the victim is recorded in the interval
        ",
    );
}

#[test]
fn a_stop_is_the_cause_whatever_delayed_the_thread_that_ended_it() {
    let events = "
          0   c1 switch idle > rt/50@95
         90   c1 switch rt/50@95:S > hog/60
        100   c1 vec+ local_timer
        101   c1 timer+ hrtimer_wakeup 100
        102   c1 waking rt/50@95
        103   c1 timer-
        104   c1 vec- local_timer
        105   c1 switch hog/60:R > rt/50@95
        107   c1 switch rt/50@95:T > hog/60
       8900   c1 switch hog/60:R > stopper/61
       9001   c1 waking rt/50@95
       9005   c1 switch stopper/61:R > rt/50@95
       9050   c1 switch rt/50@95:S > idle
    ";
    let told = super::super::explained(&notation::window(events), 100, 9_040);
    assert_eq!(told.cause, "stopped", "{}", told.sentence);
    let text = crate::explain::text::render(&told, crate::explain::text::Options::default());
    assert!(!told.sentence.contains("hog") && !told.sentence.contains("until its own timer"), "{text}");
}

#[test]
fn a_thread_that_was_stopped_when_its_timer_was_due_was_not_late_by_its_timer() {
    // The thread that continued it is on a CPU of another record.
    let events = "
          0   c1 switch idle > rt/50@95
         90   c1 switch rt/50@95:T > idle
          5   c1 idle+ 1
       9000   c1 idle-
       9001   c1 switch idle > rt/50@95
       9020   c1 arm 100
       9022   c1 switch rt/50@95:S > idle
       9023   c1 vec+ local_timer
       9024   c1 timer+ hrtimer_wakeup 9020
       9025   c1 waking rt/50@95
       9026   c1 timer-
       9027   c1 vec- local_timer
       9030   c1 switch idle > rt/50@95
       9050   c1 switch rt/50@95:S > idle
    ";
    let told = super::super::explained(&notation::window(events), 100, 9_040);
    assert_eq!(told.cause, "stopped");
    assert!(
        told.sentence.contains("it was stopped, by a signal, a tracer or the freezer, for 8.90"),
        "{}",
        told.sentence
    );
    assert!(told.advice.starts_with("find who stops it"), "{}", told.advice);
    // Blocked for another reason, it is not late by its timer either.
    let told = super::super::explained(&notation::window(&events.replace(":T >", ":D >")), 100, 9_040);
    let late = crate::explain::text::render(&told, crate::explain::text::Options::default());
    assert!(!late.contains("timer slack"), "{late}");
}

/// The record begins during the stop: the event that began it, and the waking on another CPU, are missing.
const STOPPED_BEFORE_THE_RECORD: &str = "
       5000   c1 vec+ local_timer
       5001   c1 vec- local_timer
       9001   c1 switch idle > rt/50@95
       9020   c1 arm 100
       9022   c1 switch rt/50@95:S > idle
       9023   c1 vec+ local_timer
       9024   c1 timer+ hrtimer_wakeup 9020
       9025   c1 waking rt/50@95
       9026   c1 timer-
       9027   c1 vec- local_timer
       9030   c1 switch idle > rt/50@95
       9050   c1 switch rt/50@95:S > idle
    ";

#[test]
fn a_thread_of_which_nothing_is_recorded_until_it_armed_its_timer_was_not_late_by_it() {
    let told = super::super::explained(&notation::window(STOPPED_BEFORE_THE_RECORD), 100, 9_040);
    let text = crate::explain::text::render(&told, crate::explain::text::Options::default());
    assert!(!text.contains("timer slack") && told.unexplained_ns >= Ns::from_us(8_800), "{text}");
}

#[test]
fn a_process_that_knows_of_its_stop_explains_it_without_the_events() {
    let events = format!("110 c1 stopped 8990{STOPPED_BEFORE_THE_RECORD}");
    let told = super::super::explained(&notation::window(&events), 100, 9_040);
    let text = crate::explain::text::render(&told, crate::explain::text::Options::default());
    assert_eq!(told.cause, "stopped", "{text}");
    assert!(
        told.sentence.contains("it was stopped, by a signal, a tracer or the freezer, for 8.88"),
        "{text}"
    );
    assert!(told.tree.adds_up() && told.unexplained_ns < Ns::from_us(60), "{text}");
}
