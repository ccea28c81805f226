use super::*;
use crate::comm::Comm;
use crate::explain::{self, Segment};
use crate::histogram::Layout;
use crate::monitor::event::Kind;
use crate::series::{Quantity, Thread};
use crate::time::{Cpu, Mono, Tid};

fn row(number: i64, cpu: u32, max_us: u64, victim: Option<&str>) -> Row {
    let mut histogram = Histogram::new(Layout::LATENCY);
    [5, 7, max_us].iter().for_each(|&us| histogram.record(Ns::from_us(us)));
    let key = SeriesKey::of_cpu(Quantity::TimerWakeup, Cpu(cpu));
    let peak = victim.map(|comm| Peak {
        quantity: key.quantity,
        cpu: Cpu(cpu),
        begin: Mono(1),
        total_ns: Ns::from_us(max_us),
        victim: Thread { tid: Tid(7), comm: comm.to_owned(), prio: None },
        culprit: Some("irqs off: vnd/812".to_owned()),
        explanation: None,
        no_evidence: Some("for this test".to_owned()),
        context: None,
        during_action: false,
        counted_as: None,
    });
    let end = UnixMs(number * 300_000);
    Row {
        begin: UnixMs((number - 1) * 300_000),
        end,
        measured: Ns(300_000_000_000),
        whole: true,
        key,
        figures: WindowFigures::of(&histogram),
        histogram: packed::pack(&histogram),
        lost: 1,
        max_at: peak.as_ref().map(|_| UnixMs(end.0 - 1_500)),
        victim: peak.as_ref().map(|peak| peak.victim.to_string()),
        culprit: peak.as_ref().and_then(|peak| peak.culprit.clone()),
        held: None,
        peak: peak.as_ref().and_then(packed::pack_peak),
    }
}

pub fn example() -> History {
    let rows = vec![
        row(1, 0, 40, None),
        row(1, 1, 90, None),
        row(2, 0, 4_321, Some("=cmd|'/c calc'!\"A1\"\n")),
        row(2, 1, 50, Some("motion")),
    ];
    let window = |n: i64| (UnixMs((n - 1) * 300_000), UnixMs(n * 300_000));
    History {
        from: UnixMs(0),
        until: None,
        monitor: Some("lathunt 0, on board-7 <b>".to_owned()),
        windows: vec![window(1), window(2), window(3)],
        rows,
        events: vec![
            Event::new(UnixMs(0), Kind::Started, "lathunt"),
            Event::new(UnixMs(5), Kind::WindowLost, "it was killed"),
        ],
        alltime: [0, 1]
            .map(|cpu| Alltime {
                key: SeriesKey::of_cpu(Quantity::TimerWakeup, Cpu(cpu)),
                max_ns: Ns::from_us(4_321),
                at: UnixMs(1),
                victim: None,
                culprit: None,
            })
            .to_vec(),
        latency_deadline: None,
    }
}

#[test]
fn the_table_names_the_worst_window_its_victim_and_what_happened() {
    let text = example().to_text(140);
    assert!(text.starts_with("3 windows from 1970-01-01T00:00:00Z to 1970-01-01T00:15:00Z"), "{text}");
    let series = text.lines().find(|line| line.starts_with("timer+wakeup CPU 0")).unwrap();
    assert!(series.contains("4.321 ms") && series.contains("00:09:58.500Z"), "{series}");
    let worst = text.split("Worst windows\n").nth(1).unwrap().lines().take(2).collect::<String>();
    assert!(
        worst.contains("4.321 ms") && worst.contains("calc") && worst.contains("for this test"),
        "{worst}"
    );
    assert!(text.contains("no evidence of this one was kept") && text.contains("window_lost: it was killed"));
    assert!(text.lines().all(|line| line.chars().count() <= 140));
    let narrow = example().to_text(80);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    let series = narrow.lines().find(|line| line.starts_with("timer+wakeup CPU 0")).unwrap();
    assert!(series.contains("4.321 ms") && series.ends_with("01-01 00:09:58"), "{series}");
    let of_one = example().only(|key| key.whose.cpu() == Some(Cpu(1)));
    assert!((of_one.rows.len(), of_one.alltime.len()) == (2, 1) && of_one.windows.len() == 3);
    let empty = example().only(|_| false).to_text(80);
    assert!(empty.contains("no sample in them") && !empty.contains("Worst windows"), "{empty}");
    assert!(History::default().to_text(80).contains("no window was closed since 1970-01-01T00:00:00Z"));
}

