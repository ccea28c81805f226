//! Lines of all the forms.

use super::*;

fn event(line: &str) -> EventLine<'_> {
    match parse(line) {
        Some(Line::Event(event)) => event,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn all_columns_that_kernels_and_tools_print_are_understood() {
    let forms = [
        "          <idle>-0     [001]  3469.824588: softirq_entry:   vec=9 [action=RCU]",
        "fx7:       <idle>-0     [001]  3469.824588000: softirq_entry:   vec=9 [action=RCU]",
        "          <idle>-0       [001] d.h1.  3469.824588: softirq_entry: vec=9 [action=RCU]",
        "          <idle>-0       [001] d..h.13  3469.824588: softirq_entry: vec=9 [action=RCU]",
        "          <idle>-0       (-----) [001] d.h1.  3469.824588: softirq_entry: vec=9 [action=RCU]",
        "          <idle>-0       [001] dLh1.  3469.824588: softirq_entry: vec=9 [action=RCU]",
        "          <idle>-0       [001] bBh1.13  3469.824588: softirq_entry: vec=9 [action=RCU]",
        "  <idle>-0       1d.h1. 3469.824588: softirq_entry:         vec=9 [action=RCU]",
        "          <idle>-0     [001]  3469.824588: (+17)    softirq_entry:   vec=9 [action=RCU]",
    ];
    for form in forms {
        let expected = EventLine {
            comm: "<idle>",
            tid: 0,
            cpu: 1,
            at: 3_469_824_588_000,
            flags: form.contains('h').then_some(0x08),
            columns: "",
            name: "softirq_entry",
            fields: "vec=9 [action=RCU]",
        };
        assert_eq!(EventLine { columns: "", ..event(form) }, expected, "{form}");
    }
}

#[test]
fn what_interrupts_recorded_is_told_from_what_the_thread_did() {
    let flags = |columns: &str| event(&format!("a-7 [000] {columns} 1.000002: sched_waking: pid=5")).flags;
    let said = ["d.h1.", "d.Z1.", "..s1.", "d.H3.", "d..2.", "bBn1.13", "d...1.."].map(flags);
    assert_eq!(said, [8, 8, 16, 8, 0, 0, 0].map(Some));
    assert_eq!(flags(""), None);
}

#[test]
fn events_of_vendors_have_no_colon() {
    let name = |line: &str| match parse(line) {
        Some(Line::Event(event)) => (event.name.to_owned(), event.fields.to_owned()),
        other => panic!("{line}: {other:?}"),
    };
    let line = "kworker/u16:5-192    [002]   304.583377:  sched_wakeup comm=irq/343-dwc3  pid=20174  prio=49";
    assert_eq!(name(line), ("sched_wakeup".to_owned(), "comm=irq/343-dwc3  pid=20174  prio=49".to_owned()));
    assert_eq!(name("a-1 [002] 304.583377: sched_wakeup was here").0, "text");
    assert_eq!(name("a-1 [002] 304.583377: my_event comm=x").0, "text");
}

#[test]
fn names_with_spaces_and_dashes_keep_them() {
    let line = event("   opt cgu.00-x-7375  [000] d..2. 1.000002: sched_switch: a ==> b");
    assert_eq!((line.comm, line.tid), ("opt cgu.00-x", 7375));
    let line = event(" a [012] b-7  [000] d..2. 1.000002: sched_switch: a ==> b");
    assert_eq!((line.comm, line.tid, line.cpu), ("a [012] b", 7, 0));
    for columns in ["d..2. 1.000002", " 1.000002"] {
        let line = format!("  a-5 [000] b-77  [001] {columns}: sched_switch: a ==> b");
        let line = event(&line);
        assert_eq!((line.comm, line.tid, line.cpu), ("a-5 [000] b", 77, 1));
    }
}

#[test]
fn the_place_in_the_file_and_a_colon_in_a_name_are_no_part_of_an_event() {
    let line = event("fx7:  a: b-5  [000]  1.000002: sched_wakeup:  x:7378 [120] CPU:000 [36598:0x20c:36]");
    assert_eq!((line.comm, line.fields), ("b", "x:7378 [120] CPU:000"));
    let line = event("  b-5  [000]  1.000002: sched_switch: b:5 [120] S ==> x:7 [19] [7735:0x234:64]");
    assert_eq!(line.fields, "b:5 [120] S ==> x:7 [19]");
    let line = event("  a: b-5       1d..2 1.000002: sched_switch: a: b:5 [120] S ==> x:7 [19]");
    assert_eq!((line.tid, line.cpu, line.name), (5, 1, "sched_switch"));
    let start = "fx7: CPU:0 [SUBBUFFER START] [3469824588019:0x1000]";
    assert_eq!(parse(start), Some(Line::Comment));
}

#[test]
fn threads_may_be_called_like_headings() {
    for name in ["trace-cmd", "CPU 0", "cpus=2", "version =", "=>"] {
        let text = format!("{name}-920   [000] ..... 1.000002: sys_exit: NR 0 = 8");
        let line = event(&text);
        assert_eq!((line.comm, line.tid, line.name), (name, 920, "sys_exit"));
    }
}

#[test]
fn the_latency_format_counts_from_its_beginning() {
    let line = event("cyclicte-332       0dn.h5..    1us#: sched_waking: comm=x pid=5");
    assert_eq!(
        (line.comm, line.tid, line.cpu, line.at, line.name),
        ("cyclicte", 332, 0, 1000, "sched_waking")
    );
    let line = event("  <idle>-0         1d..1. 3723us : __schedule <-schedule");
    assert_eq!((line.cpu, line.at, line.name), (1, 3_723_000, "function"));
}

#[test]
fn losses_comments_and_stacks_are_told_apart() {
    assert_eq!(parse("CPU:1 [LOST 512 EVENTS]"), Some(Line::Lost { cpu: 1, count: Some(512) }));
    assert_eq!(parse("fxl: CPU:0 [145 EVENTS DROPPED]"), Some(Line::Lost { cpu: 0, count: Some(145) }));
    assert_eq!(parse("CPU:3 [EVENTS DROPPED]"), Some(Line::Lost { cpu: 3, count: None }));
    assert_eq!(parse("# tracer: nop"), Some(Line::Restart));
    for line in ["...", " [...]", "<snip>", "[ 20 lines omitted ]"] {
        assert_eq!(parse(line), Some(Line::Omission), "{line}");
    }
    for comment in ["#", " => __schedule", "", "cpus=2", "CPU 3 is empty"] {
        assert_eq!(parse(comment), Some(Line::Comment), "{comment}");
    }
    assert_eq!(parse("hello world"), None);
    let heading = "# entries-in-buffer/entries-written: 2953/417539   #P:2";
    assert_eq!(parse(heading), Some(Line::Heading { printed: 2_953, overwritten: 414_586 }));
    assert_eq!(parse("##### CPU 1 buffer started ####"), Some(Line::Started(1)));
    let cycles = " names-30385 [000] d..2. 121022741547397: sched_switch: a ==> b";
    assert_eq!(parse(cycles), Some(Line::Timeless));
}

#[test]
fn perf_script_without_names_and_the_sums_of_trace_cmd_are_understood() {
    let Some(Line::Event(event)) =
        parse("10400 [000]  5460.671834996:       sched:sched_waking: comm=migration/0 pid=18 prio=0 target_cpu=000")
    else {
        panic!()
    };
    assert_eq!((event.comm, event.tid, event.cpu, event.name), ("", 10_400, 0, "sched_waking"));
    let lost = "  swapper     0 [003]   100.000000: PERF_RECORD_LOST lost 5";
    assert_eq!(parse(lost), Some(Line::Lost { cpu: 3, count: Some(5) }));
    for line in [
        "         swapper     0 [000]     0.000000: PERF_RECORD_FORK(1:1):(0:0)",
        "     process_api     0 [000]     0.000000: PERF_RECORD_COMM: process_api:1/1",
        "Average wakeup latency: 364.301 usecs",
        "Dumping ftrace buffer:",
        "---------------------------------",
    ] {
        assert_eq!(parse(line), Some(Line::Comment), "{line}");
    }
}
