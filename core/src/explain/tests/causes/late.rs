//! The timer's interrupt came late.

use super::super::{expect, notation};
use crate::explain::{explain_timer_wakeup, Interval};
use crate::time::{Cpu, Mono, Tid};

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
        ! interrupt-off sections are not traced (preemptirq:irq_disable would show them)
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
        waited 420 µs: 400 µs (95 %) unexplained, most of it: timer late: not pending when interrupts were
        re-enabled at 0.000210000
        → measure the hardware and the host alone: `lathunt hwlat`; compare steal time and SMI counts
                µs      %       begin   what
             420.0  100.0        +0.0   programmed wake-up → user space
             411.0   97.9        +0.0     timer late
              10.0    2.4      +100.0       hard IRQ 25 (virtio0)
               1.0    0.2      +410.0       vector local_timer
             400.0   95.2        +0.0 ?     unexplained: timer late: not pending when interrupts were
                                            re-enabled at 0.000210000
               1.0    0.2      +411.0     timer interrupt
               1.0    0.2      +411.0       vector local_timer: hrtimer_wakeup
               3.0    0.7      +412.0     waking → switched in
               2.0    0.5      +412.0       vector local_timer: hrtimer_wakeup
               1.0    0.2      +414.0       switching away from vnd/812 (nice 0)
               5.0    1.2      +415.0     switched in → user space
               5.0    1.2      +415.0       return to user space
        ! interrupt-off sections are not traced (preemptirq:irq_disable would show them)
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
        → another CPU requested spin_with_irqs_off on this CPU: find the sender (tracepoints csd_queue_cpu,
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
               5.0    3.1      +155.0       the way from the interrupt to the switch
               2.0    1.2      +153.0       vector local_timer: hrtimer_wakeup
               2.0    1.2      +160.0     switched in → user space
               2.0    1.2      +160.0       return to user space
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
               5.0    1.6      +305.0       the way from the interrupt to the switch
               2.0    0.6      +303.0       vector local_timer: hrtimer_wakeup
              10.0    3.1      +310.0     switched in → user space
              10.0    3.1      +310.0       return to user space
        ! cpu_idle is not recorded: the idle state is unknown
        ",
    );
}

#[test]
fn a_victim_that_armed_its_timer_in_time_is_not_blamed_for_being_interrupted_by_it() {
    let interval = |more: &str| {
        let window = notation::window(&format!(
            "
              0 c1 from arming
              0 c1 switch idle > rt/50@95
            400 c1 vec+ local_timer
            401 c1 timer+ hrtimer_wakeup 100
            402 c1 waking rt/50@95
            {more}
            403 c1 timer-
            404 c1 vec- local_timer
            450 c1 switch rt/50@95:S > idle
            "
        ));
        let (begin, end) = (Mono(100_000), Mono(402_000));
        explain_timer_wakeup(&window, &Interval { tid: Tid(50), cpu: Cpu(1), begin, end })
    };
    let unknown = interval("");
    assert!(unknown.cause.contains("unexplained"), "{}", unknown.cause);
    assert_eq!(unknown.unexplained_ns.0, 300_000);
    let in_user = interval("402 c1 stack rt/50 user");
    assert!(in_user.sentence.contains("stalled") || in_user.cause.contains("unexplained"), "{in_user:#?}");
    let masked = interval(
        "402 c1 stack rt/50 kernel hrtimer_interrupt asm_sysvec_apic_timer_interrupt _raw_spin_unlock_irqrestore \
         vnd_ioctl",
    );
    assert!(masked.cause.starts_with("irqs off"), "{}", masked.cause);
}

#[test]
fn a_wake_up_that_is_measured_to_the_switch_in_says_so() {
    let events = "
          0 c1 switch idle > rt/50@95
         10 c1 switch rt/50@95:S > idle
        101 c1 vec+ local_timer
        102 c1 timer+ hrtimer_wakeup 100
        103 c1 waking rt/50@95
        104 c1 timer-
        105 c1 vec- local_timer
        110 c1 switch idle > rt/50@95
    ";
    let (begin, end) = (Mono(100_000), Mono(110_000));
    let interval = Interval { tid: Tid(50), cpu: Cpu(1), begin, end };
    let explanation = explain_timer_wakeup(&notation::window(events), &interval);
    assert_eq!(explanation.tree.label, "programmed wake-up → switched in");
    assert!(explanation.tree.adds_up() && explanation.tree.children.len() == 3, "{explanation:#?}");
}
