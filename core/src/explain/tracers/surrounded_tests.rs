//! Reports of tracers among the words of a mail.

use super::tests::pasted;
use crate::time::Ns;

/// A report of two entries, as in the mail of a list: words, a patch and lines of another clock around it.
#[test]
fn words_around_a_whole_report_raise_no_doubt() {
    let report = "# tracer: irqsoff
#
# irqsoff latency trace v1.1.5 on 6.12.0
# latency: 49040 us, #3/3, CPU#1 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:8)
#    | task: kswapd0-91 (uid:0 nice:0 policy:0 rt_prio:0)
#  => started at: _raw_spin_lock_irq
#  => ended at:   shrink_inactive_list
 kswapd0-91        1d....    0us*: isolate_lru_folios <-shrink_inactive_list
 kswapd0-91        1d.... 49039us : __mod_node_page_state <-isolate_lru_folios
 kswapd0-91        1d.... 49048us : <stack trace>
 => shrink_lruvec
 => kthread
";
    let before = "6.12.0.g81983758-master\nSubject: [PATCH V4 10/12] x: y\n[root@host tracing]# cat trace\n";
    let after = "gitk...\n\n@@ -217,6 +217,12 @@ static void folio_batch_move_lru(struct\n \
                 kswapd0-88      [005] d....   254.583681: isolate_lru_folios: new record: 1545 us\n";
    for text in [
        report.to_owned(),
        before.to_owned() + report,
        report.to_owned() + after,
        [before, report, after].concat(),
    ] {
        let (read, _, total) = pasted(&text);
        assert_eq!(
            (total, read.lines, read.is_doubtful),
            (Ns(49_040_000), 3, false),
            "{text}\n{:?}",
            read.limits
        );
    }
    // A line that is missing, and one more than announced, are doubts as before.
    let cut =
        report.replace(" kswapd0-91        1d....    0us*: isolate_lru_folios <-shrink_inactive_list\n", "");
    let more = format!("{report} dd-7        1d.... 90000us : other <-report\n");
    let damaged = report.replace("1d.... 49039us :", "1d.... 49039u");
    for text in [cut, more, damaged] {
        let (read, _, _) = pasted(&format!("{before}{text}{after}"));
        assert!(read.is_doubtful, "{text}");
    }
}

#[test]
fn the_idle_task_is_not_kept_off_a_cpu() {
    let text = |started: &str| {
        format!(
            "# tracer: irqsoff
# irqsoff latency trace v1.1.5 on 2.6.33.1
# latency: 34380 us, #2/2, CPU#1 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:2)
#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)
#  => started at: {started}
#  => ended at:   restore_all_notrace
 <idle>-0       1dN... 4285us!: trace_hardirqs_off_thunk <-reschedule_interrupt
 <idle>-0       1dN... 34373us+: smp_reschedule_interrupt <-reschedule_interrupt
"
        )
    };
    for (started, advice) in
        [("reschedule_interrupt", "bound what is done there"), ("rcu_idle_enter", "idle states")]
    {
        let (report, sentence, _) = pasted(&text(started));
        assert!(sentence.contains("by swapper/0 "), "{sentence}");
        let told = report.worst.unwrap().explanation.advice;
        assert!(told.contains(advice) && !told.contains("keep"), "{told}");
    }
}

/// Its heading has no `#`, as before Linux 2.6.29.
#[test]
fn words_before_an_old_heading_do_not_take_its_thread() {
    let text = "preemption latency trace v1.1.5 on 2.6.17-rt1
--------------------------------------------------------------------
 latency: 415 us, #2/2, CPU#1 | (M:rt VP:0, KP:0, SP:1 HP:1 #P:2)
    -----------------
    | task: kjournald-2043 (uid:0 nice:-5 policy:0 rt_prio:0)
    -----------------

   cmd     pid ||||| time  |   caller
      \\   /    |||||   \\   |   /
  <idle>-0     1Dn.1  404us : smp_reschedule_interrupt (reschedule_interrupt)
  <idle>-0     1Dn.1  414us : thread_return (schedule)
";
    for before in ["", "Why does it start at 404us?\n\nLee\n\n"] {
        let (_, sentence, total) = pasted(&format!("{before}{text}"));
        assert_eq!(total, Ns(415_000));
        assert!(sentence.contains("by kjournald/2043 (nice -5)"), "{before}: {sentence}");
    }
}
