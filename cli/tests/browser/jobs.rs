//! The report of an application that missed its deadline: what a reader sees first, on a telephone, a desk and paper.

use lathunt_core::application::Task;
use lathunt_core::explain::{Explanation, Kind, Segment};
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::judge::{judge_recording, Asked};
use lathunt_core::peak::Peak;
use lathunt_core::series::{Quantity, Series, Thread};
use lathunt_core::time::{Cpu, Prio, Tid};

use super::*;

fn thread(tid: i32, comm: &str, prio: i32) -> Thread {
    Thread { tid: Tid(tid), comm: comm.to_owned(), prio: Some(Prio(prio)) }
}

fn task(thread: &Thread, longest: Ns) -> Task {
    let mut task: Task = serde_json::from_value(json!({
        "thread": thread, "process": 2000, "policy": "SCHED_FIFO", "waits_in": "clock_nanosleep TIMER_ABSTIME",
        "timer_driven": true, "activations": 4001,
        "period": {"median_ns": 1_000_000, "jitter_median_ns": 900, "jitter_max_ns": 90_000, "missed": 0}, "series": [],
        "execution": {"min_ns": 90_000, "mean_ns": 97_000.0, "max_ns": 130_000}, "preemptions": 3, "page_faults": 12,
        "deadline_ns": 500_000, "misses": 3
    }))
    .unwrap();
    let mut histogram = Histogram::new(Layout::LATENCY);
    (0..4_000).for_each(|_| histogram.record(Ns(99_000)));
    histogram.record(longest);
    task.series =
        vec![Series { thread: Some(thread.clone()), ..Series::new(Quantity::Response, None, histogram) }];
    task
}

/// `control` was blocked on a mutex that `logger` held; twenty more threads were in time.
fn late_run() -> Run {
    let mut run = example::run(4, 60_000);
    let (control, logger) = (thread(2_001, "control", 19), thread(2_002, "logger", 120));
    let total_ns = Ns::from_us(2_247);
    run.tasks = vec![task(&control, total_ns)];
    run.tasks.extend((0..20).map(|nth| task(&thread(2_010 + nth, "a-worker-thread", 49), Ns::from_us(300))));
    let at = |us: u64| example::BEGIN + Ns::from_us(us);
    let mut held = Segment::leaf(Kind::Thread, "logger/2002 (nice 0) ran", at(150), Ns::from_us(1_900));
    held.thread = Some(logger);
    let irq = Segment::leaf(Kind::HardIrq, "hard IRQ 25 (virtio0)", at(2_050), Ns::from_us(40));
    let mutex = "blocked on a mutex without priority inheritance, futex FUTEX_WAIT 0x55db9c0ac140, held by logger/2002 (nice 0)";
    let parts = vec![
        Segment::leaf(Kind::Running, "runs", at(10), Ns::from_us(140)),
        Segment::group(Kind::Blocked, mutex, at(150), Ns::from_us(1_940), vec![held, irq]),
        Segment::leaf(Kind::Running, "runs", at(2_090), Ns::from_us(157)),
    ];
    let tree = Segment::group(Kind::Passage, "job of control/2001 (RT 80)", at(0), total_ns, parts);
    let explanation = Explanation {
        sentence: format!("control/2001 (RT 80) took 2.247 ms: was {mutex}"),
        advice: "give the mutex priority inheritance (PTHREAD_PRIO_INHERIT)".to_owned(),
        total_ns: tree.duration_ns,
        unexplained_ns: tree.total_unexplained(),
        tree,
        cause: "mutex without inheritance, held by logger".to_owned(),
        limits: Vec::new(),
    };
    let peak = Peak {
        quantity: Quantity::Response,
        cpu: Cpu(1),
        begin: at(0),
        total_ns,
        victim: control,
        culprit: Some(explanation.cause.clone()),
        explanation: Some(explanation),
        no_evidence: None,
        context: None,
        during_action: false,
        counted_as: None,
    };
    run.peaks.insert(0, peak);
    let asked = Asked { is_application: true, deadline: Some(Ns::from_us(500)), ..Asked::default() };
    run.verdict = Some(judge_recording(&run, &asked));
    run
}

fn width(browser: &mut Browser, width: u32) {
    let size = json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", size);
}

