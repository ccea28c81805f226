//! Texts as people paste them: several reports in one, without heads, broken by mail.

use super::read;
use super::tests::pasted;
use crate::time::{Cpu, Ns};

#[test]
fn a_heading_alone_is_no_latency_of_zero() {
    for tracer in ["wakeup", "wakeup_rt", "wakeup_dl", "irqsoff", "preemptoff", "preemptirqsoff"] {
        for latency in ["", "# latency: 0 us, #0/0, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0)\n"] {
            let report = read(&format!("# tracer: {tracer}\n#\n{latency}")).unwrap();
            assert_eq!((report.count, report.worst.is_none()), (0, true), "{tracer}");
            assert!(report.limits[0].starts_with("no latency is in the text"), "{:?}", report.limits);
        }
    }
}

/// As recorded by trace-cmd: wake-ups one after the other, without a heading.
#[test]
fn of_several_wake_ups_the_longest_counts() {
    let text = "# tracer: wakeup_rt
a-5 [000] dN.4 10.000000: 5:120:R   + [000] 8: 19:R x
a-5 [000] d..3 10.000100: 5:120:R ==> [000] 8: 19:R x
b-6 [000] dN.4 20.000000: 6:120:R   + [000] 9: 29:R y
b-6 [000] d..3 20.003000: 6:120:R ==> [000] 9: 29:R y
b-6 [000] d..3 20.003010: <stack trace>
a-5 [000] dN.4 30.000000: 5:120:R   + [000] 8: 19:R x
a-5 [000] d..3 30.000200: 5:120:R ==> [000] 8: 19:R x
";
    let (report, sentence, total) = pasted(text);
    assert_eq!(total, Ns(3_010_000));
    assert_eq!(report.worst.unwrap().thread.to_string(), "y/9 (RT 70)");
    assert!(sentence.contains("waited at least 3.010 ms for CPU 0"), "{sentence}");
    assert!(sentence.contains("b/6 (nice 0) had it for 3.000 ms"), "{sentence}");
}

/// The tracer records only the switch to its victim: a task in between also had the CPU.
#[test]
fn a_task_that_left_the_cpu_at_an_unknown_time_is_not_blamed() {
    let text = |function: &str| {
        format!(
            "# tracer: wakeup_rt
# wakeup_rt latency trace v1.1.5 on 6.1.0
# latency: 20000 us, #5/5, CPU#1 | (M:preempt_rt VP:0, KP:0, SP:0 HP:0 #P:2)
#    | task: ktimers/1-33 (uid:0 nice:0 policy:1 rt_prio:1)
   hog-89  1dN.4.    0us :       89:120:R   + [001]      33: 98:R ktimers/1
   hog-89  1dN...  100us : {function} <-asm_sysvec_apic_timer_interrupt
rcuc/1-32  1d.h1. 19000us : hrtimer_interrupt <-__sysvec_apic_timer_interrupt
rcuc/1-32  1d..3. 19900us : __schedule
rcuc/1-32  1d..3. 20000us :       32: 98:S ==> [001]      33: 98:R ktimers/1
"
        )
    };
    let (report, sentence, _) = pasted(&text("irq_exit_rcu"));
    let explanation = report.worst.unwrap().explanation;
    assert!(sentence.contains("hog/89 (nice 0), then rcuc/1/32 (RT 1) had it for 18.900 ms"), "{sentence}");
    assert_eq!(explanation.cause, "unexplained");
    assert!(!format!("{sentence} {}", explanation.advice).contains("interrupts off"), "{sentence}");
    // It was leaving: the time is that of the one that came.
    let (report, sentence, _) = pasted(&text("preempt_schedule_irq"));
    assert!(sentence.contains("rcuc/1/32 (RT 1) had it for 19.900 ms"), "{sentence}");
    assert_eq!(report.worst.unwrap().explanation.cause, "thread: rcuc/1");
}

