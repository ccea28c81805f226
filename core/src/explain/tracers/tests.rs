//! Texts of tracers, made small, and what is said of them.

use super::{read, Report};
use crate::time::{Cpu, Ns};

fn found(text: &str) -> (Report, String, Ns) {
    let report = read(text).expect("a tracer's text");
    let finding = report.worst.as_ref().expect("a latency");
    assert!(finding.explanation.tree.adds_up(), "{:#?}", finding.explanation.tree);
    let (sentence, total) = (finding.explanation.sentence.clone(), finding.explanation.total_ns);
    (report, sentence, total)
}

const WAKEUP: &str = "# tracer: wakeup_rt
#
# wakeup_rt latency trace v1.1.5 on 6.5.0-rt6
# --------------------------------------------------------------------
# latency: 1689 us, #5/5, CPU#0 | (M:preempt_rt VP:0, KP:0, SP:0 HP:0 #P:4)
#    | task: cyclictest-217 (uid:0 nice:0 policy:1 rt_prio:99)
stress-n-232       0dn.h413    1us+:      232:120:R   + [000]     217:  0:R cyclictest
stress-n-232       0dn.h413   12us : <stack trace>
 => try_to_wake_up
 => hrtimer_wakeup
 => do_irq
stress-n-232       0dn.h413   19us#: 0
stress-n-232       0d...3.. 1671us : __schedule
stress-n-232       0d...3.. 1676us+:      232:120:R ==> [000]     217:  0:R cyclictest
stress-n-232       0d...3.. 1687us : <stack trace>
 => probe_wakeup_sched_switch
 => __schedule
 => preempt_schedule
 => migrate_enable
 => free_unref_page_list
 => sys_munmap
 => ret_from_exception
";

#[test]
fn the_total_is_the_headings_and_the_holder_is_whom_the_lines_name() {
    let (report, sentence, total) = found(WAKEUP);
    assert_eq!(total, Ns::from_us(1689));
    let worst = report.worst.unwrap();
    assert_eq!((worst.cpu, worst.thread.to_string()), (Cpu(0), "cyclictest/217 (RT 99)".to_owned()));
    assert!(
        sentence.contains("after its timer woke it: stress-n/232 (nice 0) had it for 1.676 ms"),
        "{sentence}"
    );
    assert!(sentence.contains("the longest step took 1.652 ms"), "{sentence}");
    // The scheduler's own line has interrupts off: it says nothing of the 1.652 ms before it.
    assert!(!sentence.contains("interrupts off"), "{sentence}");
    assert!(
        sentence.contains(
            "enabled again in migrate_enable ← free_unref_page_list ← sys_munmap in system call munmap"
        ),
        "{sentence}"
    );
    assert_eq!(worst.explanation.cause, "not preempted: stress-n");
}

#[test]
fn a_section_names_who_had_interrupts_off_from_where_to_where() {
    let text = "# tracer: irqsoff
# irqsoff latency trace v1.1.5 on 3.8.0-test+
# latency: 16 us, #3/3, CPU#2 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:4)
#    | task: swapper/0-0 (uid:0 nice:0 policy:0 rt_prio:0)
#  => started at: run_timer_softirq
#  => ended at:   __do_softirq
  <idle>-0       2d.s2    0us+: _raw_spin_lock_irq <-run_timer_softirq
  <idle>-0       2dNs3   15us : _raw_spin_unlock_irq <-run_timer_softirq
  <idle>-0       2dNs3   16us+: trace_hardirqs_on <-run_timer_softirq
";
    let (report, sentence, total) = found(text);
    assert_eq!((total, report.worst.unwrap().cpu), (Ns::from_us(16), Cpu(2)));
    assert!(sentence.contains("from run_timer_softirq to __do_softirq"), "{sentence}");
    assert!(sentence.contains("took 15.0 µs"), "{sentence}");
}

