//! Reduced texts of tracers and their explanations.

use super::{read, Report};
use crate::time::{Cpu, Ns};

pub(super) fn found(text: &str) -> (Report, String, Ns) {
    let report = read(text).expect("a tracer's text");
    let finding = report.worst.as_ref().expect("a latency");
    assert!(finding.explanation.tree.adds_up(), "{:#?}", finding.explanation.tree);
    let (sentence, total) = (finding.explanation.sentence.clone(), finding.explanation.total_ns);
    (report, sentence, total)
}

pub(super) const WAKEUP: &str = "# tracer: wakeup_rt
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
    assert!(sentence.contains("CPU 10 stalled for 388 µs"), "{sentence}");
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

pub(super) fn pasted(text: &str) -> (Report, String, Ns) {
    found(&crate::trace::ftrace_text::tidy::text(text.as_bytes()))
}

/// As kernels printed it before 2.6.29: a heading without '#', callers in parentheses.
#[test]
fn the_latency_tracer_of_old_kernels_is_read() {
    let text = "preemption latency trace v1.1.5 on 2.6.16-rc1
--------------------------------------------------------------------
 latency: 7418 us, #9/9, CPU#0 | (M:rt VP:0, KP:0, SP:0 HP:0)
    -----------------
    | task: gmplayer-8638 (uid:1000 nice:-20 policy:0 rt_prio:0)
    -----------------
    Xorg-2154  0d.s2    1us : __trace_start_sched_wakeup (try_to_wake_up)
    Xorg-2154  0dns.    6us!: rt_run_flush (run_timer_softirq)
    Xorg-2154  0dns. 7400us : preempt_schedule_irq (need_resched)
   <...>-8638  0dn.. 7410us : __switch_to (__schedule)
";
    let (report, sentence, total) = pasted(text);
    assert_eq!(
        (total, report.worst.unwrap().thread.to_string()),
        (Ns::from_us(7418), "gmplayer/8638 (nice -20)".to_owned())
    );
    assert!(sentence.contains("Xorg/2154 had it for 7.410 ms"), "{sentence}");
    assert!(sentence.contains("rt_run_flush ← run_timer_softirq"), "{sentence}");
    let text = "# tracer: irqsoff\n irqsoff latency trace v1.1.5 on 2.6.26 \n latency: 12 us, #3/3, CPU#1 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2) \n    | task: bash-3730 (uid:0 nice:0 policy:0 rt_prio:0) \n => started at: sys_setpgid \n => ended at:   sys_setpgid \n    bash-3730  1d...    0us : _write_lock_irq (sys_setpgid) \n    bash-3730  1d..1    1us+: _write_unlock_irq (sys_setpgid) \n";
    let (_, sentence, total) = pasted(text);
    assert_eq!(total, Ns::from_us(12));
    assert!(sentence.contains("by bash/3730 (nice 0), from sys_setpgid to sys_setpgid"), "{sentence}");
}

/// Lines cut off at the start or omitted belong to no function.
#[test]
fn lines_that_are_left_out_are_no_step_of_what_is_around_them() {
    let text = "# tracer: preemptoff
# preemptoff latency trace v1.1.5 on 5.11.0
# latency: 1130504 us, #51247/49333412, CPU#3 | (M:preempt VP:0, KP:0,
SP:0 HP:0 #P:4)
#    | task: ksoftirqd/3-27 (uid:0 nice:0 policy:0 rt_prio:0)
#  => started at: __do_softirq
#  => ended at:   __do_softirq
ksoftirq-27        3.Ns1 1055999us : end_page_writeback <-ext4_finish_bio
ksoftirq-27        3.Ns1 1056003us : test_clear_page_writeback
<-end_page_writeback
......
ksoftirq-27        3.Ns1 1130490us : blk_mq_free_request <-blk_mq_end_request
";
    let (report, sentence, total) = pasted(text);
    assert_eq!(total, Ns(1_130_504_000));
    assert!(sentence.contains("test_clear_page_writeback ← end_page_writeback and blk_mq_free_request ← blk_mq_end_request, where lines were left out"), "{sentence}");
    assert!(sentence.contains("the text has no lines for 1.056 s (93 %)"), "{sentence}");
    assert_eq!(report.worst.unwrap().explanation.unexplained_ns, Ns(1_055_999_000));
}