#[test]
fn of_several_reports_in_one_text_none_has_the_figure_of_another() {
    let one = |tracer: &str, us: u32, tid: u32| {
        format!(
            "# tracer: {tracer}
# {tracer} latency trace v1.1.5 on 6.1.0
# latency: {us} us, #2/2, CPU#1 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2)
#    | task: t-{tid} (uid:0 nice:0 policy:0 rt_prio:0)
#  => started at: a{tid}
#  => ended at:   b{tid}
   t-{tid}  1d..1    0us : a{tid} <-c
   t-{tid}  1d..1  {us}us : b{tid} <-c
"
        )
    };
    let texts = [one("irqsoff", 10, 1), one("preemptoff", 70, 2), one("irqsoff", 40, 3)];
    let (report, sentence, total) = pasted(&texts.concat());
    assert_eq!(total, Ns::from_us(70));
    assert!(
        sentence.contains("preemption off for 70.0 µs on CPU 1 by t/2 (nice 0), from a2 to b2"),
        "{sentence}"
    );
    assert!(report.limits.iter().any(|limit| limit.contains("3 reports")), "{:?}", report.limits);
    let without_first_line = texts.concat().replacen("# tracer: irqsoff\n", "", 1);
    let (report, sentence, _) = pasted(&without_first_line);
    assert!(sentence.contains("from a2 to b2"), "{sentence}");
    assert!(report.limits.iter().any(|limit| limit.contains("3 reports")), "{:?}", report.limits);
}

#[test]
fn the_analysis_of_rtla_is_read_in_all_its_forms() {
    let alone = "count: 1 1
rtla timerlat hit stop tracing
  Previous IRQ interference:\t\tup to      2.20 us  IRQ handler delay:\t(exit from idle)\t    40.00 us (80.00 %)
  IRQ latency:\t\t\t\t\t\t    41.00 us
  Timerlat IRQ duration:\t\t\t\t     6.00 us (12.00 %)
  Blocking thread:\t\t\t\t\t     1.00 us (2.00 %)
  \t               swapper/2:0        \t\t     1.00 us
------------------------------------------------------------------------
  Thread latency:\t\t\t\t\t    50.00 us (100%)

Max timerlat IRQ latency from idle: 41.00 us in cpu 2
";
    let (_, sentence, total) = pasted(alone);
    assert_eq!(total, Ns::from_us(50));
    assert!(
        sentence.contains("IRQ handler delay:  (exit from idle) took 40 µs")
            || sentence.contains("(exit from idle)"),
        "{sentence}"
    );
    let quoted: String = alone.lines().map(|line| format!("> > {line}\n")).collect();
    assert_eq!(pasted(&quoted).2, total);
    let encoded = alone.replace("\t\t", "=C2=A0=C2=A0=\n=C2=A0");
    assert_eq!(pasted(&encoded).2, total);
    let of = |cpu: u32, us: u32| {
        format!("## CPU {cpu} hit stop tracing, analyzing it ##\n  IRQ latency:    1.00 us\n  Blocking thread:  {us}.00 us (9 %)\n    x:7    {us}.00 us\n  Thread latency:   {us}.50 us (100%)\n")
    };
    let (report, sentence, total) = pasted(&(of(1, 20) + &of(3, 30)));
    assert_eq!(total, Ns(30_500));
    assert!(sentence.starts_with("rtla timerlat stopped on CPU 3"), "{sentence}");
    assert!(report.limits.iter().any(|limit| limit.contains("2 analyses")));
}

#[test]
fn a_silence_in_which_another_task_came_is_nobodys() {
    let text = "# tracer: function
 a-5 [000] d..2 1.000000: f <-g
 b-6 [000] d..2 1.900000: f <-g
 b-6 [000] ...1 1.900100: schedule <-h
 b-6 [000] ...1 2.900100: f <-g
 b-6 [000] ...1 2.900300: f <-g
";
    let (report, sentence, total) = pasted(text);
    assert_eq!((total, report.lines), (Ns::from_us(200), 5));
    assert!(sentence.starts_with("b/6 had CPU 0 for 200 µs"), "{sentence}");
}

