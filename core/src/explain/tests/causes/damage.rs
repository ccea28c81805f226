//! Records that lack something.

use super::super::expect;

#[test]
fn lost_events_leave_a_gap_and_a_limit() {
    expect(
        "
          0   c1 switch idle > hog/99@98
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        104   c1 timer-
        105   c1 vec- local_timer
        350   c1 lost 12
        400   c1 switch other/8:S > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause events lost
        waited 320 µs: 246 µs (77 %) unexplained, most of it: events lost
        → events were lost: enlarge the flight ring, or record fewer events
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while hog/99 (RT 98) ran, with no stack
                                            to show why
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
              50.0   15.6      +250.0       other/8 (nice 0), lower in priority, not preempted
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
             245.0   76.6        +5.0 ?     unexplained: events lost
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ! 12 events of CPU 1 were lost before 0.000350000
        ",
    );
}

#[test]
fn a_silent_cpu_was_held_by_the_thread_that_left_it_next() {
    expect(
        "
        101   c0 vec+ local_timer
        102   c0 timer+ hrtimer_wakeup 100
        103   c0 waking rt/50@95
        104   c0 timer-
        105   c0 vec- local_timer
        400   c1 switch hog/99@98:S > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause thread: hog
        waited 320 µs: hog/99 (RT 98), of equal or higher priority, held CPU 1 for 297 µs (93 %)
        → lower the priority of hog, shorten its runs, or pin it to another CPU
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: the task on the CPU is not recorded
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
             297.0   92.8        +3.0       hog/99 (RT 98), of equal or higher priority
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ",
    );
}

#[test]
fn a_lost_exit_of_an_interrupt_leaves_its_time_unexplained() {
    expect(
        "
          0   c1 switch idle > any/3@98
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        104   c1 timer-
        105   c1 vec- local_timer
        110   c1 irq+ 25 virtio0
        300   c1 irq+ 26 virtio1
        310   c1 irq- 26
        400   c1 switch any/3@98:R > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause unexplained
        waited 320 µs: 281 µs (88 %) unexplained, most of it: the task on the CPU is not recorded
        → the record does not show the cause: the limits below list what is missing
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while any/3 (RT 98) ran, with no stack
                                            to show why
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
              10.0    3.1      +200.0       hard IRQ 26 (virtio1)
               5.0    1.6        +5.0       any/3 (RT 98), of equal or higher priority
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
             190.0   59.4       +10.0 ?     unexplained: the task on the CPU is not recorded
              90.0   28.1      +210.0 ?     unexplained: the task on the CPU is not recorded
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ",
    );
}

#[test]
fn a_switch_in_that_was_not_recorded_is_inferred_from_the_next_event() {
    expect(
        "
          0   c1 switch any/3:S > idle
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        104   c1 timer-
        105   c1 vec- local_timer
        150   c1 runs hog/99@98
        160   c1 irq+ 9 acpi
        170   c1 irq- 9
        400   c1 switch hog/99@98:S > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause thread: hog
        waited 320 µs: hog/99 (RT 98), of equal or higher priority, held CPU 1 for 240 µs (75 %); 45.0 µs
        (14 %) unexplained
        → lower the priority of hog, shorten its runs, or pin it to another CPU
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +0.0       exit from idle
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
             240.0   75.0       +50.0       hog/99 (RT 98), of equal or higher priority
              10.0    3.1       +60.0       hard IRQ 9 (acpi)
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
              45.0   14.1        +5.0 ?     unexplained: CPU 1 was awake when rt/50 (RT 95) was woken: its
                                            activity until the switch is not recorded
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ! cpu_idle is not recorded: the idle state is unknown
        ",
    );
}
