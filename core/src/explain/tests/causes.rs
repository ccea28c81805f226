//! One case for each kind of cause: events → printed explanation.

use super::expect;

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
fn interrupts_off_are_named_where_the_stack_shows_where_they_came_back_on() {
    expect(
        "
          0   c1 switch idle > vnd/812
        510   c1 vec+ local_timer
        511   c1 timer+ hrtimer_wakeup 100
        512   c1 waking rt/50@95
        512   c1 stack vnd/812 kernel hrtimer_interrupt asm_sysvec_apic_timer_interrupt _raw_spin_unlock_irqrestore vnd_ioctl
        513   c1 timer-
        514   c1 vec- local_timer
        515   c1 switch vnd/812:R > rt/50@95
        540   c1 switch rt/50@95:S > idle
        ",
        100,
        520,
        "
        cause irqs off: vnd
        waited 420 µs: vnd/812 (nice 0) kept interrupts off on CPU 1, in vnd_ioctl, for 410 µs (98 %)
        → find the section around vnd_ioctl that disables interrupts (driver or kernel update), or move vnd
          away
                µs      %       begin   what
             420.0  100.0        +0.0   programmed wake-up → user space
             411.0   97.9        +0.0     timer late
             410.0   97.6        +0.0       interrupts off in vnd/812 (nice 0)
               1.0    0.2      +410.0       vector local_timer
               1.0    0.2      +411.0     timer interrupt
               1.0    0.2      +411.0       vector local_timer: hrtimer_wakeup
               3.0    0.7      +412.0     waking → switched in
               2.0    0.5      +412.0       vector local_timer: hrtimer_wakeup
               1.0    0.2      +414.0       switching away from vnd/812 (nice 0)
               5.0    1.2      +415.0     switched in → user space
               5.0    1.2      +415.0       return to user space
        ",
    );
}

#[test]
fn a_late_timer_over_user_code_is_never_called_interrupts_off() {
    expect(
        "
          0   c1 switch idle > spin/7
        510   c1 vec+ local_timer
        511   c1 timer+ hrtimer_wakeup 100
        512   c1 waking rt/50@95
        512   c1 stack spin/7 user
        513   c1 timer-
        514   c1 vec- local_timer
        515   c1 switch spin/7:R > rt/50@95
        540   c1 switch rt/50@95:S > idle
        ",
        100,
        520,
        "
        cause timer late, unexplained
        waited 420 µs: 410 µs (98 %) unexplained, most of it: timer late while spin/7 (nice 0) ran in user
        mode: interrupts were on
        → measure the hardware and the host alone: `lathunt hwlat`; compare steal time and SMI counts
                µs      %       begin   what
             420.0  100.0        +0.0   programmed wake-up → user space
             411.0   97.9        +0.0     timer late
               1.0    0.2      +410.0       vector local_timer
             410.0   97.6        +0.0 ?     unexplained: timer late while spin/7 (nice 0) ran in user mode:
                                            interrupts were on
               1.0    0.2      +411.0     timer interrupt
               1.0    0.2      +411.0       vector local_timer: hrtimer_wakeup
               3.0    0.7      +412.0     waking → switched in
               2.0    0.5      +412.0       vector local_timer: hrtimer_wakeup
               1.0    0.2      +414.0       switching away from spin/7 (nice 0)
               5.0    1.2      +415.0     switched in → user space
               5.0    1.2      +415.0       return to user space
        ! when interrupts are off is not traced (preemptirq:irq_disable would tell)
        ",
    );
}