#[test]
fn the_cpu_of_a_broken_line_of_hwlat_is_that_before_the_break() {
    for rest in ["#1\ninner/outer(us): 37140/28212", "\n#1   inner/outer(us): 37140/28212"] {
        let line = format!("<...>-791 [001] dn..... 328.409602: {rest} ts:1795710083.070572098 count:20");
        let (report, _, total) = pasted(&format!("# tracer: hwlat\n{line}\n"));
        assert_eq!((total, report.worst.unwrap().cpu), (Ns::from_us(37_140), Cpu(1)));
    }
}

/// After its interrupt has returned, what keeps preemption off is the code that was interrupted.
#[test]
fn an_interrupt_that_returned_keeps_nothing_off() {
    let text = |depth: &str| {
        format!(
            "# tracer: wakeup_rt
#
# wakeup_rt latency trace v1.1.5 on 3.18.43-rt46
# latency: 412 us, #6/6, CPU#1 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2)
#    | task: irq/45-eth0-812 (uid:0 nice:0 policy:1 rt_prio:50)
  kdump-1400    1d.h4    0us :     1400:120:R   + [001]   812: 49:S irq/45-eth0
  kdump-1400    1dNh1    3us!: irq_exit <-handle_IRQ
  kdump-1400    1.N.{depth}  388us : _raw_spin_unlock <-zap_pte_range
  kdump-1400    1dN.2  390us+: __schedule <-preempt_schedule
  kdump-1400    1d..3  412us :     1400:120:R ==> [001]   812: 49:R irq/45-eth0
"
        )
    };
    let advice = |text: &str| read(text).unwrap().worst.unwrap().explanation.advice;
    let held = advice(&text("1"));
    assert!(held.starts_with("_raw_spin_unlock ← zap_pte_range keeps preemption off that long"), "{held}");
    let not = advice(&text("."));
    assert!(!not.contains("irq_exit") && !not.contains("preemption off that long"), "{not}");
}

/// A wake-up by an interrupt of the victim's own CPU: that CPU was awake, whatever it did until the switch.
#[test]
fn a_cpu_that_woke_the_thread_itself_is_not_slow_to_leave_idle() {
    let text = |cpu: u32, flags: &str| {
        format!(
            "# tracer: wakeup_rt
# wakeup_rt latency trace v1.1.5 on 6.1.0
# latency: 400 us, #5/5, CPU#1 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2)
#    | task: control-33 (uid:0 nice:0 policy:1 rt_prio:80)
  <idle>-0  {cpu}dNh4.    0us :        0:120:R   + [001]      33: 19:R control
  <idle>-0  1d{flags}1.   5us!: eth_poll <-eth_interrupt
  <idle>-0  1d{flags}1. 390us : irq_exit_rcu <-common_interrupt
  <idle>-0  1d..3. 398us : __schedule <-schedule_idle
  <idle>-0  1d..3. 399us :        0:120:R ==> [001]      33: 19:R control
"
        )
    };
    let told = |text: &str| {
        let (report, sentence, _) = pasted(text);
        let explanation = report.worst.unwrap().explanation;
        (sentence, explanation.cause, explanation.advice)
    };
    let (sentence, cause, advice) = told(&text(1, ".h"));
    assert!(sentence.contains("had left idle before, and took 399 µs"), "{sentence}");
    assert_eq!(cause, "hard interrupt");
    assert!(advice.starts_with("an interrupt took that long"), "{advice}");
    let (_, cause, advice) = told(&text(1, ".."));
    assert_eq!(cause, "unexplained");
    assert!(advice.contains("idle states are not the cause"), "{advice}");
    // Another CPU woke it.
    let (sentence, cause, advice) = told(&text(0, ".."));
    assert_eq!(cause, "idle exit", "{sentence}");
    assert!(advice.contains("deep idle states"), "{advice}");
}

