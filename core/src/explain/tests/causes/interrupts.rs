//! Interrupts and softirqs on the way.

use super::super::expect;

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
               1.0    0.3        +0.0 ?     unexplained: timer late while any/3 (RT 98) ran, with no stack
                                            to show why
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
               1.0    0.3        +0.0 ?     unexplained: timer late while ktimers/1/19 (RT 96) ran, with no
                                            stack to show why
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
        → another CPU requested flush_tlb_func on this CPU: find the sender (tracepoints csd_queue_cpu,
        ipi_send_cpu) and stop it
                µs      %       begin   what
             200.0  100.0        +0.0   programmed wake-up → user space
               2.0    1.0        +0.0     timer late
               1.0    0.5        +1.0       vector local_timer
               1.0    0.5        +0.0 ?     unexplained: timer late while any/3 (nice 0) ran, with no stack
                                            to show why
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
