//! The CPU stalled, or an interrupt took long outside its recorded handlers.

use super::super::{expect, explained, notation, told};
use crate::explain::standstill::BOTH;
use crate::explain::Standstills;
use crate::time::{Cpu, Mono};

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
        waited 1.810 ms: 1.401 ms (77 %) unexplained, most of it: CPU 1 stalled: with spin/33 (nice 0) in
        user mode, no timer interrupt came although a timer was due
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
            1400.0   77.3      +300.0 ?     unexplained: CPU 1 stalled: with spin/33 (nice 0) in user mode,
                                            no timer interrupt came although a timer was due
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
        → reprogramming the clock event does not take this long: measure the hardware and the host alone:
        `lathunt hwlat`
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

/// A timer of CPU 1 due at 100 comes at 1600, and finds a thread in the kernel. `^ELSE` holds what else is known.
const IN_THE_KERNEL: &str = "
          0   c1 switch idle > reader/33
        ^ELSE
       1600   c1 vec+ local_timer
       1601   c1 timer+ hrtimer_wakeup 100
       1602   c1 stack reader/33 kernel down_read
       1603   c1 waking rt/50@95
       1604   c1 timer-
       1605   c1 vec- local_timer
       1608   c1 switch reader/33:R > rt/50@95
       1950   c1 switch rt/50@95:S > idle";

#[test]
fn nobody_is_blamed_for_what_stopped_another_cpu_too() {
    let cause = |known: &str| explained(&notation::window(&IN_THE_KERNEL.replace("^ELSE", known)), 100, 1610);
    let alone = cause("");
    assert!(alone.cause == "irqs off: reader" && alone.sentence.contains("probably"), "{alone:#?}");
    let together = cause("300 c0 still 1590");
    assert_eq!(together.cause, "the CPU stood still");
    let says =
        "CPU 1 stalled: no timer interrupt came although a timer was due, nor did one on CPU 0, where interrupts were on";
    assert!(together.sentence.contains(says), "{}", together.sentence);
    assert!(together.unexplained_ns.0 >= 1_490_000, "{together:#?}");
    for another in ["300 c0 still 600", "300 c0 still 4000", "300 c1 still 1590", "1640 c0 still 1900"] {
        assert_eq!(cause(another).cause, "irqs off: reader", "{another}");
    }
    let it_ran = cause("300 c0 still 1590\n 900 c1 nmi 12");
    assert_eq!(it_ran.cause, "irqs off: reader", "it took an NMI meanwhile");
}

/// Both were in the kernel, so neither proves that it stalled: no thread is blamed, unless one waited for the other.
#[test]
fn nobody_is_blamed_where_two_cpus_took_no_interrupt_at_the_same_time() {
    let other = |due: u64, at: u64, stack: &str| {
        format!(
            "{at} c0 vec+ local_timer\n{} c0 timer+ tick_nohz_handler {due}\n{} c0 stack sh/44 {stack}\n{} c0 timer-\n{} c0 vec- local_timer",
            at + 1,
            at + 2,
            at + 3,
            at + 4
        )
    };
    let case = |place: &str, other: &str| {
        let known =
            IN_THE_KERNEL.replace("kernel down_read", place).replace("^ELSE", "50 c0 switch idle > sh/44");
        explained(&notation::window(&format!("{known}\n{other}")), 100, 1610)
    };
    for place in ["kernel down_read", "kernel+ driver_write f", "kernel _raw_spin_unlock_irqrestore f"] {
        let both = case(place, &other(150, 1_700, "kernel vfs_write"));
        assert_eq!(both.cause, BOTH, "{place}");
        let says = "no timer interrupt came although a timer was due on CPU 1, nor did one on CPU 0";
        assert!(both.sentence.contains(says), "{}", both.sentence);
        assert!(Standstills::default().note(Cpu(1), &both).is_empty(), "likely is not proved");
        for (due, at, stack) in [
            (1_650, 1_700, "kernel vfs_write"), // its timer was due when the other came
            (150, 400, "kernel vfs_write"),     // it took its interrupt long before
            (150, 9_000, "kernel vfs_write"),   // it stood still for much longer
            (150, 1_700, "kernel native_queued_spin_lock_slowpath _raw_spin_lock_irqsave f"),
        ] {
            assert_eq!(
                case(place, &other(due, at, stack)).cause,
                "irqs off: reader",
                "{place} {due} {at} {stack}"
            );
        }
    }
    let sleeps = other(150, 1_700, "kernel schedule_rtlock rt_spin_lock vfs_write");
    assert_eq!(case("kernel down_read", &sleeps).cause, BOTH, "a lock that sleeps");
    let waits = case("kernel+ multi_cpu_stop cpu_stopper_thread", &other(150, 1_700, "kernel vfs_write"));
    assert!(waits.cause.starts_with("irqs off"), "{waits:#?}");
}

