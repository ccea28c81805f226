//! What all readers of other tools have in common.

use super::*;

#[test]
fn results_without_what_a_run_needs_are_refused_by_the_name_of_their_tool() {
    let rtla = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:11\n\
                Index   IRQ-000   Thr-000   Usr-000\n0           7000         0         0\n\
                over:          0         3         3\nmax:           2       845       845\n";
    for (text, tool) in [
        (rtla, "rtla"),
        ("  Operating System Noise\nCPU Period  Runtime\n  0 #4  4000000\n", "rtla osnoise top"),
        ("<?xml version=\"1.0\"?>\n<rteval version=\"3.5\">\n</rteval>\n", "rteval"),
    ] {
        let error = read(text, Unit::Guess).unwrap_err();
        assert!(error.what.contains(tool), "{error}");
    }
}

#[test]
fn figures_that_no_tool_can_have_are_refused_or_kept_and_never_wrapped() {
    let most = u64::MAX;
    let texts = [
        format!("Core: 1\nCounter Freq: 9\n {most} (us): {most}\n Minimum: 1 (us)\n Maximum: {most} (us)\n"),
        format!("{{\"cpu\": {{\"0\": {{\"histogram\": {{\"{most}\": {most}}}, \"count\": {most}, \"max\": {most}}}}}}}"),
        format!("Index CPU-000\n{most} 1\n0 {most}\nover: 0\ncount: {most}\nmax: {most}\n"),
        format!("Index CPU-000\n{most} 1\nover: 0\ncount: {most}\nmax: {most}\n"),
        format!("hwlatdetect:  test duration 9 seconds\nMax Latency: {most}us\nts: 1.0, inner:{most}, outer:0\n"),
        format!("RTH|\nRTD|1.000|1.000|{}.000|0\nRTS|1.000|1.000|9.000|0|0|{most}:{most}:{most}\n", most / 1_000),
        format!("#0: ID1, P0, CPU0, I1000; #1: ID2, P0, CPU0, Cycles {most}\n#1 -> #0, Min 1, Cur 1, Avg 1, Max {most}\n"),
    ];
    for text in texts {
        if let Ok(run) = read(&text, Unit::Guess) {
            let largest = run.series.iter().filter_map(|series| series.histogram.max()).max();
            assert_eq!(largest, Some(Ns(most)), "{text}");
        }
    }
}

#[test]
fn programs_without_samples_are_named() {
    for (text, name) in [
        (
            "stress-ng: info:  [2436] cyclic:   min: 2603 ns, max: 2073993 ns, std.dev. 29163.42\n",
            "stress-ng",
        ),
        ("Wakeup Latencies percentiles (usec) runtime 30 (s)\n\t* 99.0th: 22\n", "schbench"),
        ("sockperf: ====> avg-latency=10.4 (std-dev=1.2)\n", "sockperf"),
        ("  Task    |   Runtime ms  | Switches | Average delay ms | Maximum delay ms | Maximum delay at |\n", "perf sched latency"),
        ("     usecs               : count     distribution\n     0 -> 1     : 233   |****  |\n", "bcc"),
        ("@usecs:\n[2, 4)                16 |@@@   |\n[4, 8)               282 |@@@@@@|\n", "bpftrace"),
        ("Running in process mode with 10 groups using 40 file descriptors each\nTime: 0.123\n", "hackbench"),
    ] {
        let refused = read(text, Unit::Guess).unwrap_err().to_string();
        assert!(refused.contains(name), "{refused}");
        // As the load of a measurement, its output is only beside that.
        let line = "T: 0 (  100) P:80 I:1000 C:      1 Min:      1 Act:    1 Avg:    1 Max:       1\n";
        assert!(read(&format!("{text}{line}"), Unit::Guess).is_ok(), "{text}");
    }
}

#[test]
fn rtais_tables_are_refused_by_name_not_by_their_unit() {
    let head = "RTAI Testsuite - KERNEL latency (all data in nanoseconds)\n";
    let latency = "RTH|    lat min|    ovl min|    lat avg|    lat max|    ovl max|   overruns\n\
                   RTD|      -1731|      -1731|        218|       4105|       4105|          0\n";
    let preempt =
        "RTH|     lat min|     lat avg|     lat max|    jit fast|    jit slow\nRTD| 9| 88| 4105| 70| 90\n";
    for text in [format!("{head}{latency}"), latency.to_owned(), preempt.to_owned()] {
        let refused = read(&text, Unit::Guess).unwrap_err();
        assert!(refused.line.is_none() && refused.what.contains("RTAI"), "{refused}");
    }
}
