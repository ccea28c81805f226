//! What is exported of which windows.

use super::*;
use crate::comm::Comm;
use crate::histogram::Layout;
use crate::monitor::metric::text::{encode, Flavour};
use crate::monitor::window::Held;
use crate::peak::Peak;
use crate::series::Thread;
use crate::time::Mono;

const KEY: SeriesKey = SeriesKey { quantity: Quantity::TimerWakeup, whose: Whose::Cpu(Cpu(1)) };

fn in_a_day() -> Exceedances {
    Exceedances::new(Ns(86_400_000_000_000), Some(Ns::from_us(100)))
}

fn window(max_us: u64, end: i64) -> Window {
    let mut histogram = Histogram::new(Layout::LATENCY);
    [10, max_us].iter().for_each(|&us| histogram.record(Ns::from_us(us)));
    let peak = Peak {
        quantity: KEY.quantity,
        cpu: Cpu(1),
        begin: Mono(0),
        total_ns: Ns::from_us(max_us),
        victim: Thread { comm: "motion".to_owned(), ..Thread::default() },
        culprit: Some("irqs off: vnd/812".to_owned()),
        explanation: None,
        no_evidence: None,
        context: None,
        during_action: false,
        counted_as: None,
    };
    let series = WindowSeries {
        key: KEY,
        histogram,
        lost: 0,
        peak: Some(peak),
        peak_at: Some(UnixMs(end - 1)),
        held: None,
    };
    let (begin, end) = (UnixMs(end - 300_000), UnixMs(end));
    Window { begin, end, measured: Ns(300_000_000_000), whole: true, series: vec![series] }
}

