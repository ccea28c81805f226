use proptest::prelude::*;

use super::*;
use crate::cyclictest::text::{self, Column, Latencies};

fn recorded(name: &str) -> Run {
    let path = format!("{}/tests/golden/cyclictest/{name}", env!("CARGO_MANIFEST_DIR"));
    #[allow(clippy::disallowed_methods)] // a test may read its golden files
    let text = std::fs::read_to_string(&path).unwrap();
    read(&text, Unit::Guess).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// count, lost, minimum and maximum in µs of each thread
fn shape(run: &Run) -> Vec<(u64, u64, u64, u64)> {
    let us = |ns: Option<Ns>| ns.unwrap().0 / 1_000;
    let of = |s: &Series| (s.histogram.count(), s.lost, us(s.histogram.min()), us(s.histogram.max()));
    run.series.iter().map(of).collect()
}

#[test]
fn recorded_histograms_are_read_with_their_overflows() {
    let run = recorded("ct_h400_q.stdout");
    assert_eq!(shape(&run), [(2_000, 0, 4, 193), (1_846, 37, 4, 3_595)]);
    assert_eq!(run.conditions.knobs.cpu_dma_latency_held_us, Some(0));
    assert_eq!(run.series[0].histogram.rows()[4], 171);
    assert_eq!(shape(&recorded("ct_H400_q.stdout")), [(1_980, 20, 4, 1_964), (1_897, 49, 5, 3_989)]);
    assert_eq!(shape(&recorded("ct_histfile.hist")), [(998, 2, 4, 5_215), (992, 8, 4, 2_910)]);
    assert_eq!(shape(&recorded("ct_overflow.stdout")), [(2, 998, 4, 3_018), (2, 998, 5, 2_686)]);
    let broken = recorded("ct_hist_b.stdout");
    assert_eq!(broken.series[1].thread.as_ref().unwrap().tid, Tid(8594));
}

#[test]
fn status_lines_and_single_samples_are_read() {
    let run = recorded("ct_D2.stdout");
    assert_eq!(shape(&run), [(2, 1_994, 4, 2_925), (2, 1_331, 4, 2_249)]);
    // the average is that of all samples, not of the two whose values are known
    assert_eq!(run.series[0].histogram.mean_ns(), Some(18_000.0));
    assert_eq!(run.series[1].interval_ns, Some(Ns::from_us(1_500)));
    let thread = run.series[0].thread.as_ref().unwrap();
    assert_eq!((thread.tid, thread.prio), (Tid(8439), Some(Prio::from_rt(80))));
    assert_eq!(recorded("ct_N.stdout").max_of(Quantity::Cyclic), Some(Ns(172_408)));
    // a screen: the last line counts
    assert_eq!(recorded("ct_plain.stdout").max_of(Quantity::Cyclic), Some(Ns(4_970_000)));
    assert_eq!(shape(&recorded("ct_v.stdout")), [(20, 0, 6, 4_082), (18, 0, 4, 3_030)]);
    assert_eq!(recorded("ct_spike.stdout").series.len(), 2);
    assert_eq!(shape(&recorded("ct_hist_v.stdout"))[0].0, 200);
}

#[test]
fn recorded_json_is_read_also_where_rt_tests_wrote_it_invalid() {
    let run = recorded("ct_json.json");
    assert_eq!(shape(&run), [(991, 9, 4, 3_023), (999, 1, 4, 1_704)]);
    assert_eq!(run.series[1].cpu, Some(Cpu(1)));
    assert_eq!(run.conditions.kernel.release.as_deref(), Some("6.18.44-fc-v657"));
    let broken = recorded("ct_json_break.json");
    assert_eq!(broken.series[1].histogram.count(), 0);
    let quoted = recorded("ct_json_quote.json");
    assert!(quoted.conditions.command.unwrap().contains("x.json\"b"));
    assert_eq!(recorded("ct_json_nohist.json").max_of(Quantity::Cyclic), Some(Ns(5_707_000)));
}

#[test]
fn the_layout_of_newer_versions_and_glued_command_lines_are_read() {
    // 2.9: no Total line; and a script that writes the command before the output without a line end
    let text =
        "cyclictest -l 5 -q# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\n000001 000002\n\
                # Min Latencies: 00001\n# Avg Latencies: 00002\n# Max Latencies: 00009\n\
                # Histogram Overflows: 00001\n# Histogram Overflow at cycle number:\n# Thread 0: 00001\n\n";
    let run = read(text, Unit::Guess).unwrap();
    assert_eq!(shape(&run), [(3, 0, 1, 9)]);
    assert_eq!(run.conditions.command.as_deref(), Some("cyclictest -l 5 -q"));
    assert_eq!(read(text, Unit::Ns).unwrap().max_of(Quantity::Cyclic), Some(Ns(9)));
}

#[test]
fn what_is_damaged_is_named_with_its_line() {
    for (text, line, needle) in [
        ("", None, "it is not the text or JSON of cyclictest"),
        ("hello\nworld\n", None, "it is not the text or JSON of cyclictest"),
        ("{\"a\": 1}", Some(1), "thread"),
        ("{\"thread\": {\"x\": {}}}", None, "thread 'x'"),
        ("{\n\"thread\": {\"0\": {\"cycles\": 1, \"histogram\": {\"3\": 5}}}}", None, "cycles is 1"),
        ("# Histogram\n000000 000001\n000001 00x\n", Some(3), "not made of numbers"),
        ("000000 1\t2\n000001 1\n", Some(2), "1 columns where 2"),
        ("000000 1\n000002 1\n", Some(2), "row 2 where row 1"),
        ("000000 1\n# Total: 000000007\n", Some(2), "add up to 1"),
        ("000000 1\t1\n# Min Latencies: 1\n# Max Latencies: 1 2 3\n", Some(3), "3 values for 1"),
        // One column more than threads is the sum of the others, or the minimum of a thread was cut off.
        (
            "000000 0 0\n000001 1 0\n000002 0 4\n# Min Latencies: 1\n# Max Latencies: 1 2\n# Histogram Overflows: 0 0\n",
            Some(4),
            "2 columns, the lines below it 1",
        ),
        ("000000 1\n# Max Latencies: x\n", Some(2), "not a number"),
        ("T: 0 ( 12) P:80 I:1000 C: \n", Some(1), "'C:'"),
        ("T:99999999 ( 12) P:80 I:1000 C:1 Min:1 Act:1 Avg:1 Max:1\n", Some(1), "not possible"),
        ("       0:       x:      19\n", Some(1), "thread:cycle:latency"),
    ] {
        let error = read(text, Unit::Guess).unwrap_err();
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.what.contains(needle), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back_as_the_same_histogram(
        values in proptest::collection::vec(proptest::collection::vec(0u64..300, 1..80), 1..4),
        with_sum in any::<bool>(),
    ) {
        let rows = 256;
        let columns: Vec<Column> = values.iter().map(|values| {
            let mut column = Column { rows: vec![0; rows], ..Column::default() };
            for &value in values {
                match column.rows.get_mut(value as usize) {
                    Some(row) => *row += 1,
                    None => column.overflows += 1,
                }
            }
            let (min, max) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            column.latencies = Some(Latencies { min, max, avg: 0, act: 0 });
            column
        }).collect();
        let run = read(&text::histogram(&columns, with_sum), Unit::Guess).unwrap();
        prop_assert_eq!(run.series.len(), columns.len());
        for ((series, column), values) in run.series.iter().zip(&columns).zip(&values) {
            prop_assert_eq!(&series.histogram.rows()[..rows], &column.rows[..]);
            prop_assert_eq!(series.histogram.count() + series.lost, values.len() as u64);
            prop_assert_eq!(series.histogram.max(), values.iter().max().map(|us| Ns::from_us(*us)));
        }
    }

    #[test]
    fn no_input_makes_it_panic(lines in proptest::collection::vec("[T:0-9 #A-Za-z\\.\t\\{\\}\"\x1b\\[-]{0,60}", 0..8)) {
        let _ = read(&lines.join("\n"), Unit::Guess);
    }
}

/// A recorded file truncated anywhere is refused or gives the same result: never a smaller maximum.
#[test]
fn a_cut_text_never_loses_its_maximum_in_silence() {
    for name in
        ["ct_H400_q.stdout", "ct_h400_q.stdout", "ct_histfile.hist", "ct_q_smp.stdout", "ct_D2.stdout"]
    {
        let path = format!("{}/tests/golden/cyclictest/{name}", env!("CARGO_MANIFEST_DIR"));
        #[allow(clippy::disallowed_methods)] // a test may read its golden files
        let text = std::fs::read_to_string(&path).unwrap();
        let whole = shape(&read(&text, Unit::Guess).unwrap());
        let mut refused = 0;
        for end in 0..text.len() {
            match read(&text[..end], Unit::Guess) {
                Err(_) => refused += 1,
                // status lines are independent: the threads present are complete
                Ok(run) => assert_eq!(shape(&run), whole[..run.series.len()], "{name} cut at {end}"),
            }
        }
        assert!(refused > 40, "{name}: {refused} refused");
    }
    // a text that lost nothing but its line end, as scripts keep it, and a last line without fixed width
    for name in ["ct_b.stdout", "ct_h400_q.stdout", "ct_D2.stdout", "ct_v.stdout", "ct_spike.stdout"] {
        let path = format!("{}/tests/golden/cyclictest/{name}", env!("CARGO_MANIFEST_DIR"));
        #[allow(clippy::disallowed_methods)] // a test may read its golden files
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(read(text.trim_end(), Unit::Guess).is_ok(), "{name}");
    }
    let sample = "       0:       0:      19\n       0:       1:    4082";
    assert_eq!(shape(&read(sample, Unit::Guess).unwrap()), [(2, 0, 19, 4_082)]);
    assert!(read(&sample[..sample.len() - 1], Unit::Guess).is_err());
}

#[test]
fn a_bare_table_of_rows_is_no_complete_run_and_its_sum_no_thread() {
    let run = read("000000 000000\t000000\t000000\n000001 000003\t000002\t000005\n", Unit::Guess).unwrap();
    assert_eq!(shape(&run), [(3, 0, 1, 1), (2, 0, 1, 1)]);
    assert!(
        !run.complete && run.conditions.notes.iter().any(|note| note.contains("is not known")),
        "{run:?}"
    );
    assert!(recorded("ct_H400_q.stdout").complete);
}

#[test]
fn latencies_of_seconds_in_microseconds_are_not_taken_for_nanoseconds() {
    let text = "T: 0 (  812) P:80 I:1000 C:    100 Min:      4 Act:1250000 Avg:12600 Max: 1250000\n";
    assert_eq!(read(text, Unit::Guess).unwrap().max_of(Quantity::Cyclic), Some(Ns(1_250_000_000)));
    let text = "T: 0 (  812) P:80 I:1000 C:    100 Min:   4923 Act:   10684 Avg:   18814 Max:  172408\n";
    assert_eq!(read(text, Unit::Guess).unwrap().max_of(Quantity::Cyclic), Some(Ns(172_408)));
}

const NIGHTS: &str = "\
# /dev/cpu_dma_latency set to 0us
T: 0 (23840) P:80 I:1000 C:    300 Min:     18 Act:   42 Avg:   60 Max:    9876
# /dev/cpu_dma_latency set to 0us
T: 0 (23857) P:80 I:1000 C:    100 Min:     25 Act:   42 Avg:   20 Max:    2791
";

fn noted(run: &Run, words: &str) -> bool {
    run.conditions.notes.iter().any(|note| note.contains(words))
}

#[test]
fn runs_appended_to_one_log_are_added_up_with_the_largest_latency_of_all() {
    let run = read(NIGHTS, Unit::Guess).unwrap();
    assert_eq!(shape(&run), [(2, 398, 18, 9_876)]);
    assert_eq!(run.series[0].histogram.mean_ns(), Some(50_000.0));
    assert!(run.complete && noted(&run, "2 runs one after the other"), "{run:?}");
    let again = NIGHTS.replace("23857", "23840"); // a thread number that came back
    assert_eq!(shape(&read(&again, Unit::Guess).unwrap()), [(2, 398, 18, 9_876)]);
    // single samples of one run, the status line of another
    let mixed = format!("       0:       0:      19\n       0:       1:   40821\n{NIGHTS}");
    assert_eq!(shape(&read(&mixed, Unit::Guess).unwrap()), [(2, 400, 19, 40_821)]);
    let screen = "T: 0 (  5) P:80 I:1000 C:    100 Min:     25 Act:   42 Avg:   20 Max:     791\n\
                  T: 0 (  5) P:80 I:1000 C:    200 Min:     25 Act:   42 Avg:   20 Max:     891\n";
    let run = read(screen, Unit::Guess).unwrap();
    assert_eq!(shape(&run), [(2, 198, 25, 891)]);
    assert!(!noted(&run, "one after the other"));
}

#[test]
fn single_samples_whose_first_ones_are_absent_are_no_complete_run() {
    let run = read("       0:     999:       5\n", Unit::Guess).unwrap();
    assert_eq!(shape(&run), [(1, 999, 5, 5)]);
    assert!(!run.complete && noted(&run, "nor is their maximum") && !noted(&run, "above the maximum"));
    let gap = "       0:       0:       5\n       0:       7:       6\n";
    let run = read(gap, Unit::Guess).unwrap();
    assert_eq!((shape(&run), run.complete), (vec![(2, 6, 5, 6)], false));
    let two = "       0:       0:       5\n       0:       1:       6\n       0:       0:       4\n";
    let run = read(two, Unit::Guess).unwrap();
    assert_eq!((shape(&run), run.complete), (vec![(3, 0, 4, 6)], true));
    assert!(recorded("ct_v.stdout").complete && recorded("ct_D2.stdout").complete);
    let json = "{\"thread\": {\"0\": {\"cycles\": 9, \"histogram\": {\"3\": 5}}}}";
    assert!(!read(json, Unit::Guess).unwrap().complete, "a maximum is not told");
}

#[test]
fn a_maximum_that_the_counts_leave_no_room_for_is_kept() {
    let text = "# Histogram\n000000 000000\n000001 000002\n# Total: 000000002\n# Min Latencies: 00001\n\
                # Avg Latencies: 00001\n# Max Latencies: 00899\n# Histogram Overflows: 00000\n";
    assert_eq!(shape(&read(text, Unit::Guess).unwrap()), [(3, 0, 1, 899)]);
}

#[test]
fn the_latency_that_broke_a_run_off_is_kept_where_no_status_line_has_it() {
    let run = recorded("ct_b_noq.stdout");
    assert_eq!(run.max_of(Quantity::Cyclic), Some(Ns::from_us(28)));
    assert_eq!(run.series[0].histogram.max(), Some(Ns::from_us(28)));
    let status = "T: 0 ( 8439) P:80 I:1000 C:   1996 Min:      4 Act:    6 Avg:   18 Max:      10\n\
                  T: 1 ( 8440) P:80 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n";
    let broke = |tid: u32, more: &str| {
        read(&format!("{status}{more}# Break thread: {tid}\n# Break value: 700\n"), Unit::Guess).unwrap()
    };
    assert_eq!(broke(8_439, "").series[0].histogram.max(), Some(Ns::from_us(700)));
    assert_eq!(broke(8_440, "# Thread Ids: 08439 08440\n").series[1].histogram.max(), Some(Ns::from_us(700)));
    let unknown = broke(7, "# Thread Ids: 08439 08440\n");
    assert!(!unknown.complete && noted(&unknown, "700 µs, is of no thread"), "{unknown:?}");
    let first = status.lines().next().unwrap();
    let whole = |more: &str| read(&format!("{first}\n{more}"), Unit::Guess).unwrap().complete;
    assert!(whole("") && !whole("# Break thread: 7\n# Break value: 700\n"), "its latency is nobody's");
    let cut = read(&format!("{status}# Break thread: 8439\n"), Unit::Guess).unwrap();
    assert!(!cut.complete && noted(&cut, "not told, is of no thread"));
}

#[test]
fn a_status_line_is_found_behind_a_command_or_the_prefix_of_a_log() {
    let line = "T: 0 (22300) P: 5 I:1000 C:    100 Min:     22 Act:   42 Avg:   58 Max:     280\n";
    let glued = read(&format!("cyclictest -q --laptop -t2 -p 5 {line}"), Unit::Guess).unwrap();
    assert_eq!((shape(&glued), glued.complete), (vec![(2, 98, 22, 280)], true));
    assert_eq!(glued.conditions.command.as_deref(), Some("cyclictest -q --laptop -t2 -p 5"));
    let logged = read(&format!("[  12.3] {line}"), Unit::Guess).unwrap();
    assert_eq!((shape(&logged), &logged.conditions.command), (vec![(2, 98, 22, 280)], &None));
    assert!(read(&format!("[  12.3] {}", &line[..line.len() - 2]), Unit::Guess).is_err(), "cut off");
}

#[test]
fn a_thread_without_a_sample_makes_a_run_incomplete() {
    let third = "T: 2 ( 8439) P:80 I:1000 C:   1996 Min:      4 Act:    6 Avg:   18 Max:      10\n";
    let run = read(third, Unit::Guess).unwrap();
    assert_eq!((run.series.len(), run.complete), (3, false));
    assert!(noted(&run, "thread 1: no sample of this thread"), "{:?}", run.conditions.notes);
    let json = recorded("ct_json_break.json");
    assert!(!json.complete && noted(&json, "CPU 1: no sample of this thread"));
}

#[test]
fn a_screen_whose_threads_had_no_sample_yet_is_no_run() {
    let zero = "T: 0 (    0) P:80 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n";
    let (later, last) = NIGHTS.rsplit_once("# /dev").unwrap();
    let screen = format!("{zero}{later}{zero}");
    let run = read(&screen, Unit::Guess).unwrap();
    assert_eq!((shape(&run), run.complete), (vec![(2, 298, 18, 9_876)], true));
    assert!(!noted(&run, "one after the other"));
    assert_eq!(run.series[0].thread.as_ref().unwrap().tid, Tid(23_840));
    let two = read(&format!("{screen}# /dev{last}"), Unit::Guess).unwrap();
    assert!(noted(&two, "2 runs one after the other") && shape(&two) == [(2, 398, 18, 9_876)]);
    assert!(!read(zero, Unit::Guess).unwrap().complete);
}

#[test]
fn json_that_would_lose_samples_is_refused() {
    let thread = "\"0\": {\"histogram\": {\"5\": 9}, \"max\": 5}";
    for (json, needle) in [
        (format!("{{{thread}, {thread}}}"), "thread 0 appears twice"),
        (format!("{{{thread}, {}}}", thread.replacen('0', "00", 1)), "thread 0 appears twice"),
        (
            "{\"0\": {\"histogram\": {\"5\": 9, \"5\": 3}, \"max\": 5}}".to_owned(),
            "row 5 of thread 0 appears twice",
        ),
        ("{\"0\": {\"receiver\": {\"min\": 1, \"avg\": 2.0, \"max\": 900}}}".to_owned(), "neither 'cycles'"),
        ("{\"0\": {\"min\": 1, \"avg\": 1.0, \"max\": 55}}".to_owned(), "neither 'cycles'"),
    ] {
        let error = read(&format!("{{\"thread\": {json}}}"), Unit::Guess).unwrap_err();
        assert!(error.what.contains(needle), "{json}: {error}");
    }
    let counted =
        |told: u32| read(&format!("{{\"num_threads\": {told}, \"thread\": {{{thread}}}}}"), Unit::Guess);
    assert!(counted(1).unwrap().complete);
    assert!(counted(2).unwrap_err().what.contains("num_threads is 2, but it has 1"));
}

#[test]
fn counts_that_cannot_be_added_up_are_refused() {
    let text = |second: &str, overflows: &str| {
        format!("# Histogram\n000000 1\n000001 {second}\n# Max Latencies: 9\n# Histogram Overflows: {overflows}\n")
    };
    for damaged in [text("18446744073709551615", "1"), text("2", "18446744073709551613")] {
        let error = read(&damaged, Unit::Guess).unwrap_err();
        assert!(error.what.contains("more than 2^64"), "{damaged}: {error}");
    }
    assert_eq!(shape(&read(&text("2", "5"), Unit::Guess).unwrap()), [(4, 4, 0, 9)]);
}

#[test]
fn a_histogram_above_its_own_maximum_is_refused() {
    let text = |max: u32, overflows: u32| {
        format!("000000 1\n000001 2\n000002 1\n000003 0\n# Max Latencies: {max}\n# Histogram Overflows: {overflows}\n")
    };
    for (max, overflows, needle) in
        [(1, 0, "has a sample at 2"), (2, 7, "7 samples are beyond"), (3, 7, "7 samples")]
    {
        let error = read(&text(max, overflows), Unit::Guess).unwrap_err();
        assert!(error.line == Some(5) && error.what.contains(needle), "{error}");
    }
    assert!(read(&text(2, 0), Unit::Guess).is_ok() && read(&text(4, 7), Unit::Guess).is_ok());
    let json = |cycles: u32, max: u32| {
        let thread =
            format!("{{\"histogram\": {{\"5\": 9, \"90\": 1}}, \"cycles\": {cycles}, \"max\": {max}}}");
        read(&format!("{{\"thread\": {{\"0\": {thread}}}}}"), Unit::Guess)
    };
    assert!(json(10, 6).unwrap_err().what.contains("thread 0: the maximum is 6"));
    assert!(json(12, 90).unwrap_err().what.contains("2 samples are beyond"));
    assert!(json(10, 90).is_ok() && json(12, 91).is_ok());
}

#[test]
fn an_assumed_unit_is_noted() {
    let assumed = |text: &str, unit| noted(&read(text, unit).unwrap(), "µs are assumed");
    let rows = "000000 1\n# Max Latencies: 0\n# Histogram Overflows: 0\n";
    assert!(assumed(rows, Unit::Guess) && !assumed(rows, Unit::Ns));
    assert!(!assumed(NIGHTS, Unit::Guess), "its columns are those of µs");
    let squeezed = "T: 0 (5) P:80 I:1000 C: 300 Min: 18 Act: 42 Avg: 60 Max: 9876\n";
    assert!(assumed(squeezed, Unit::Guess));
    assert!(!noted(&recorded("ct_json.json"), "µs are assumed"));
    assert!(!noted(&recorded("ct_N.stdout"), "µs are assumed"));
}

#[test]
fn a_maximum_that_falls_is_that_of_another_run() {
    let line = |cycles: u32, max: u32| {
        format!("T: 0 ( 8439) P:80 I:1000 C:{cycles:7} Min:      4 Act:    6 Avg:   18 Max:{max:8}\n")
    };
    let read = |text: &str| read(text, Unit::Guess).unwrap();
    let one = read(&[line(100, 30), line(200, 50)].concat());
    assert_eq!((one.series[0].samples_bounded(), one.max_of(Quantity::Cyclic)), (200, Some(Ns::from_us(50))));
    let two = read(&[line(100, 50), line(200, 30)].concat());
    assert_eq!((two.series[0].samples_bounded(), two.max_of(Quantity::Cyclic)), (300, Some(Ns::from_us(50))));
}

#[test]
fn single_samples_that_are_absent_are_below_no_maximum_of_another_run() {
    let status = "T: 0 ( 8439) P:80 I:1000 C:   1996 Min:      4 Act:    6 Avg:   18 Max:      10\n";
    let samples = |second: u32| format!("{status}{:8}:{:8}:{:8}\n{:8}:{second:8}:{:8}\n", 0, 0, 7, 0, 9);
    let bounded = |second| read(&samples(second), Unit::Guess).unwrap().series[0].lost_below_max;
    assert_eq!([bounded(1), bounded(2)], [true, false]);
}
