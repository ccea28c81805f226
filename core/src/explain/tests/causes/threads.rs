//! Threads that ran on the CPU.

use super::super::{expect, explained, notation};

#[test]
fn a_thread_of_lower_priority_that_is_not_preempted_is_blamed_with_its_stack() {
    expect(
        "
          0   c1 switch idle > inject/4711
        100   c1 vec+ local_timer
        101   c1 timer+ hrtimer_wakeup 99
        102   c1 waking rt/50@95
        102   c1 stack inject/4711 kernel bpf_loop bpf_prog_run
        103   c1 timer-
        104   c1 vec- local_timer
        600   c1 switch inject/4711:R > rt/50@95
        620   c1 switch rt/50@95:S > idle
        ",
        99,
        602,
        "
        cause preemption off: inject
        waited 503 µs: inject/4711 (nice 0) held CPU 1 with preemption disabled (in bpf_loop) for 496 µs (99
        %)
        → keep inject off this CPU, or shorten its section with preemption disabled (see the stack)
                µs      %       begin   what
             503.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.4        +0.0     timer late
               1.0    0.2        +1.0       vector local_timer
               1.0    0.2        +0.0 ?     unexplained: timer late by little; inject/4711 (nice 0) was in
                                            the kernel
               1.0    0.2        +2.0     timer interrupt
               1.0    0.2        +2.0       vector local_timer: hrtimer_wakeup
             498.0   99.0        +3.0     waking → switched in
             496.0   98.6        +5.0       inject/4711 (nice 0), lower in priority, not preempted
               2.0    0.4        +3.0       vector local_timer: hrtimer_wakeup
               2.0    0.4      +501.0     switched in → user space
               2.0    0.4      +501.0       return to user space
        ",
    );
}

#[test]
fn a_fifo_hog_of_higher_priority_interferes_by_right() {
    expect(
        "
          0   c1 switch idle > hog/99@98
        100   c1 vec+ local_timer
        101   c1 timer+ hrtimer_wakeup 99
        102   c1 waking rt/50@95
        102   c1 stack hog/99@98 user
        103   c1 timer-
        104   c1 vec- local_timer
        600   c1 switch hog/99@98:S > rt/50@95
        620   c1 switch rt/50@95:S > idle
        ",
        99,
        602,
        "
        cause thread: hog
        waited 503 µs: hog/99 (RT 98), of equal or higher priority, held CPU 1 for 496 µs (99 %)
        → lower the priority of hog, shorten its runs, or pin it to another CPU
                µs      %       begin   what
             503.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.4        +0.0     timer late
               1.0    0.2        +1.0       vector local_timer
               1.0    0.2        +0.0 ?     unexplained: timer late while hog/99 (RT 98) ran in user mode:
                                            interrupts were on
               1.0    0.2        +2.0     timer interrupt
               1.0    0.2        +2.0       vector local_timer: hrtimer_wakeup
             498.0   99.0        +3.0     waking → switched in
             496.0   98.6        +5.0       hog/99 (RT 98), of equal or higher priority
               2.0    0.4        +3.0       vector local_timer: hrtimer_wakeup
               2.0    0.4      +501.0     switched in → user space
               2.0    0.4      +501.0       return to user space
        ",
    );
}

#[test]
fn a_hog_that_made_itself_fifo_and_renamed_itself_is_named_as_it_left_and_interferes_by_right() {
    expect(
        "
          0   c1 switch idle > parent/99
        100   c1 vec+ local_timer
        101   c1 timer+ hrtimer_wakeup 99
        102   c1 waking rt/50@95
        102   c1 stack hog/99 kernel syscall_exit_work
        103   c1 timer-
        104   c1 vec- local_timer
        600   c1 switch hog/99@98:S > rt/50@95
        620   c1 switch rt/50@95:S > idle
        ",
        99,
        602,
        "
        cause thread: hog
        waited 503 µs: hog/99 (RT 98), of equal or higher priority, held CPU 1 for 496 µs (99 %)
        → lower the priority of hog, shorten its runs, or pin it to another CPU
                µs      %       begin   what
             503.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.4        +0.0     timer late
               1.0    0.2        +1.0       vector local_timer
               1.0    0.2        +0.0 ?     unexplained: timer late by little; hog/99 (RT 98) was in the
                                            kernel
               1.0    0.2        +2.0     timer interrupt
               1.0    0.2        +2.0       vector local_timer: hrtimer_wakeup
             498.0   99.0        +3.0     waking → switched in
             496.0   98.6        +5.0       hog/99 (RT 98), of equal or higher priority
               2.0    0.4        +3.0       vector local_timer: hrtimer_wakeup
               2.0    0.4      +501.0     switched in → user space
               2.0    0.4      +501.0       return to user space
        ",
    );
}