/// Of a wake-up in the second window that ended after `total_us`, the last of it at 100 ms.
fn of_event(key: SeriesKey, total_us: u64, explained_us: u64) -> Row {
    let total_ns = Ns::from_us(total_us);
    let begin = Mono(100_000_000 - total_ns.0);
    let tree = Segment::leaf(explain::Kind::Passage, "", begin, Ns::from_us(explained_us));
    let explanation = explain::Explanation {
        sentence: format!("waited {explained_us} µs: hog/9 held the CPU"),
        advice: String::new(),
        total_ns: tree.duration_ns,
        unexplained_ns: Ns(0),
        tree,
        cause: "thread: hog".to_owned(),
        limits: Vec::new(),
    };
    let example = row(2, 0, total_us, Some("motion"));
    let peak = example.peak(&mut Allowance::of(0)).unwrap().unwrap();
    let quantity = key.quantity;
    let peak = Peak { quantity, begin, total_ns, explanation: Some(explanation), no_evidence: None, ..peak };
    Row { key, peak: packed::pack_peak(&peak), ..example }
}

#[test]
fn each_event_is_listed_once_and_its_sentence_is_about_the_number_beside_it() {
    let task = |quantity| SeriesKey::of_task(quantity, Comm::cut("motion"));
    let cpu = |quantity| SeriesKey::of_cpu(quantity, Cpu(0));
    let job = Row {
        held: Some(Held { deadline: Ns::from_us(500), misses: 3 }),
        ..of_event(task(Quantity::Response), 900, 900)
    };
    let rows = vec![
        of_event(cpu(Quantity::TimerWakeup), 245, 245),
        of_event(task(Quantity::TimerWakeup), 245, 245),
        of_event(cpu(Quantity::Timer), 153, 245),
        job,
        row(1, 1, 90, Some("other")),
    ];
    for width in [80, 140] {
        let text = History { rows: rows.clone(), ..example() }.to_text(width);
        let worst = text.split("Worst windows\n").nth(1).unwrap().split("\nWhat happened").next().unwrap();
        let cases = worst.lines().filter(|line| !line.starts_with("            ")).count();
        assert_eq!(cases, 2, "one event and another thread's: {worst}");
        let words = worst.split_whitespace().collect::<Vec<_>>().join(" ");
        let others = "also the largest timer+wakeup CPU 0, timer+wakeup motion, timer CPU 0";
        assert!(worst.starts_with("    900 µs  response motion") && words.contains(others), "{worst}");
        assert!(words.contains("motion/7: waited 900 µs: hog/9 held the CPU"), "{worst}");
        assert!(text.lines().all(|line| line.chars().count() <= width) && !text.contains('…'), "{text}");
        let jobs = text.lines().find(|line| line.starts_with("motion ")).unwrap();
        let figures: Vec<&str> = jobs.split_whitespace().collect();
        assert_eq!(figures[..9], ["motion", "500", "µs", "3", "1", "3", "900", "µs", figures[8]], "{jobs}");
    }
    let of_timer = History { rows, ..example() }.only(|key| key.quantity == Quantity::Timer).to_text(80);
    assert!(of_timer.contains("153 µs of 245 µs, of which is told: waited 245 µs"), "{of_timer}");
}