#[test]
fn parts_of_timerlat_are_the_noise_it_reported() {
    let text = "# tracer: timerlat
             cc1-87882   [005] d..h...   548.771078: #402268 context    irq timer_latency     13585 ns
             cc1-87882   [005] dNLh1..   548.771082: irq_noise: local_timer:236 start 548.771077442 duration 7597 ns
             cc1-87882   [005] dNLh2..   548.771099: irq_noise: qxl:21 start 548.771085017 duration 7139 ns
             cc1-87882   [005] d...3..   548.771102: thread_noise:      cc1:87882 start 548.771078243 duration 9909 ns
      timerlat/5-1035    [005] .......   548.771104: #402268 context thread timer_latency     39960 ns
";
    let (report, sentence, total) = found(text);
    let explanation = report.worst.unwrap().explanation;
    assert_eq!((total, report.count), (Ns(39_960), 1));
    let part = |name: &str| {
        let mut leaves = explanation.tree.leaves().into_iter();
        leaves.find(|leaf| leaf.label.contains(name)).map(|leaf| leaf.duration_ns)
    };
    assert_eq!(
        (part("qxl"), part("cc1/87882"), part("local_timer")),
        (Some(Ns(7139)), Some(Ns(9909)), Some(Ns(7597)))
    );
    assert!(part("timer late").unwrap() > Ns(12_000) && part("timer late").unwrap() < Ns(14_000));
    assert!(sentence.contains("thread cc1/87882 took 9.9 µs (25 %)"), "{sentence}");
}

#[test]
fn a_call_of_the_function_graph_has_what_it_called_as_parts() {
    let text = "# tracer: function_graph
 1)               |  smp_apic_timer_interrupt() {
 1)   8.986 us    |    irq_enter();
 1)               |    hrtimer_interrupt() {
 1) + 46.372 us   |    }
 1) + 63.996 us   |  }
";
    let (_, sentence, total) = found(text);
    assert_eq!(total, Ns(63_996));
    assert!(
        sentence.contains(
            "smp_apic_timer_interrupt() took 64.0 µs on CPU 1; within it hrtimer_interrupt() 46.4 µs"
        ),
        "{sentence}"
    );
}

#[test]
fn gaps_of_hwlat_are_nobodys_and_the_total_is_the_larger_of_the_two() {
    let text = "# tracer: hwlat
   <...>-8795    [001] dn...   613.749741: #1 inner/outer(us): 41/41    ts:1702045267.016266287 count:9976
  <...>-30395   [010] d...   653.362276: #1     inner/outer(us):    0/388   ts:1711469939.505579595 count:1
";
    let (report, sentence, total) = found(text);
    assert_eq!((total, report.count), (Ns::from_us(388), 2));
    assert!(sentence.contains("CPU 10 stood still for 388 µs"), "{sentence}");
    assert_eq!(report.worst.unwrap().explanation.unexplained_ns, total);
}

#[test]
fn the_analysis_of_rtla_keeps_its_figures_and_shows_what_is_missing() {
    let text = "## CPU 23 hit stop tracing, analyzing it ##
  IRQ handler delay:                                        27.49 us (65.52 %)
  IRQ latency:                                              28.13 us
  Timerlat IRQ duration:                                     9.59 us (22.85 %)
  Blocking thread:                                           3.79 us (9.03 %)
                         objtool:49256                       3.79 us
    Blocking thread stacktrace
                -> timerlat_irq
                -> asm_sysvec_apic_timer_interrupt
                -> _raw_spin_unlock_irqrestore
                -> __x64_sys_pwrite64
------------------------------------------------------------------------
  Thread latency:                                          41.96 us (100%)
";
    let (report, sentence, total) = found(text);
    let worst = report.worst.unwrap();
    assert_eq!((total, worst.cpu), (Ns(41_960), Cpu(23)));
    assert_eq!(worst.explanation.unexplained_ns, Ns(1_090));
    assert!(sentence.contains("IRQ handler delay took 27.5 µs (66 %)"), "{sentence}");
    assert!(sentence.contains("system call pwrite64"), "{sentence}");
}

#[test]
fn other_texts_are_not_a_tracers() {
    assert_eq!(read("# tracer: nop\n  a-1 [000] d..2. 1.000001: sched_switch: x\n"), None);
    assert_eq!(read("hello\n"), None);
}