#[test]
fn a_thread_that_takes_page_faults_says_so() {
    expect(
        "
          0   c1 switch idle > fault/77
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        104   c1 timer-
        105   c1 vec- local_timer
        200   c1 faults 20
        380   c1 faults 30
        400   c1 switch fault/77:R > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause page faults: fault
        waited 320 µs: fault/77 (nice 0) held CPU 1 while it took 50 page faults, for 295 µs (92 %)
        → let fault lock and touch its memory before (mlockall, no fresh pages at run time), or move it to
          another CPU
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while fault/77 (nice 0) ran, with no
                                            stack to show why
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
             295.0   92.2        +5.0       fault/77 (nice 0), lower in priority, not preempted, with 50
                                            page faults
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ",
    );
}

#[test]
fn a_migration_splits_the_wait_between_two_cpus() {
    expect(
        "
          0   c0 switch idle > low/6@10
          0   c1 switch idle > hog/99@98
        101   c0 vec+ local_timer
        102   c0 timer+ hrtimer_wakeup 100
        103   c0 waking rt/50@95 c0
        104   c0 timer-
        105   c0 vec- local_timer
        250   c0 migrate rt/50@95 0 1
        400   c1 switch hog/99@98:S > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause thread: hog
        waited 320 µs: hog/99 (RT 98), of equal or higher priority, held CPU 1 for 150 µs (47 %); low/6 (RT
        10) held CPU 0 and was not preempted (no stack shows why) for 145 µs (45 %)
        → lower the priority of hog, shorten its runs, or pin it to another CPU
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while low/6 (RT 10) ran, with no stack
                                            to show why
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             147.0   45.9        +3.0     waking → switched in
             145.0   45.3        +5.0       low/6 (RT 10), lower in priority, not preempted
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
             150.0   46.9      +150.0     waking → switched in
             150.0   46.9      +150.0       hog/99 (RT 98), of equal or higher priority
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ",
    );
}

#[test]
fn a_cpu_that_does_not_preempt_kernel_code_is_said_to() {
    expect(
        "
          0   c1 preemption none
          0   c1 switch idle > kworker/1:2/33
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        103   c1 stack kworker/1:2/33 kernel asm_sysvec_apic_timer_interrupt vfree process_one_work
        104   c1 timer-
        105   c1 vec- local_timer
        400   c1 switch kworker/1:2/33:S > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause preemption off: kworker/1:2
        waited 320 µs: kworker/1:2/33 (nice 0) held CPU 1 in kernel code that preemption model 'none' does
        not preempt until it blocked (in vfree) for 295 µs (92 %)
        → boot with preempt=full or use PREEMPT_RT ('none' is in force), or keep kworker/1:2 off this CPU
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late by little; kworker/1:2/33 (nice 0) was
                                            in the kernel
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
             295.0   92.2        +5.0       kworker/1:2/33 (nice 0), lower in priority, not preempted
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ",
    );
}

#[test]
fn a_boosted_thread_counts_with_the_priority_it_was_lent() {
    expect(
        "
          0   c1 switch idle > owner/33
         50   c1 setprio owner/33 98
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        104   c1 timer-
        105   c1 vec- local_timer
        400   c1 switch owner/33@98:S > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause thread: owner
        waited 320 µs: owner/33 (RT 98), of equal or higher priority, held CPU 1 for 295 µs (92 %)
        → lower the priority of owner, shorten its runs, or pin it to another CPU
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while owner/33 (RT 98) ran, with no
                                            stack to show why
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
             295.0   92.2        +5.0       owner/33 (RT 98), of equal or higher priority
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ",
    );
}