/// The heading says whose wake-up is meant.
#[test]
fn wake_ups_of_others_in_the_text_are_not_the_victims() {
    let text = "# wakeup_rt latency trace v1.1.5 on 6.12.0
# latency: 2000 us, #10/10, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0)
#    | task: irq/100-enet-fe-118 (uid:0 nice:0 policy:1 rt_prio:50)
kworker/-11        0dnh5.    0us :       11:120:R   + [000]      22: 98:R irq_work/0
kworker/-11        0d..3.    0us :       11:120:R ==> [000]      22: 98:R irq_work/0
kworker/-11        0dnh5.    0us :       11:120:R   + [000]     118: 49:R irq/100-enet-fe
kworker/-11        0dnh5.    0us#: 0
kworker/-11        0d..3. 2000us : __schedule
kworker/-11        0d..3. 2000us :       11:120:R ==> [000]     118: 49:R irq/100-enet-fe
";
    let (report, sentence, _) = pasted(text);
    assert_eq!(report.worst.unwrap().thread.to_string(), "irq/100-enet-fe/118 (RT 50)");
    assert!(sentence.contains("kworker//11 (nice 0) had it for 2.000 ms"), "{sentence}");
}

#[test]
fn a_section_in_the_form_of_a_graph_has_its_functions() {
    let text = "# tracer: irqsoff
# irqsoff latency trace v1.1.5 on 4.20.0-rc6+
# latency: 3751 us, #274/274, CPU#0 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:4)
#    | task: bash-1507 (uid:0 nice:0 policy:0 rt_prio:0)
#  => started at: free_debug_processing
#  => ended at:   return_to_handler
          0 us |   0)   bash-1507    |  d... |   0.000 us    |  _raw_spin_lock_irqsave();
          1 us |   0)   bash-1507    |  d..2 |               |    set_track() {
       3750 us |   0)   bash-1507    |  d..1 |   0.516 us    |      do_raw_spin_unlock();
      bash-1507    0d..1 3792us : <stack trace>
   => __x64_sys_execve
";
    let (_, sentence, total) = pasted(text);
    assert_eq!(total, Ns::from_us(3751));
    assert!(sentence.contains("the longest step took 3.749 ms (100 %), between set_track and do_raw_spin_unlock, interrupts off at both ends; in system call execve"), "{sentence}");
}

#[test]
fn a_thread_of_timerlat_in_user_space_counts_until_it_is_back_there() {
    let text = "# tracer: timerlat
 <idle>-0      [002] d. 123.769528: #1003 context    irq timer_latency  587 ns
  <...>-625883 [002] .. 123.769532: #1003 context thread timer_latency 712 ns
  <...>-625883 [002] .. 123.769534: #1003 context user-ret timer_latency 4620 ns
";
    let (report, sentence, total) = pasted(text);
    assert_eq!((total, report.count), (Ns(4_620), 1));
    assert!(sentence.contains("from its thread's start to user space took 3.9 µs (85 %)"), "{sentence}");
}

/// The tracer counts what interrupted its loop: an interruption missing from the text is not the hardware's.
#[test]
fn noise_whose_events_are_not_in_the_text_is_not_the_hardwares() {
    let text = |interference: u32| {
        format!(
            "# tracer: osnoise
  <...>-9 [001] d.h.. 10.009000: irq_noise: local_timer:236 start 10.008000000 duration 1000000 ns
osnoise/1-7 [001] ..... 10.010001: sample_threshold: start 10.000000000 duration 10000000 ns interference {interference}
"
        )
    };
    let (report, sentence, total) = pasted(&text(2));
    assert_eq!((total, report.count), (Ns::from_ms(10), 1));
    assert!(sentence.contains("9.000 ms (90 %) are not explained by the text"), "{sentence}");
    let explanation = report.worst.unwrap().explanation;
    assert_eq!((explanation.cause.as_str(), explanation.unexplained_ns), ("unexplained", Ns::from_ms(9)));
    assert!(explanation.limits[0].starts_with("1 of the 2 interruptions"), "{:?}", explanation.limits);
    let (_, sentence, _) = pasted(&text(1));
    assert!(sentence.contains("no event of the kernel accounts for 9.000 ms (90 %)"), "{sentence}");
}
