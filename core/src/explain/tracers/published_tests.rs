//! Texts of the forms that mailing lists, commits and web pages have.

use super::tests::pasted;
use crate::time::Ns;

/// In a commit's message, where the blanks before each line are stripped.
const ANALYSIS: &str = "rtla timerlat hit stop tracing
## CPU 23 hit stop tracing, analyzing it ##
IRQ handler delay:                                        27.49 us (65.52 %)
IRQ latency:                                              28.13 us
Timerlat IRQ duration:                                     9.59 us (22.85 %)
Blocking thread:                                           3.79 us (9.03 %)
                       builder:4925                        3.79 us
Blocking thread stacktrace
-> timerlat_irq
-> hrtimer_interrupt
------------------------------------------------------------------------
Thread latency:                                           41.96 us (100%)
";

#[test]
fn items_of_rtlas_analysis_without_an_indent_stay_lines_of_their_own() {
    for text in [ANALYSIS.to_owned(), ANALYSIS.replace("                       builder", "builder")] {
        let (report, sentence, total) = pasted(&text);
        assert_eq!((total, report.is_doubtful), (Ns(41_960), false), "{sentence}");
        assert!(sentence.contains("IRQ handler delay took 27.5 µs (66 %)"), "{sentence}");
        assert!(sentence.contains("thread builder:4925 took 3.8 µs"), "{sentence}");
    }
}

#[test]
fn an_analysis_without_its_last_line_gives_a_lower_limit() {
    let cut = &ANALYSIS[..ANALYSIS.find("                       builder").unwrap()];
    let (report, sentence, total) = pasted(&cut.replace("  3.79 us", "216.93 us"));
    assert_eq!(total, Ns(27_490 + 9_590 + 216_930));
    assert!(report.is_doubtful && sentence.contains("at least 254 µs"), "{sentence}");
    assert!(sentence.contains("thread (name cut) took 217 µs"), "{sentence}");
    // The analysis of a late interrupt has nothing behind its latency.
    let irq = &ANALYSIS[..ANALYSIS.find("Timerlat IRQ").unwrap()];
    let (report, sentence, total) = pasted(irq);
    assert_eq!((total, report.is_doubtful), (Ns(28_130), false), "{sentence}");
}

#[test]
fn the_thread_that_a_late_interrupt_found_is_told() {
    let text = "## CPU 1 hit stop tracing, analyzing it ##
  IRQ handler delay:                                         0.00 us (0.00 %)
  IRQ latency:                                             709.25 us
  Blocking thread:
                                             ip:3567
    Blocking thread stack trace
                -> timerlat_irq
                -> asm_sysvec_apic_timer_interrupt
                -> pci_mmcfg_read
------------------------------------------------------------------------
       IRQ latency:                                        709.25 us (100%)
";
    let (report, sentence, total) = pasted(text);
    assert_eq!((total, report.is_doubtful), (Ns(709_250), false));
    assert!(sentence.contains("the late interrupt found ip:3567 on the CPU"), "{sentence}");
    assert!(sentence.contains("in pci_mmcfg_read"), "{sentence}");
    let worst = report.worst.unwrap();
    assert_eq!(worst.explanation.cause, "unexplained", "no item has a time");
    assert!(worst.explanation.advice.contains("kept interrupts off"));
}