#[test]
fn csv_has_one_line_a_window_and_series_and_no_formula() {
    let csv = example().to_csv(&mut Vec::new());
    let lines: Vec<&str> = csv.trim_end().split("\r\n").collect();
    assert_eq!(lines.len(), 5);
    let fields = lines[0].split(',').count();
    assert_eq!(lines[1].split(',').count(), fields);
    assert!(
        lines[3].contains("4321000,1970-01-01T00:09:58.500Z,\"'=cmd|'/c calc'!\"\"A1\"\""),
        "{}",
        lines[3]
    );
}

#[test]
fn json_holds_every_window_with_its_histogram() {
    let json: serde_json::Value = serde_json::from_str(&example().to_json(&mut Vec::new())).unwrap();
    assert_eq!((json["format"].as_str(), json["rows"].as_array().unwrap().len()), (Some(FORMAT), 4));
    assert_eq!(json["windows"].as_array().unwrap().len(), 3);
    let histogram: Histogram = serde_json::from_value(json["rows"][2]["histogram"].clone()).unwrap();
    assert_eq!(histogram.max(), Some(Ns::from_us(4_321)));
    assert_eq!(json["rows"][2]["peak"]["culprit"], "irqs off: vnd/812");
}

/// Samples of `us`, with the count of each.
fn of(number: i64, samples: &[(u64, usize)], lost: u64) -> Row {
    let mut histogram = Histogram::new(Layout::LATENCY);
    samples.iter().for_each(|&(us, n)| (0..n).for_each(|_| histogram.record(Ns::from_us(us))));
    let figures = WindowFigures::of(&histogram);
    Row { figures, histogram: packed::pack(&histogram), lost, ..row(number, 0, 1, None) }
}

#[test]
fn a_quantile_of_several_windows_is_that_of_all_their_samples() {
    // The worst window alone would say 900 µs.
    let rows = vec![of(1, &[(900, 10), (10, 90)], 0), of(2, &[(10, 99_900)], 0)];
    let all = quantile_of_all(&rows.iter().collect::<Vec<_>>(), 0.999).unwrap();
    assert!(all < Ns::from_us(12), "{all}");
    let text = History { rows, ..example() }.to_text(140);
    let line = text.lines().find(|line| line.starts_with("timer+wakeup CPU 0")).unwrap();
    assert_eq!(line.matches(&all.to_string()).count(), 1, "{line}");
}

#[test]
fn lost_samples_hide_the_quantiles_that_they_may_be() {
    let row = of(1, &[(10, 950), (900, 50)], 20);
    let [p50, p99, p99_9, _] = row.quantiles().unwrap();
    assert!(p50.is_some() && p99.is_none() && p99_9.is_none(), "{p50:?} {p99:?} {p99_9:?}");
    assert_eq!(quantile_of_all(&[&row], 0.999), None);
    let csv = History { rows: vec![row], ..example() }.to_csv(&mut Vec::new());
    let fields: Vec<_> = csv.lines().nth(1).unwrap().split(',').collect();
    assert!(fields[10].len() > 3 && fields[11..14].iter().all(|field| field.is_empty()), "{csv}");
}

#[test]
fn a_damaged_record_is_named_and_hides_no_other() {
    let mut history = example();
    history.rows[2].peak = Some(vec![1, 2, 3]);
    history.rows[0].histogram = vec![9];
    let mut damaged = Vec::new();
    let json: serde_json::Value = serde_json::from_str(&history.to_json(&mut damaged)).unwrap();
    assert!(json["rows"][0]["histogram"].is_null() && json["rows"][2]["peak"].is_null());
    assert_eq!(json["rows"][3]["peak"]["victim"]["comm"], "motion");
    assert!(damaged[0]
        .contains("the histogram of timer+wakeup CPU 0 in the window that ended at 1970-01-01T00:05:00Z"));
    assert!(damaged[1].contains("the maximum of timer+wakeup CPU 0") && damaged.len() == 2, "{damaged:?}");
    damaged.clear();
    assert_eq!(history.to_csv(&mut damaged).lines().count(), 5);
    assert_eq!(damaged.len(), 2, "the quantiles of the first need its histogram");
}