#[test]
fn an_explanation_tells_what_it_proves_to_those_of_other_cpus() {
    let in_user = IN_THE_KERNEL.replace("kernel down_read", "user").replace("^ELSE", "");
    let explanation = explained(&notation::window(&in_user), 100, 1610);
    let mut known = Standstills::default();
    let new = known.note(Cpu(1), &explanation);
    let [standstill] = new[..] else { panic!("{explanation:#?}") };
    assert_eq!((standstill.begin, standstill.end), (Mono(100_000), Mono(1_600_000)));
    assert!(known.note(Cpu(1), &explanation).is_empty(), "nothing new");
    assert_eq!(known.beside(Cpu(0), Mono(1_500_000), Mono(1_700_000)), new);
    assert!(known.beside(Cpu(1), Mono(1_500_000), Mono(1_700_000)).is_empty(), "its own");
    assert!(known.beside(Cpu(0), Mono(1_600_000), Mono(1_700_000)).is_empty(), "over by then");
    // Where they came back on is shown, not for how long they were off: a host may have stopped the CPU just there.
    let sure = IN_THE_KERNEL.replace("kernel down_read", "kernel _raw_spin_unlock_irqrestore f");
    let cause = |known: &str| explained(&notation::window(&sure.replace("^ELSE", known)), 100, 1610).cause;
    assert_eq!(cause("300 c0 still 1590"), "the CPU stood still");
    assert_eq!(cause(""), "irqs off: reader");
}

#[test]
fn what_the_code_says_of_the_interrupted_instruction_decides_whether_interrupts_were_off() {
    let cause = |mode: &str| {
        let known = IN_THE_KERNEL.replace("kernel down_read", mode).replace("^ELSE", "");
        explained(&notation::window(&known), 100, 1610)
    };
    let on = cause("kernel- clear_user f");
    assert_eq!(on.cause, "timer late, unexplained");
    let says =
        "timer late while reader/33 (nice 0) ran in the kernel, in clear_user, where interrupts are on";
    assert!(on.sentence.contains(says), "{}", on.sentence);
    assert_eq!(Standstills::default().note(Cpu(1), &on).len(), 1, "as good as user mode");
    let off = cause("kernel+ driver_write f");
    assert!(
        off.sentence.contains("reader/33 (nice 0) kept interrupts off on CPU 1, in driver_write"),
        "{}",
        off.sentence
    );
    assert!(cause("kernel driver_write f").sentence.contains("probably with interrupts off"));
    // By its name it is the end of such a section.
    assert_eq!(cause("kernel- _raw_spin_unlock_irqrestore f").cause, "irqs off: reader");
}