#[test]
fn a_table_in_nanoseconds_is_not_read_as_microseconds() {
    let text = |unit: &str| {
        format!(
            "# RTLA timerlat histogram\n# Time unit is {unit}\n# Duration:   0 00:00:02\nIndex   IRQ-000   Thr-000\n\
             1000       7         0\nover:      0         1\ncount:     7         1\nmin:    1020     52930\n\
             avg:    1100     52930\nmax:    1400     52930\n"
        )
    };
    let limits = |unit: &str| read(&text(unit)).unwrap().limits.join("; ");
    assert!(limits("nanoseconds (ns)").contains("Thr-000, 52.9 µs"), "{}", limits("nanoseconds (ns)"));
    assert!(limits("microseconds (us)").contains("Thr-000, 52.930 ms"), "{}", limits("microseconds (us)"));
}

/// A copy of a web page lacks the end of the line above.
#[test]
fn the_latency_on_one_line_with_the_rule_above_it_is_the_total() {
    let text = |end: &str| {
        format!(
            "# tracer: irqsoff
#
# irqsoff latency trace v1.1.5 on 5.4.161
# --------------------------------------------------------------------{end}# latency: 7038 us, #3/3, CPU#2 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:8)
#    -----------------
#    | task: kworker/u16:4-81 (uid:0 nice:0 policy:0 rt_prio:0)
#    -----------------
#  => started at: vprintk_emit
#  => ended at:   vprintk_emit
kworker/-81        2d..2    0us#: console_trylock_spinning <-vprintk_emit
kworker/-81        2d..2 7038us : console_trylock_spinning <-vprintk_emit
kworker/-81        2d..2 7039us : trace_hardirqs_on <-vprintk_emit
"
        )
    };
    let (_, glued, total) = pasted(&text(""));
    assert_eq!(total, Ns::from_us(7_038));
    assert!(glued.contains("interrupts off for 7.038 ms on CPU 2"), "{glued}");
    assert_eq!(pasted(&text("\n")).1, glued);
}

#[test]
fn lines_of_a_tracer_without_its_heading_are_read() {
    let text = "\
> 1)               |  smp_apic_timer_interrupt() {
> 1)               |    irq_enter() {
> 1)   8.986 us    |    }
> 1)               |    hrtimer_interrupt() {
> 1)               |      ...
> 1)   1.196 us    |        }
> 1) + 29.839 us   |      }
> 1) + 36.056 us   |    }
> 1)               |    irq_exit() {
> 1) + 63.996 us   |  }
";
    // Lines are left out: the braces show which call ends.
    let (_, sentence, total) = pasted(text);
    assert_eq!(total, Ns(63_996));
    assert!(sentence.contains("smp_apic_timer_interrupt() took 64.0 µs"), "{sentence}");
    assert!(sentence.contains("hrtimer_interrupt() 36.1 µs"), "{sentence}");
    let tail = "\
   <idle>-0         0dnh5.   11us+:        0:120:R   + [000]     119: 49:R irq/104-eth
   <idle>-0         0dnh5.   57us!: wake_up_process <-__handle_irq_event_percpu
   <idle>-0         0d..3.  282us+: __schedule <-schedule_idle
   <idle>-0         0d..3.  302us+:        0:120:R ==> [000]     119: 49:R irq/104-eth
";
    let (report, sentence, total) = pasted(tail);
    assert_eq!(total, Ns::from_us(291));
    assert!(report.worst.unwrap().thread.comm.starts_with("irq/104"), "{sentence}");
    assert!(sentence.contains("the longest step took 225 µs"), "{sentence}");
    assert!(read("a-1 [000] 1.000000: sched_switch: a:1 [120] S ==> b:2 [120]\n").is_none());
    assert!(read("key | value;\n1) | x;\n").is_none());
}