#[test]
fn maxima_are_those_of_the_last_window_and_of_all_and_names_stay_out_of_labels() {
    let mut published = Published::new("1.2.3", Ns(300_000_000_000), &[], in_a_day());
    published.closed(&window(700, 300_000));
    published.closed(&window(30, 600_000));
    let mut all = window(700, 0).series[0].histogram.clone();
    all.merge(&window(30, 0).series[0].histogram).unwrap();
    let totals = Totals { series: vec![(KEY, all, 3)], ..Totals::default() };
    let text = encode(&published.families(&totals), Flavour::OpenMetrics);
    for line in [
        "lathunt_latency_max_seconds{cpu=\"1\",kind=\"timer+wakeup\",window=\"5m\"} 3e-05",
        "lathunt_latency_max_alltime_seconds{cpu=\"1\",kind=\"timer+wakeup\"} 0.0007",
        "lathunt_latency_max_alltime_timestamp_seconds{cpu=\"1\",kind=\"timer+wakeup\"} 299.999",
        "lathunt_window_end_timestamp_seconds{window=\"5m\"} 600",
        "lathunt_missed_total{cpu=\"1\"} 3",
        "lathunt_windows_total 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let exemplar = "# {culprit=\"irqs off: vnd/812\",victim=\"motion\"} 0.0007 299.999";
    assert!(text.lines().any(|line| line.contains("le=\"0.001\"") && line.ends_with(exemplar)), "{text}");
    assert!(text.lines().all(|line| !line.split(" # ").next().unwrap_or("").contains("motion")));
    assert!(!text.contains("lathunt_throttled"), "what is not known is absent");
}

#[test]
fn the_largest_ever_has_its_moment_the_newest_exemplars_stay_and_losses_are_not_added_up() {
    let length = Ns(300_000_000_000);
    let known =
        |key| Alltime { key, max_ns: Ns::from_us(40), at: UnixMs(7_000), victim: None, culprit: None };
    let task = SeriesKey::of_task(Quantity::TimerWakeup, Comm::cut("motion"));
    let mut published = Published::new("1.2.3", length, &[known(KEY), known(task)], in_a_day());
    let told = |published: &Published| {
        let other = SeriesKey::of_cpu(Quantity::Wakeup, Cpu(1));
        let empty = || Histogram::new(Layout::LATENCY);
        let series = vec![(KEY, empty(), 3), (other, empty(), 4)];
        encode(&published.families(&Totals { series, ..Totals::default() }), Flavour::OpenMetrics)
    };
    let has = |text: &str, line: &str| text.lines().any(|found| found == line);
    let text = told(&published);
    assert!(
        has(&text, "lathunt_latency_max_alltime_timestamp_seconds{cpu=\"1\",kind=\"timer+wakeup\"} 7"),
        "{text}"
    );
    assert!(!text.contains("task=\"motion\""), "of CPUs alone: {text}");
    assert!(has(&text, "lathunt_missed_total{cpu=\"1\"} 4"), "the same wake-ups are missing in both: {text}");
    for end in 1..=40 {
        published.closed(&window(700, end * 300_000));
    }
    let text = told(&published);
    assert!(
        has(&text, "lathunt_latency_max_alltime_timestamp_seconds{cpu=\"1\",kind=\"timer+wakeup\"} 299.999"),
        "{text}"
    );
    assert_eq!(published.exemplars[&KEY].len(), EXEMPLARS);
    assert_eq!(published.exemplars[&KEY].last().unwrap().at, 11_999.999);
}

#[test]
fn tasks_have_maxima_and_totals_of_completed_windows_and_no_place_among_cpus() {
    let mut published = Published::new("1.2.3", Ns(300_000_000_000), &[], in_a_day());
    let key = SeriesKey::of_task(Quantity::TimerWakeup, Comm::cut("motion"));
    for (max_us, end) in [(700, 300_000), (30, 600_000)] {
        let mut closed = window(max_us, end);
        closed.series[0].key = key;
        published.closed(&closed);
    }
    let text = encode(&published.families(&Totals::default()), Flavour::OpenMetrics);
    for line in [
        "lathunt_task_latency_max_seconds{task=\"motion\",kind=\"timer+wakeup\",window=\"5m\"} 3e-05",
        "lathunt_task_latency_seconds_count{task=\"motion\",kind=\"timer+wakeup\"} 4",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("lathunt_latency_max"), "{text}");
    assert!(text.contains("# {culprit=\"irqs off: vnd/812\",victim=\"motion\"} 0.0007"), "{text}");
}

#[test]
fn jobs_have_their_deadline_their_misses_and_the_cause_of_the_worst() {
    let mut published = Published::new("1.2.3", Ns(300_000_000_000), &[], in_a_day());
    let key = SeriesKey::of_task(Quantity::Response, Comm::cut("motion"));
    for (max_us, end, misses) in [(700, 300_000, 1), (30, 600_000, 0)] {
        let mut closed = window(max_us, end);
        closed.series[0].key = key;
        closed.series[0].held = Some(Held { deadline: Ns::from_us(500), misses });
        published.closed(&closed);
    }
    let text = encode(&published.families(&Totals::default()), Flavour::OpenMetrics);
    for line in [
        "lathunt_deadline_misses_total{task=\"motion\"} 1",
        "lathunt_deadline_seconds{task=\"motion\"} 0.0005",
        "lathunt_response_max_seconds{task=\"motion\",window=\"5m\"} 3e-05",
        "lathunt_response_seconds_count{task=\"motion\"} 4",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains("# {culprit=\"irqs off: vnd/812\",victim=\"motion\"} 0.0007"), "{text}");
    let of_jobs = text.lines().filter(|line| line.contains("kind=\"response\""));
    let named = |line: &str| line.starts_with("lathunt_exceedance_probability_upper{");
    assert!(of_jobs.into_iter().all(named), "jobs are exported as responses only: {text}");
    published.closed(&Window { series: Vec::new(), ..window(1, 900_000) });
    let text = encode(&published.families(&Totals::default()), Flavour::OpenMetrics);
    assert!(!text.contains("lathunt_response_max_seconds{"), "the last window has none: {text}");
    assert!(text.contains("lathunt_deadline_misses_total{task=\"motion\"} 1"), "{text}");
}

#[test]
fn the_probability_of_an_exceedance_is_that_of_the_windows_before_and_changes_with_a_window() {
    let day = || Exceedances::new(Ns(86_400_000_000_000), Some(Ns::from_us(100)));
    let mut before = day();
    before.closed(UnixMs(300_000), &window(30, 300_000).series);
    let mut published = Published::new("1.2.3", Ns(300_000_000_000), &[], before);
    let upper = |published: &Published| {
        let text = encode(&published.families(&Totals::default()), Flavour::OpenMetrics);
        let name =
            "lathunt_exceedance_probability_upper{cpu=\"1\",kind=\"timer+wakeup\",deadline=\"0.0001\",\
                    span=\"24h\",confidence=\"0.95\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{text}"));
        line.parse::<f64>().unwrap()
    };
    let none_of_2 = 1.0 - 0.05f64.sqrt();
    assert!((upper(&published) - none_of_2).abs() < 1e-9);
    published.closed(&window(700, 600_000));
    // One of four, tables of Clopper and Pearson: 0.7514.
    assert!((upper(&published) - 0.7514).abs() < 1e-4, "{}", upper(&published));
}

#[test]
fn window_lengths_are_written_as_prometheus_writes_them() {
    let shown = [300, 3_600, 90].map(|seconds| duration(Ns(seconds * 1_000_000_000)));
    assert_eq!(shown, ["5m", "1h", "90s"]);
    assert_eq!(duration(Ns::from_ms(250)), "250ms");
}