#[test]
fn a_thread_in_the_kernel_that_took_no_interrupt_either_is_not_said_to_have_kept_preemption_off() {
    let events = "
          0   c1 switch idle > reader/33
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        103   c1 stack reader/33 kernel filemap_read
        104   c1 timer-
        105   c1 vec- local_timer
       1900   c1 vec+ local_timer
       1901   c1 timer+ tick_nohz_handler ^DUE
       1904   c1 timer-
       1905   c1 vec- local_timer
       1908   c1 switch reader/33:R > rt/50@95
       1950   c1 switch rt/50@95:S > idle";
    let cause = |due: &str| explained(&notation::window(&events.replace("^DUE", due)), 100, 1910);
    let none = cause("300");
    assert_eq!(none.cause, "no interrupts: reader");
    let says = "and served no timer interrupt although a timer was due (interrupts off, or the CPU stalled)";
    assert!(none.sentence.contains(says) && none.advice.contains("lathunt hwlat"), "{none:#?}");
    assert_eq!(cause("1700").cause, "preemption off: reader", "the timer was due at the end of it");
}

/// What a stack proves of the time before a timer's interrupt holds after a waking as well, and a second CPU without
/// interrupts makes one cause outside of both likelier than the thread on one.
#[test]
fn nobody_is_blamed_for_late_interrupts_after_a_waking_either() {
    let events = "
          0   c1 switch idle > dd/33
        ^OTHER
        101   c1 vec+ local_timer
        102   c1 timer+ hrtimer_wakeup 100
        103   c1 waking rt/50@95
        103   c1 stack dd/33 ^BEFORE
        104   c1 timer-
        105   c1 vec- local_timer
       1900   c1 vec+ local_timer
       1901   c1 timer+ tick_nohz_handler 300
       1902   c1 stack dd/33 ^LATE
       1904   c1 timer-
       1905   c1 vec- local_timer
       1908   c1 switch dd/33:R > rt/50@95
       1950   c1 switch rt/50@95:S > idle
       2000   c0 vec+ local_timer
       2001   c0 timer+ tick_nohz_handler ^OTHERDUE
       2002   c0 timer-
       2003   c0 vec- local_timer";
    let of = |before: &str, late: &str, other: &str, due: &str| {
        let text = events.replace("^BEFORE", before).replace("^LATE", late);
        explained(&notation::window(&text.replace("^OTHERDUE", due).replace("^OTHER", other)), 100, 1910)
    };
    let cause = |before: &str, late: &str| of(before, late, "", "2000").cause;
    let (unknown, on, off) = ("kernel filemap_read", "kernel- clear_user f", "kernel+ driver_write f");
    assert_eq!(cause(unknown, unknown), "no interrupts: dd");
    assert_eq!(cause(on, off), "no interrupts: dd", "it turned them off since");
    assert_eq!(cause(on, unknown), "unexplained");
    let late = of(unknown, on, "", "2000");
    assert_eq!(late.cause, "the CPU stood still");
    assert!(
        late.sentence.contains("with dd/33 (nice 0) in clear_user, where interrupts are on"),
        "{late:#?}"
    );
    assert_eq!(Standstills::default().note(Cpu(1), &late).len(), 1, "for the cases of other CPUs");
    let running = "50 c0 switch idle > sh/44";
    let both = of(unknown, unknown, running, "350");
    assert_eq!(both.cause, BOTH);
    assert!(both.sentence.contains("nor did one on CPU 0"), "{}", both.sentence);
    assert!(Standstills::default().note(Cpu(1), &both).is_empty(), "likely is not proved");
    for (other, due) in
        [(running, "1700"), ("50 c0 switch idle > sh/44\n 900 c0 irq+ 25 eth0\n 901 c0 irq- 25", "350")]
    {
        assert_eq!(of(unknown, unknown, other, due).cause, "no interrupts: dd", "{other} {due}");
    }
}