#[test]
fn an_interrupt_taken_while_the_timer_was_due_refutes_interrupts_off() {
    expect(
        "
          0   c1 switch idle > vnd/812
        200   c1 irq+ 25 virtio0
        210   c1 irq- 25
        510   c1 vec+ local_timer
        511   c1 timer+ hrtimer_wakeup 100
        512   c1 waking rt/50@95
        512   c1 stack vnd/812 kernel do_something
        513   c1 timer-
        514   c1 vec- local_timer
        515   c1 switch vnd/812:R > rt/50@95
        540   c1 switch rt/50@95:S > idle
        ",
        100,
        520,
        "
        cause timer late, unexplained
        waited 420 µs: 400 µs (95 %) unexplained, most of it: timer late: not pending when interrupts came
        back on at 0.000210000
        → measure the hardware and the host alone: `lathunt hwlat`; compare steal time and SMI counts
                µs      %       begin   what
             420.0  100.0        +0.0   programmed wake-up → user space
             411.0   97.9        +0.0     timer late
              10.0    2.4      +100.0       hard IRQ 25 (virtio0)
               1.0    0.2      +410.0       vector local_timer
             400.0   95.2        +0.0 ?     unexplained: timer late: not pending when interrupts came back
                                            on at 0.000210000
               1.0    0.2      +411.0     timer interrupt
               1.0    0.2      +411.0       vector local_timer: hrtimer_wakeup
               3.0    0.7      +412.0     waking → switched in
               2.0    0.5      +412.0       vector local_timer: hrtimer_wakeup
               1.0    0.2      +414.0       switching away from vnd/812 (nice 0)
               5.0    1.2      +415.0     switched in → user space
               5.0    1.2      +415.0       return to user space
        ! when interrupts are off is not traced (preemptirq:irq_disable would tell)
        ",
    );
}

#[test]
fn a_function_call_with_interrupts_off_is_named_and_not_the_interrupted_thread() {
    expect(
        "
          0   c1 switch idle > bystander/9
         90   c1 vec+ call_function_single
         91   c1 csd+ spin_with_irqs_off
        600   c1 csd-
        601   c1 vec- call_function_single
        602   c1 vec+ local_timer
        603   c1 timer+ hrtimer_wakeup 100
        604   c1 waking rt/50@95
        604   c1 stack bystander/9 user
        605   c1 timer-
        606   c1 vec- local_timer
        610   c1 switch bystander/9:R > rt/50@95
        640   c1 switch rt/50@95:S > idle
        ",
        100,
        620,
        "
        cause vector call_function_single
        waited 520 µs: vector call_function_single: spin_with_irqs_off ran on CPU 1 for 501 µs (96 %)
        → another CPU had spin_with_irqs_off run here: find the sender (tracepoints csd_queue_cpu,
          ipi_send_cpu) and stop it
                µs      %       begin   what
             520.0  100.0        +0.0   programmed wake-up → user space
             503.0   96.7        +0.0     timer late
             501.0   96.3        +0.0       vector call_function_single: spin_with_irqs_off
               1.0    0.2      +502.0       vector local_timer
               1.0    0.2      +501.0 ?     unexplained: timer late while bystander/9 (nice 0) ran in user
                                            mode: interrupts were on
               1.0    0.2      +503.0     timer interrupt
               1.0    0.2      +503.0       vector local_timer: hrtimer_wakeup
               6.0    1.2      +504.0     waking → switched in
               4.0    0.8      +506.0       switching away from bystander/9 (nice 0)
               2.0    0.4      +504.0       vector local_timer: hrtimer_wakeup
              10.0    1.9      +510.0     switched in → user space
              10.0    1.9      +510.0       return to user space
        ",
    );
}

#[test]
fn an_idle_cpu_that_wakes_slowly_is_named_with_its_state() {
    expect(
        "
         10   c1 switch rt/50@95:S > idle
         11   c1 idle+ 2
        250   c1 idle-
        251   c1 vec+ local_timer
        252   c1 timer+ hrtimer_wakeup 100
        253   c1 waking rt/50@95
        254   c1 timer-
        255   c1 vec- local_timer
        260   c1 switch idle:R > rt/50@95
        280   c1 switch rt/50@95:S > idle
        ",
        100,
        262,
        "
        cause idle exit C2
        waited 162 µs: CPU 1 was idle in C2 and left it late, for 151 µs (93 %)
        → forbid deep idle states (write 0 to /dev/cpu_dma_latency); on a virtual machine the host wakes
          this CPU: idle=poll
                µs      %       begin   what
             162.0  100.0        +0.0   programmed wake-up → user space
             152.0   93.8        +0.0     timer late
             151.0   93.2        +0.0       exit from idle in C2
               1.0    0.6      +151.0       vector local_timer
               1.0    0.6      +152.0     timer interrupt
               1.0    0.6      +152.0       vector local_timer: hrtimer_wakeup
               7.0    4.3      +153.0     waking → switched in
               5.0    3.1      +155.0       idle
               2.0    1.2      +153.0       vector local_timer: hrtimer_wakeup
               2.0    1.2      +160.0     switched in → user space
               2.0    1.2      +160.0       return to user space
        ",
    );
}