/// As kernels before 2.6.29 print it, without a line for the wake-up itself.
#[test]
fn an_idle_task_whose_interrupts_run_from_the_start_is_not_leaving_idle() {
    let text = |flags: &str| {
        format!(
            "# tracer: wakeup
#
wakeup latency trace v1.1.5 on 2.6.27
--------------------------------------------------------------------
 latency: 91 us, #6/6, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0)
    -----------------
    | task: player-5719 (uid:1000 nice:0 policy:2 rt_prio:5)
    -----------------
  <idle>-0     0{flags}    0us : try_to_wake_up (default_wake_function)
  <idle>-0     0.Nh2    3us+: sound_interrupt (handle_IRQ_event)
  <idle>-0     0.Nh2   83us : mouse_interrupt (handle_IRQ_event)
  <idle>-0     0dNh2   86us : irq_exit (do_IRQ)
  <idle>-0     0dN.2   89us : schedule (cpu_idle)
  <idle>-0     0d..3   91us : schedule (cpu_idle)
"
        )
    };
    let (report, sentence, total) = pasted(&text("d.h6"));
    assert_eq!(total, Ns(91_000));
    assert!(sentence.contains("had left idle before"), "{sentence}");
    let explanation = report.worst.unwrap().explanation;
    assert_eq!(explanation.cause, "hard interrupt");
    assert!(!explanation.advice.contains("idle states"), "{}", explanation.advice);
    // Not in an interrupt, the CPU may have slept until the second line.
    let (report, sentence, _) = pasted(&text("d..6"));
    assert!(report.worst.unwrap().explanation.cause == "idle exit", "{sentence}");
}

#[test]
fn a_section_without_its_first_lines_has_a_lower_limit_and_a_doubt() {
    let text = "interrupts are disabled for 45341 usec:
   #  => started at: _raw_spin_lock_irq
   #  => ended at:   cgroup_rstat_flush
   #
   #  cmd     pid     |||||| time  |   caller
   #     \\   /        ||||||  \\    |    /
   reader-96532      52d....    0us*: _raw_spin_lock_irq
   reader-96532      52d.... 45342us : cgroup_rstat_flush
   reader-96532      52d.... 45342us : tracer_hardirqs_on <-cgroup_rstat_flush
   reader-96532      52d.... 45343us : <stack trace>
    => memory_stat_show
    => seq_read_iter
";
    let (report, sentence, total) = pasted(text);
    assert_eq!((total, report.is_doubtful), (Ns(45_342_000), true), "{sentence}");
    let told = "interrupts or preemption off for at least 45.342 ms on CPU 52 by reader/96532";
    assert!(
        sentence.starts_with(told) && sentence.contains("from _raw_spin_lock_irq to cgroup_rstat_flush"),
        "{sentence}"
    );
}

#[test]
fn backslashes_of_markdown_are_not_part_of_names() {
    let text = "> \\# tracer: irqsoff
> # irqsoff latency trace v1.1.5 on 4.4.19
> # latency: 10000 us, #2/2, CPU#0 | (M:server VP:0, KP:0, SP:0 HP:0)
> # | task: swapper-0 (uid:0 nice:0 policy:0 rt\\_prio:0)
> # => started at: \\_\\_irq\\_svc
> # => ended at: \\_\\_do\\_softirq
> \\<...\\>-593 0d... 0us : do\\_work\\_pending
> \\<...\\>-593 0d... 10000us : trace\\_hardirqs\\_on <-do\\_work\\_pending
";
    let (report, sentence, total) = pasted(text);
    assert_eq!((total, report.lines), (Ns(10_000_000), 2), "{sentence}");
    assert!(sentence.contains("from __irq_svc to __do_softirq"), "{sentence}");
}

#[test]
fn the_figure_of_the_first_preemption_tracer_is_in_its_heading() {
    let text = "preemption latency trace v1.0.7 on 2.6.9-rc2-mm1
-------------------------------------------------------
 latency: 567 us, entries: 2 (2)   |   [VP:1 KP:1 SP:1 HP:1 #CPUS:1]
    -----------------
    | task: ksoftirqd/0/2, uid:0 nice:-10 policy:0 rt_prio:0
    -----------------
 => started at: receive+0x6b/0x1c0
 => ended at:   receive+0x150/0x1c0
=======>
00000001 0.000ms (+0.000ms): receive (backlog)
00000001 0.567ms (+0.000ms): sub_preempt_count (receive)
";
    let (report, sentence, total) = pasted(text);
    assert_eq!((total, report.is_doubtful), (Ns(567_000), true), "its lines are not read: {sentence}");
}