/// A virtual machine is stopped after its interrupt: the trace ends before the next one, which alone would show since
/// when it was due. But a CPU that runs a thread ticks.
#[test]
fn a_tick_that_did_not_come_is_missed_also_where_the_record_ends_without_it() {
    let events = "
          0   c1 switch idle > reader/33
        ^TICKS
       4101   c1 vec+ local_timer
       4102   c1 timer+ hrtimer_wakeup 4100
       4103   c1 waking rt/50@95
       4103   c1 stack reader/33 ^WHERE
       4104   c1 timer-
       4105   c1 vec- local_timer
        ^ELSE
      19908   c1 switch reader/33:R > rt/50@95
      19950   c1 switch rt/50@95:S > idle";
    let tick = |due: u64| {
        let [a, b, c, d] = [1, 2, 3, 4].map(|after| due + after);
        format!("{a} c1 vec+ local_timer\n{b} c1 timer+ tick_nohz_handler {due}\n{c} c1 timer-\n{d} c1 vec- local_timer\n")
    };
    let case = |events: &str, ticks: &[u64], known: &str| {
        let ticks: String = ticks.iter().map(|&due| tick(due)).collect();
        explained(&notation::window(&events.replace("^TICKS", &ticks).replace("^ELSE", known)), 4_100, 19_910)
    };
    let on = events.replace("^WHERE", "kernel- clear_user f");
    let events = events.replace("^WHERE", "kernel filemap_read");
    let cause = |ticks: &[u64], known: &str| case(&events, ticks, known);
    let alone = cause(&[1_500, 2_500, 3_500], "");
    assert_eq!(alone.cause, "no interrupts: reader", "{alone:#?}");
    let on = case(&on, &[1_500, 2_500, 3_500], "");
    assert_eq!(on.cause, "unexplained", "the waking found it where they are on: {on:#?}");
    assert!(on.sentence.contains("found reader/33 (nice 0) in clear_user, where interrupts are on"));
    let together = cause(&[1_500, 2_500, 3_500], "4200 c0 still 19900");
    assert_eq!(together.cause, "the CPU stood still");
    assert!(together.unexplained_ns.0 >= 15_400_000, "{together:#?}");
    // It kept ticking; it did not tick before, either; there was only one earlier tick.
    let ticking: String = (0..15).map(|n| tick(4_500 + 1_000 * n)).collect();
    assert_eq!(cause(&[1_500, 2_500, 3_500], &ticking).cause, "preemption off: reader");
    assert_eq!(cause(&[1_500, 2_500], "").cause, "preemption off: reader");
    assert_eq!(cause(&[3_500], "").cause, "preemption off: reader");
    // Ticks may have come that are not in the record: those of this thread are not, or some were lost.
    let another = tick(2_500) + "2600 c1 switch reader/33:R > other/34\n" + &tick(3_500);
    let another = another + "3600 c1 switch other/34:R > reader/33\n";
    let of_another = events.replace("^TICKS", &(tick(1_500) + &another)).replace("^ELSE", "");
    assert!(!explained(&notation::window(&of_another), 4_100, 19_910).cause.contains("no interrupts"));
    assert!(!cause(&[1_500, 2_500, 3_500], "5000 c1 lost 12").cause.contains("no interrupts"));
}

/// Not that of a softirq, which may itself be late; and not if most of the time came after.
#[test]
fn a_timer_that_is_not_pending_when_an_interrupt_returns_proves_that_nothing_there_kept_it_away() {
    let proved = |text: &str| {
        Standstills::default().note(Cpu(1), &explained(&notation::window(text), 100, 1610)).len()
    };
    let with_irq = |at: u64| {
        let irq = format!("{at}   c1 irq+ 25 virtio0\n{}   c1 irq- 25", at + 10);
        IN_THE_KERNEL.replace("^ELSE", &irq)
    };
    assert_eq!((proved(&with_irq(1_500)), proved(&with_irq(200))), (1, 0));
    let of_softirq: Vec<String> =
        with_irq(1_500).lines().filter(|line| !line.contains(" vec")).map(str::to_owned).collect();
    assert_eq!(proved(&of_softirq.join("\n")), 0);
}