#[test]
fn a_storm_of_interrupts_is_counted_and_added_up() {
    expect(
        "
          0   c1 switch idle > any/3@98
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        104   c1 timer-
        105   c1 vec- local_timer
        106   c1 irq+ 25 virtio0
        124   c1 irq- 25
        126   c1 irq+ 25 virtio0
        144   c1 irq- 25
        146   c1 irq+ 25 virtio0
        164   c1 irq- 25
        166   c1 irq+ 25 virtio0
        184   c1 irq- 25
        186   c1 irq+ 25 virtio0
        204   c1 irq- 25
        206   c1 irq+ 25 virtio0
        224   c1 irq- 25
        226   c1 irq+ 25 virtio0
        244   c1 irq- 25
        246   c1 irq+ 25 virtio0
        264   c1 irq- 25
        266   c1 irq+ 25 virtio0
        284   c1 irq- 25
        286   c1 irq+ 25 virtio0
        304   c1 irq- 25
        306   c1 irq+ 25 virtio0
        324   c1 irq- 25
        326   c1 irq+ 25 virtio0
        344   c1 irq- 25
        346   c1 irq+ 25 virtio0
        364   c1 irq- 25
        366   c1 irq+ 25 virtio0
        384   c1 irq- 25
        390   c1 switch any/3@98:R > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        400,
        "
        cause storm of hard IRQ 25 (virtio0)
        waited 300 µs: a storm of 14 × hard IRQ 25 (virtio0) ran on CPU 1 for 252 µs (84 %)
        → move it (/proc/irq/25/smp_affinity_list) and limit its rate: interrupt coalescing, budget
                µs      %       begin   what
             300.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.7        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while any/3 (RT 98) ran, without a stack
                                            to tell why
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             287.0   95.7        +3.0     waking → switched in
             252.0   84.0        +6.0       hard IRQ 25 (virtio0) (14×)
              33.0   11.0        +5.0       any/3 (RT 98), of equal or higher priority
               2.0    0.7        +3.0       vector local_timer: hrtimer_wakeup
              10.0    3.3      +290.0     switched in → user space
              10.0    3.3      +290.0       return to user space
        ",
    );
}

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
fn softirq_work_in_ksoftirqd_is_judged_as_a_thread() {
    expect(
        "
          0   c1 switch idle > ktimers/1/19@96
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        104   c1 timer-
        105   c1 vec- local_timer
        400   c1 switch ktimers/1/19@96:S > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause softirq thread: ktimers/1
        waited 320 µs: ktimers/1/19 (RT 96) did softirq work on CPU 1 for 295 µs (92 %)
        → set the victim's priority above ktimers/1, and move the interrupts that feed it (network, timers,
          RCU) elsewhere
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while ktimers/1/19 (RT 96) ran, without
                                            a stack to tell why
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
             295.0   92.2        +5.0       ktimers/1/19 (RT 96), of equal or higher priority
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
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
               1.0    0.3        +0.0 ?     unexplained: timer late while fault/77 (nice 0) ran, without a
                                            stack to tell why
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
             295.0   92.2        +5.0       fault/77 (nice 0), lower in priority, not preempted, 50 page
                                            faults
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ",
    );
}

#[test]
fn what_interrupts_the_victim_on_its_way_to_user_space_is_named() {
    expect(
        "
         10   c1 switch rt/50@95:S > idle
         11   c1 idle+ 1
        102   c1 vec+ local_timer
        103   c1 timer+ hrtimer_wakeup 100
        104   c1 waking rt/50@95
        105   c1 timer-
        106   c1 vec- local_timer
        107   c1 idle-
        110   c1 switch idle:R > rt/50@95
        115   c1 irq+ 9 acpi
        300   c1 irq- 9
        310   c1 faults 2
        430   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause hard IRQ 9 (acpi)
        waited 320 µs: hard IRQ 9 (acpi) ran on CPU 1 for 185 µs (58 %); rt/50 (RT 95) took 2 page faults
        itself for 125 µs (39 %)
        → move it to another CPU: /proc/irq/9/smp_affinity_list; or shorten its handler
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               3.0    0.9        +0.0     timer late
               2.0    0.6        +0.0       exit from idle in C1
               1.0    0.3        +2.0       vector local_timer
               1.0    0.3        +3.0     timer interrupt
               1.0    0.3        +3.0       vector local_timer: hrtimer_wakeup
               6.0    1.9        +4.0     waking → switched in
               4.0    1.2        +6.0       idle in C1
               2.0    0.6        +4.0       vector local_timer: hrtimer_wakeup
             310.0   96.9       +10.0     switched in → user space
             185.0   57.8       +15.0       hard IRQ 9 (acpi)
             125.0   39.1       +10.0       return to user space, with 2 page faults
        ",
    );
}

