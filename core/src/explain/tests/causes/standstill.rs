//! The CPU stood still, or an interrupt took long outside what is known of it.

use super::super::{expect, notation, told};

/// As a host did that does not account for it: the switch was due at 105, three interrupts later it came.
#[test]
fn nobody_is_blamed_where_timers_that_were_due_show_that_the_cpu_stood_still() {
    expect(
        "
          0   c1 switch idle > spin/33
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        103   c1 stack spin/33 user
        104   c1 timer-
        305   c1 vec- local_timer    # 200 in none of its functions
        800   c1 vec+ local_timer    # due at 400
        801   c1 timer+ tick_nohz_handler 400
        804   c1 timer-
        805   c1 vec- local_timer
       1900   c1 vec+ local_timer    # due at 900
       1901   c1 timer+ tick_nohz_handler 900
       1904   c1 timer-
       1905   c1 vec- local_timer
       1908   c1 switch spin/33:R > rt/50@95
       1950   c1 switch rt/50@95:S > idle
        ",
        100,
        1910,
        "
        cause the CPU stood still
        waited 1.810 ms: 1.401 ms (77 %) unexplained, most of it: CPU 1 stood still: with spin/33 (nice 0)
        in user mode, no interrupt came of a timer that was due
        → measure the hardware and the host alone: `lathunt hwlat`; compare steal time and SMI counts
                µs      %       begin   what
            1810.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.1        +0.0     timer late
               1.0    0.1        +1.0       vector local_timer
               1.0    0.1        +0.0 ?     unexplained: timer late while spin/33 (nice 0) ran in user mode:
                                            interrupts were on
               1.0    0.1        +2.0     timer interrupt
               1.0    0.1        +2.0       vector local_timer: hrtimer_wakeup
            1805.0   99.7        +3.0     waking → switched in
             193.0   10.7      +205.0       spin/33 (nice 0), lower in priority, not preempted
             212.0   11.7        +3.0       vector local_timer, most outside its functions (3×)
            1400.0   77.3      +300.0 ?     unexplained: CPU 1 stood still: with spin/33 (nice 0) in user
                                            mode, no interrupt came of a timer that was due
               2.0    0.1     +1808.0     switched in → user space
               2.0    0.1     +1808.0       return to user space
        ",
    );
}

#[test]
fn of_a_trace_that_has_no_stacks_timers_that_were_due_say_that_preemption_was_not_it() {
    let events = "
          0   c1 switch idle > spin/33
        100   c1 vec+ local_timer
        103   c1 waking rt/50@95
        105   c1 vec- local_timer
       1900   c1 vec+ local_timer
       1901   c1 timer+ tick_nohz_handler ^DUE
       1904   c1 timer-
       1905   c1 vec- local_timer
       1908   c1 switch spin/33:R > rt/50@95";
    for (due, says) in
        [("400", "a timer was due and no interrupt came"), ("1890", "not preempted (preemption off")]
    {
        let sentence = told(&notation::window(&events.replace("^DUE", due)), 103, 1908).sentence;
        assert!(sentence.contains(says), "{sentence}");
    }
}

#[test]
fn a_timer_interrupt_that_took_long_outside_its_functions_blames_none_of_them() {
    expect(
        "
          0   c1 switch idle > spin/33
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        104   c1 timer-
        905   c1 vec- local_timer
        908   c1 switch spin/33:R > rt/50@95
        950   c1 switch rt/50@95:S > idle
        ",
        103,
        910,
        "
        cause timer interrupt
        waited 807 µs: timer interrupts (most outside their timers' functions) ran on CPU 1 for 802 µs (99
        %)
        → programming the next event takes no such time: measure the hardware and the host alone: `lathunt
          hwlat`
                µs      %       begin   what
             807.0  100.0        +0.0   programmed wake-up → user space
             805.0   99.8        +0.0     waking → switched in
             802.0   99.4        +0.0       vector local_timer, most outside its functions
               3.0    0.4      +802.0       switching away from spin/33 (nice 0)
               2.0    0.2      +805.0     switched in → user space
               2.0    0.2      +805.0       return to user space
        ",
    );
}