#[test]
fn a_late_job_is_explained_first_and_nothing_is_off_the_screen() {
    let Some((_directory, mut browser)) = opened("a_late_job_is_explained_first", &late_run()) else {
        return;
    };
    for scheme in ["light", "dark"] {
        browser.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        for wide in [400, 1_280, 1_920] {
            width(&mut browser, wide);
            let overflows = browser.eval("document.documentElement.scrollWidth - innerWidth");
            assert_eq!(overflows, 0, "the page at {wide} px, {scheme}");
            let inside = browser.eval(
                "[...document.querySelectorAll('.scroll')].filter((s) => s.scrollWidth > s.clientWidth + 1 && \
                 s.offsetParent).map((s) => s.querySelector('th, text').textContent)",
            );
            assert!(wide == 400 || inside == json!([]), "at {wide} px, {scheme}: {inside}");
        }
    }
    width(&mut browser, 1_280);
    let first = text(&mut browser, "#verdict");
    assert!(first.contains("control/2001 (RT 80) missed its deadline of 500 µs in 1 of 4"), "{first}");
    assert!(first.contains("held by logger/2002") && first.contains("PTHREAD_PRIO_INHERIT"), "{first}");
    let order = browser.eval("[...document.querySelectorAll('main > section')].map((s) => s.id)");
    let place = |id: &str| order.as_array().unwrap().iter().position(|one| one == id);
    assert!(place("worst") < place("plots"), "{order}");
    assert_eq!(browser.eval("document.querySelector('.peak').open"), true);
    let threads = browser.eval("document.querySelectorAll('#threads .threads tbody tr').length");
    assert_eq!(threads, 21);
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn the_timeline_of_a_late_job_has_lanes_a_legend_and_the_keyboard() {
    let Some((_directory, mut browser)) = opened("the_timeline_of_a_late_job", &late_run()) else { return };
    width(&mut browser, 1_280);
    let lanes =
        browser.eval("[...document.querySelectorAll('#peak-1 .l-name')].map((n) => n.firstChild.data)");
    let expected = json!(["control/2001 (RT 80)", "logger/2002 (nice 0)", "interrupts", "unexplained"]);
    assert_eq!(lanes, expected);
    let axis = browser.eval("[...document.querySelectorAll('#peak-1 .l-tick')].map((t) => t.textContent)");
    assert_eq!((&axis[0], &axis[5]), (&json!("0 ns"), &json!("2.247 ms")), "{axis}");
    let legend = text(&mut browser, "#peak-1 .timeline figcaption");
    assert!(["runs", "blocked", "interrupt"].iter().all(|look| legend.contains(look)), "{legend}");
    let labels = browser.eval("[...document.querySelectorAll('#peak-1 .l-label')].map((n) => n.textContent)");
    assert!(labels
        .as_array()
        .unwrap()
        .iter()
        .any(|label| label.as_str().unwrap().starts_with("blocked on a mutex")));
    browser.eval("document.querySelector('#peak-1 summary a').focus()");
    let mut told = Vec::new();
    for _ in 0..12 {
        browser.key("Tab", false);
        told.extend(
            browser.eval("document.activeElement.getAttribute('aria-label')").as_str().map(str::to_owned),
        );
    }
    assert!(
        told.iter().any(|bar| bar.contains("logger/2002 (nice 0) ran: 1.900 ms, from +150 µs")),
        "{told:?}"
    );
    // Each case can be linked to.
    let (cases, links) = (
        "document.querySelectorAll('.peak').length",
        "document.querySelectorAll('.peak summary a[href^=\"#peak-\"]').length",
    );
    assert_eq!(browser.eval(cases), browser.eval(links));
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

/// Pages of what is printed now.
fn pages(browser: &mut Browser) -> usize {
    let printed = browser.call("Page.printToPDF", json!({"printBackground": true}));
    let bytes = decoded(printed["data"].as_str().unwrap());
    let is_page = |window: &[u8]| window.starts_with(b"/Type /Page") && window[11] != b's';
    bytes.windows(12).filter(|window| is_page(window)).count()
}

/// Base 64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').map(value).collect();
    let of_four = |four: &[u8]| {
        let bits =
            four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(of_four).collect()
}

#[test]
fn paper_takes_four_pages_and_all_of_it_on_request() {
    let Some((_directory, mut browser)) = opened("paper_takes_four_pages", &late_run()) else { return };
    assert_eq!(decoded("bGF0"), b"lat");
    assert_eq!(decoded("bGE="), b"la");
    let few = pages(&mut browser);
    assert!((1..=4).contains(&few), "{few} pages");
    browser.eval("document.getElementById('print-all').click()");
    let all = pages(&mut browser);
    assert!(all > few, "{all} pages, {few} without the rest");
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}