#[test]
fn a_flood_of_function_calls_is_told_from_a_single_one() {
    expect(
        "
          0   c1 switch idle > any/3
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        104   c1 timer-
        105   c1 vec- local_timer
        106   c1 vec+ call_function_single
        107   c1 csd+ flush_tlb_func
        116   c1 csd-
        117   c1 vec- call_function_single
        118   c1 vec+ call_function_single
        119   c1 csd+ flush_tlb_func
        128   c1 csd-
        129   c1 vec- call_function_single
        130   c1 vec+ call_function_single
        131   c1 csd+ flush_tlb_func
        140   c1 csd-
        141   c1 vec- call_function_single
        142   c1 vec+ call_function_single
        143   c1 csd+ flush_tlb_func
        152   c1 csd-
        153   c1 vec- call_function_single
        154   c1 vec+ call_function_single
        155   c1 csd+ flush_tlb_func
        164   c1 csd-
        165   c1 vec- call_function_single
        166   c1 vec+ call_function_single
        167   c1 csd+ flush_tlb_func
        176   c1 csd-
        177   c1 vec- call_function_single
        178   c1 vec+ call_function_single
        179   c1 csd+ flush_tlb_func
        188   c1 csd-
        189   c1 vec- call_function_single
        190   c1 vec+ call_function_single
        191   c1 csd+ flush_tlb_func
        200   c1 csd-
        201   c1 vec- call_function_single
        202   c1 vec+ call_function_single
        203   c1 csd+ flush_tlb_func
        212   c1 csd-
        213   c1 vec- call_function_single
        214   c1 vec+ call_function_single
        215   c1 csd+ flush_tlb_func
        224   c1 csd-
        225   c1 vec- call_function_single
        226   c1 vec+ call_function_single
        227   c1 csd+ flush_tlb_func
        236   c1 csd-
        237   c1 vec- call_function_single
        238   c1 vec+ call_function_single
        239   c1 csd+ flush_tlb_func
        248   c1 csd-
        249   c1 vec- call_function_single
        250   c1 vec+ call_function_single
        251   c1 csd+ flush_tlb_func
        260   c1 csd-
        261   c1 vec- call_function_single
        262   c1 vec+ call_function_single
        263   c1 csd+ flush_tlb_func
        272   c1 csd-
        273   c1 vec- call_function_single
        274   c1 vec+ call_function_single
        275   c1 csd+ flush_tlb_func
        284   c1 csd-
        285   c1 vec- call_function_single
        290   c1 switch any/3:R > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        300,
        "
        cause flood of vector call_function_single
        waited 200 µs: a flood of 15 × vector call_function_single: flush_tlb_func ran on CPU 1 for 165 µs
        (82 %)
        → another CPU had flush_tlb_func run here: find the sender (tracepoints csd_queue_cpu, ipi_send_cpu)
          and stop it
                µs      %       begin   what
             200.0  100.0        +0.0   programmed wake-up → user space
               2.0    1.0        +0.0     timer late
               1.0    0.5        +1.0       vector local_timer
               1.0    0.5        +0.0 ?     unexplained: timer late while any/3 (nice 0) ran, without a
                                            stack to tell why
               1.0    0.5        +2.0     timer interrupt
               1.0    0.5        +2.0       vector local_timer: hrtimer_wakeup
             187.0   93.5        +3.0     waking → switched in
             165.0   82.5        +6.0       vector call_function_single: flush_tlb_func (15×)
              20.0   10.0        +5.0       any/3 (nice 0), lower in priority, not preempted
               2.0    1.0        +3.0       vector local_timer: hrtimer_wakeup
              10.0    5.0      +190.0     switched in → user space
              10.0    5.0      +190.0       return to user space
        ",
    );
}

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
        → the evidence is gone: enlarge the flight ring, or record fewer events
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while hog/99 (RT 98) ran, without a
                                            stack to tell why
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
               1.0    0.3        +0.0 ?     unexplained: who had the CPU is not recorded
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
        10) held CPU 0 and was not preempted (no stack tells why) for 145 µs (45 %)
        → lower the priority of hog, shorten its runs, or pin it to another CPU
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while low/6 (RT 10) ran, without a stack
                                            to tell why
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
        waited 320 µs: 191 µs (60 %) unexplained, most of it: who had the CPU is not recorded; any/3 (RT
        98), of equal or higher priority, held CPU 1 for 95.0 µs (30 %)
        → the record does not show it: see the limits below for what is missing
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
               2.0    0.6        +0.0     timer late
               1.0    0.3        +1.0       vector local_timer
               1.0    0.3        +0.0 ?     unexplained: timer late while any/3 (RT 98) ran, without a stack
                                            to tell why
               1.0    0.3        +2.0     timer interrupt
               1.0    0.3        +2.0       vector local_timer: hrtimer_wakeup
             297.0   92.8        +3.0     waking → switched in
              95.0   29.7        +5.0       any/3 (RT 98), of equal or higher priority
              10.0    3.1      +200.0       hard IRQ 26 (virtio1)
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
             190.0   59.4       +10.0 ?     unexplained: who had the CPU is not recorded
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ",
    );
}