#[test]
fn a_thread_in_user_mode_that_runs_on_points_at_throttling() {
    expect(
        "
          0   c1 switch idle > spin/33
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        103   c1 stack spin/33 user
        104   c1 timer-
        105   c1 vec- local_timer
        400   c1 switch spin/33:R > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause not let run, behind spin
        waited 320 µs: spin/33 (nice 0) held CPU 1 although it was in user mode at the waking, for 295 µs
        (92 %)
        → the victim was runnable but not scheduled: check RT throttling (sched_rt_runtime_us), the fair
          server and cgroup limits; or the CPU stalled: compare with `lathunt hwlat`
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while spin/33 (nice 0) ran in user mode:
                                            interrupts were on
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
             295.0   92.2        +5.0       spin/33 (nice 0), lower in priority, not preempted
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ",
    );
}

#[test]
fn an_idle_cpu_reached_from_another_one_is_named() {
    expect(
        "
         10   c1 switch rt/50@95:S > idle
         11   c1 idle+ 1
         20   c0 switch idle > waker/8
        100   c0 waking rt/50@95 c1
        381   c1 idle-
        382   c1 vec+ call_function_single
        383   c1 csd+ sched_ttwu_pending
        384   c1 wakeup rt/50@95
        385   c1 csd-
        386   c1 vec- call_function_single
        390   c1 switch idle:R > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause idle exit C1
        waited 320 µs: CPU 1 was idle in C1 and left it late, for 286 µs (89 %)
        → forbid deep idle states (write 0 to /dev/cpu_dma_latency); on a virtual machine the host wakes
          this CPU: idle=poll
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
             290.0   90.6        +0.0     waking → switched in
             286.0   89.4        +0.0       idle in C1
               4.0    1.2      +282.0       vector call_function_single: sched_ttwu_pending
              30.0    9.4      +290.0     switched in → user space
              30.0    9.4      +290.0       return to user space
        ",
    );
}

/// Many that have the CPU one after another: the largest of them is not all of it.
#[test]
fn causes_that_are_small_one_by_one_are_added_up() {
    let mut events =
        "0 c1 switch idle > work/100@60\n 90 c1 vec+ local_timer\n 91 c1 timer+ hrtimer_wakeup 90\n\
                      92 c1 waking rt/50@20\n 93 c1 timer-\n 94 c1 vec- local_timer\n"
            .to_owned();
    for turn in 1..10 {
        let (at, last) = (turn * 100, 99 + turn);
        events += &format!("{at} c1 switch work/{last}@60:S > work/{}@60\n", last + 1);
    }
    events += "1000 c1 switch work/109@60:S > rt/50@20\n 1100 c1 switch rt/50@20:S > idle";
    let said = explained(&notation::window(&events), 90, 1_010).sentence;
    assert!(said.contains(" more causes for 8"), "{said}");
}

/// What it did in the call is not in the stack, and a call that sets its priority leaves no other trace.
#[test]
fn a_thread_preempted_on_the_return_to_user_mode_may_have_had_a_higher_priority() {
    let events = |stack: &str| {
        format!(
            "
              0   c1 preemption none
              0   c1 switch idle > owner/60@20
              0   c0 switch idle > boss/70
            102   c0 waking rt/50@80 c1
            898   c1 stack owner/60@20 kernel {stack}
            900   c1 switch owner/60@20:R > rt/50@80
           1000   c1 switch rt/50@80:S > idle
            "
        )
    };
    let said = |stack: &str| explained(&notation::window(&events(stack)), 102, 905).sentence;
    let returned = said("__schedule+0x6 schedule+0x2 exit_to_user_mode_loop+0x5 do_syscall_64+0x2");
    assert!(
        returned.contains("or with a priority raised until then") && !returned.contains("(in"),
        "{returned}"
    );
    let inside = said("__schedule+0x6 __cond_resched+0x2 unmap_page_range+0x5 do_syscall_64+0x2");
    let expected = "in kernel code that preemption model 'none' does not preempt (in unmap_page_range+0x5)";
    assert!(inside.contains(expected), "{inside}");
}