#[test]
fn one_series_can_be_chosen() {
    let wanted: crate::monitor::window::Wanted = "timer+wakeup@1".parse().unwrap();
    let history = example().only(|key| wanted.is(key));
    assert_eq!((history.rows.len(), history.windows.len()), (2, 3));
}

#[test]
fn windows_without_a_sample_say_whether_there_was_none_or_it_was_lost() {
    let mut history = example();
    history.events.clear();
    let mut lost = Row { figures: WindowFigures::default(), max_at: None, peak: None, ..row(1, 0, 40, None) };
    lost.lost = 123;
    let other = SeriesKey::of_cpu(Quantity::Wakeup, Cpu(0));
    history.rows = vec![lost.clone(), Row { key: other, ..lost.clone() }];
    let text = history.to_text(80);
    assert!(text.contains("no sample in them: 123 wake-ups were lost") && !text.contains("woken"), "{text}");
    history.rows = vec![Row { lost: 0, ..lost }];
    assert!(history.to_text(80).contains("no such task was woken"));
    history.events = vec![Event::new(UnixMs(5), Kind::ActivationsLost, "9 activations were overwritten")];
    let text = history.to_text(80);
    assert!(!text.contains("woken") && text.contains("was lost (see below)"), "{text}");
    assert!(text.contains("9 activations were overwritten"), "{text}");
}

#[test]
fn the_history_says_how_rare_exceedances_are_and_nothing_where_nothing_is_known() {
    // Two windows of a CPU with three samples and one lost each; of CPU 0 one of them is late.
    let held = History { latency_deadline: Some(Ns::from_us(1_000)), ..example() };
    let counts: Vec<_> = held.exceedances().iter().map(|limit| (limit.samples, limit.above)).collect();
    assert_eq!(counts, [(8, 3), (8, 2)]);
    let text = held.to_text(140);
    // Clopper and Pearson's limits: 0.5997 after 2 of 8, 0.7108 after 3.
    let of = |name: &str| {
        let (_, section) = text.split_once("later than its deadline").unwrap();
        section.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    assert!(of("timer+wakeup CPU 1").ends_with(" 2  60.0 %"), "{text}");
    assert!(of("timer+wakeup CPU 0").ends_with(" 3  71.1 %"), "{text}");
    assert!(held.to_text(80).lines().all(|line| line.chars().count() <= 80));
    assert!(!example().to_text(140).contains("later than its deadline"), "no deadline, no claim");
    let json: serde_json::Value = serde_json::from_str(&held.to_json(&mut Vec::new())).unwrap();
    assert_eq!(json["exceedance"][0]["above"], 3);
    assert_eq!(json["exceedance"][0]["cpu"], 0, "{json}");
}

#[test]
fn maxima_that_unfold_to_gigabytes_are_read_up_to_a_limit_and_the_others_named() {
    let mut history = example();
    let mut peak = serde_json::to_vec(&history.rows[2].peak(&mut Allowance::of(0)).unwrap()).unwrap();
    peak.resize(4 << 20, b' ');
    let packed = zstd::bulk::compress(&peak, 19).unwrap();
    assert!(packed.len() < 1_000);
    history.rows = vec![Row { peak: Some(packed), ..history.rows[2].clone() }; 100];
    let mut damaged = Vec::new();
    assert!(history.to_csv(&mut damaged).lines().count() == 101 && damaged.len() == 92, "{damaged:?}");
    assert!(damaged.iter().all(|line| line.contains("the maxima together unfold to more than 32 MiB")));
    damaged.clear();
    let json: serde_json::Value = serde_json::from_str(&history.to_json(&mut damaged)).unwrap();
    assert!(json["rows"].as_array().unwrap().len() == 100 && damaged.len() == 92);
    assert_eq!(json["rows"][0]["peak"]["total_ns"], 4_321_000);
}