#[test]
fn a_victim_that_was_still_busy_is_its_own_cause() {
    expect(
        "
          0   c1 switch idle > rt/50@95
        400   c1 switch rt/50@95:S > idle
        401   c1 vec+ local_timer
        402   c1 timer+ hrtimer_wakeup 100
        403   c1 waking rt/50@95
        404   c1 timer-
        405   c1 vec- local_timer
        410   c1 switch idle:R > rt/50@95
        450   c1 switch rt/50@95:S > idle
        ",
        100,
        420,
        "
        cause victim still busy
        waited 320 µs: rt/50 (RT 95) itself was still running for 310 µs (97 %)
        → the work of one period did not end before the next: shorten it or lengthen the period
                µs      %       begin   what
             320.0  100.0        +0.0   programmed wake-up → user space
             302.0   94.4        +0.0     timer late
             300.0   93.8        +0.0       rt/50 (RT 95), itself still busy: the timer was armed late
               1.0    0.3      +300.0       exit from idle
               1.0    0.3      +301.0       vector local_timer
               1.0    0.3      +302.0     timer interrupt
               1.0    0.3      +302.0       vector local_timer: hrtimer_wakeup
               7.0    2.2      +303.0     waking → switched in
               5.0    1.6      +305.0       idle
               2.0    0.6      +303.0       vector local_timer: hrtimer_wakeup
              10.0    3.1      +310.0     switched in → user space
              10.0    3.1      +310.0       return to user space
        ! cpu_idle is not recorded: the idle state is not known
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
               1.0    0.3        +0.0 ?     unexplained: timer late while owner/33 (RT 98) ran, without a
                                            stack to tell why
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
        waited 320 µs: spin/33 (nice 0) held CPU 1 though the waking found it in user mode, for 295 µs (92
        %)
        → the victim was not let run: look at RT throttling (sched_rt_runtime_us), the fair server and
          cgroup limits
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
        waited 320 µs: hog/99 (RT 98), of equal or higher priority, held CPU 1 for 240 µs (75 %)
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
              45.0   14.1        +5.0 ~     idle
              10.0    3.1       +60.0       hard IRQ 9 (acpi)
               2.0    0.6        +3.0       vector local_timer: hrtimer_wakeup
              20.0    6.2      +300.0     switched in → user space
              20.0    6.2      +300.0       return to user space
        ! cpu_idle is not recorded: the idle state is not known
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
              20.0    5.3        +0.0       server/60 (RT 80): running
              20.0    5.3        +0.0         server/60 (RT 80) ran
              81.0   21.3       +20.0       server/60 (RT 80): blocked
              81.0   21.3       +20.0         waited for hard IRQ 25 (virtio0)
             149.0   39.2      +101.0       server/60 (RT 80): waking → switched in
             147.0   38.7      +103.0         hog/99 (RT 98), of equal or higher priority
               2.0    0.5      +101.0         hard IRQ 25 (virtio0)
              51.0   13.4      +250.0       server/60 (RT 80): running
              51.0   13.4      +250.0         server/60 (RT 80) ran
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
        → this is the time until hard IRQ 25 (virtio0) came: look at the device or timer behind it
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
