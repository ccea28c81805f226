//! The host of a virtual machine ran something else.

use super::super::expect;

/// A timer due at 100 µs whose interrupt comes at 510 µs, in `stack`, with the steal time at its end.
fn late(stack: &str, account: &str) -> String {
    format!(
        "
          0   c1 switch idle > vnd/812
        510   c1 vec+ local_timer
        511   c1 timer+ hrtimer_wakeup 100
        512   c1 waking rt/50@95
        512   c1 stack vnd/812 {stack}
        513   c1 timer-
        514   c1 vec- local_timer
        514   c1 {account}
        515   c1 switch vnd/812:R > rt/50@95
        540   c1 switch rt/50@95:S > idle
        "
    )
}

#[test]
fn what_else_would_be_unexplained_is_the_hosts_as_far_as_its_clock_says() {
    expect(
        &late("user", "stolen 400 since 90"),
        100,
        520,
        "
        cause host took the CPU
        waited 420 µs: the host ran something else on CPU 1 (steal clock) for 400 µs (95 %)
        → dedicate a host CPU to this virtual CPU (pin it, no overcommitment), or measure on bare metal
                µs      %       begin   what
             420.0  100.0        +0.0   programmed wake-up → user space
             411.0   97.9        +0.0     timer late
             400.0   95.2        +0.0       the host did not run CPU 1
               1.0    0.2      +410.0       vector local_timer
              10.0    2.4        +0.0 ?     unexplained: timer late while vnd/812 (nice 0) ran in user mode:
                                            interrupts were on
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
fn nobody_is_blamed_for_time_that_the_host_must_have_taken() {
    expect(
        &late("kernel _raw_spin_unlock_irqrestore vnd_ioctl", "stolen 400 since 90"),
        100,
        520,
        "
        cause host took the CPU
        waited 420 µs: the host ran something else on CPU 1 (steal clock) for 386 µs (92 %)
        → dedicate a host CPU to this virtual CPU (pin it, no overcommitment), or measure on bare metal
                µs      %       begin   what
             420.0  100.0        +0.0   programmed wake-up → user space
             411.0   97.9        +0.0     timer late
             386.0   91.9        +0.0       the host did not run CPU 1
              24.0    5.7        +0.0       interrupts off in vnd/812 (nice 0)
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
fn time_that_the_host_may_have_taken_elsewhere_stays_with_who_had_the_cpu() {
    expect(
        &late("kernel _raw_spin_unlock_irqrestore vnd_ioctl", "stolen 200 since 0"),
        100,
        520,
        "
        cause irqs off: vnd
        waited 420 µs: vnd/812 (nice 0) kept interrupts off on CPU 1, in vnd_ioctl, for 314 µs (75 %); the
        host ran something else on CPU 1 (steal clock) for 96.0 µs (23 %)
        → find the section around vnd_ioctl that disables interrupts (driver or kernel update), or move vnd
          away
                µs      %       begin   what
             420.0  100.0        +0.0   programmed wake-up → user space
             411.0   97.9        +0.0     timer late
              96.0   22.9        +0.0       the host did not run CPU 1
             314.0   74.8        +0.0       interrupts off in vnd/812 (nice 0)
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
fn a_thread_that_stood_still_did_not_hold_the_cpu() {
    expect(
        "
          0   c1 switch idle > hog/7@99
        100   c1 waking rt/50@95
        900   c1 vec+ local_timer
        905   c1 vec- local_timer
        905   c1 stolen 780 since 95
        910   c1 switch hog/7@99:S > rt/50@95
        940   c1 switch rt/50@95:S > idle
        ",
        100,
        920,
        "
        cause host took the CPU
        waited 820 µs: the host ran something else on CPU 1 (steal clock) for 775 µs (95 %)
        → dedicate a host CPU to this virtual CPU (pin it, no overcommitment), or measure on bare metal
                µs      %       begin   what
             820.0  100.0        +0.0   programmed wake-up → user space
             810.0   98.8        +0.0     waking → switched in
             775.0   94.5        +0.0       the host did not run CPU 1
              30.0    3.7        +0.0       hog/7 (RT 99), of equal or higher priority
               5.0    0.6      +800.0       vector local_timer
              10.0    1.2      +810.0     switched in → user space
              10.0    1.2      +810.0       return to user space
        ",
    );
}