/// The first lines were overwritten: the function that ends the measurement is there.
#[test]
fn a_wake_up_of_an_old_kernel_does_not_blame_its_victim() {
    let text = "(          player-60|#0): new 526 us maximum-latency wakeup.
preemption latency trace v1.1.5 on 2.6.18-rt
--------------------------------------------------------------------
 latency: 526 us, #13/13, CPU#0 | (M:rt VP:0, KP:0, SP:1 HP:1 #P:2)
    -----------------
    | task: player-60 (uid:500 nice:0 policy:1 rt_prio:61)
    -----------------
   dd-9        0Dnh2    1us!: try_to_wake_up <<...>-60> (-5 20)
   dd-9        0...1  500us : copy_page (do_wp_page)
   <...>-60    0D..2  522us : thread_return <dd-9> (20 161)
   <...>-60    0D..1  523us : trace_stop_sched_switched <<...>-60> (38 0)
";
    let (report, sentence, total) = pasted(text);
    assert_eq!(total, Ns::from_us(526));
    assert!(sentence.contains("player/60 (RT 61) waited 526 µs for CPU 0"), "{sentence}");
    let explanation = report.worst.unwrap().explanation;
    assert!(explanation.cause.ends_with("dd"), "{}", explanation.cause);
    assert!(!explanation.advice.contains("player"), "{}", explanation.advice);
}

#[test]
fn a_function_trace_with_wake_ups_is_asked_for_these() {
    let functions = "# tracer: function\n#\n  a-1 [000] d... 1.000001: ttwu <-wake_up\n  a-1 [000] d... 1.000041: x <-y\n";
    assert!(read(functions).is_some());
    let events = format!(
        "{functions}  a-1 [000] d... 1.000100: sched_wakeup: comm=b pid=2 prio=120 target_cpu=000\n  a-1 [000] d... \
         1.000200: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120\n"
    );
    assert!(read(&events).is_none());
}

#[test]
fn lines_that_were_not_read_are_counted_and_make_the_answer_doubtful() {
    let line = |at: u32, what: &str| format!("  dd-7  [001] d.h1.  1.0000{at}: {what}\n");
    let functions: String = (10..30).map(|at| line(at, "f <-g")).collect();
    let of = |text: &str| {
        let report = read(text).unwrap();
        (report.is_doubtful, report.limits.join("; "))
    };
    let text = format!("# tracer: function\n#\n{functions}");
    assert_eq!(of(&text), (false, String::new()));
    let (is_doubtful, limits) =
        of(&text.replace("  dd-7  [001] d.h1.  1.000015", "  dd-7;[001];d.h1.;1.000015"));
    assert!(
        is_doubtful && limits.contains("a line is not understood") && limits.contains("'dd-7;[001]"),
        "{limits}"
    );
    assert!(of(&text.replace("1.000015", "1.000011")).1.contains("time goes back"));
    assert!(of(&text[..text.len() - 9]).1.contains("within a line"), "{}", of(&text[..text.len() - 9]).1);
    assert!(
        of(&format!("# tracer: function\n# entries-in-buffer/entries-written: 90/90   #P:2\n{functions}")).0
    );
    // Samples are numbered.
    let sample =
        |number: u32| line(10 + number, &format!("#{number} context    irq timer_latency     13{number} ns"));
    let samples = |numbers: [u32; 3]| "# tracer: timerlat\n".to_owned() + &numbers.map(sample).concat();
    assert!(!of(&samples([1, 2, 3])).0);
    assert!(of(&samples([1, 2, 4])).1.contains("between #2 and #4"));
    let unfinished = samples([1, 2, 3]).replace("irq timer_latency     133 ns", "irq timer_la");
    assert!(of(&unfinished).1.contains("a line is not understood"));
}

/// The end of a text: the figure, the victim and the start are in the part that is missing.
#[test]
fn functions_in_the_latency_format_without_a_heading_are_a_doubt() {
    let text = "      dd-874       1dn.h3..   87us+: _raw_spin_unlock_irqrestore <-try_to_wake_up
      dd-874       1dn.h1..  142us : irq_exit_rcu <-sysvec_apic_timer_interrupt
rcu_pree-17        1d...2..  216us :   17: 98:I ==> [001]      28: 98:R ktimers/1
";
    let report = read(text).unwrap();
    assert!(report.is_doubtful && report.limits[0].contains("heading is missing"), "{:?}", report.limits);
}
