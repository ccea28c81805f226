//! Pages on a phone, and the contrast of all their text.

use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::monitor::history::{History, Row, WindowFigures};
use lathunt_core::monitor::packed;
use lathunt_core::monitor::window::{SeriesKey, UnixMs};
use lathunt_core::report::{history, latency};
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};
use serde_json::{json, Value};

use super::devtools::Browser;
use super::{example, opened, text};

/// What reaches beyond a page of 400 px without scrolling by itself, a table that scrolls sideways, a drawn text of less
/// than 9 px, one that is cut off, and two that overlap.
pub fn at_400_pixels(browser: &mut Browser) -> Vec<String> {
    let metrics = json!({"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", metrics);
    let found = browser.eval(
        "(() => { const bad = []; \
         if (document.documentElement.scrollWidth > 400) bad.push('the page: ' + document.documentElement.scrollWidth); \
         const scrolls = (e) => { for (let p = e; p; p = p.parentElement) \
           if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(p).overflowX)) return true; return false; }; \
         for (const e of document.querySelectorAll('body *')) { const b = e.getBoundingClientRect(); \
           if (b.width && b.right > 401 && !scrolls(e) && !e.closest('svg svg, clipPath, [clip-path], .skip')) \
             bad.push(e.tagName + '.' + e.getAttribute('class') + ' to ' + b.right); } \
         for (const t of document.querySelectorAll('svg text')) { \
           const m = t.getScreenCTM(), size = parseFloat(getComputedStyle(t).fontSize) * Math.hypot(m.a, m.b); \
           if (t.getBoundingClientRect().width && size < 9) bad.push(size + ' px: ' + t.textContent); } \
         for (const s of document.querySelectorAll('.scroll')) \
           if (s.querySelector('table') && s.scrollWidth > s.clientWidth) bad.push('sideways: ' + s.textContent.slice(0, 60)); \
         for (const plot of document.querySelectorAll('svg.plot')) { \
           const texts = [...plot.querySelectorAll('text')].map((t) => [t.getBoundingClientRect(), t.textContent]).filter(([b]) => b.width); \
           for (const [b, text] of texts) if (b.left < 0 || b.right > 400) bad.push('cut off: ' + text); \
           texts.forEach(([a, s], i) => texts.slice(i + 1).forEach(([b, t]) => { \
             if (a.left < b.right - 2 && b.left < a.right - 2 && a.top + 3 < b.bottom && b.top + 3 < a.bottom) bad.push(s + ' | ' + t); })); } \
         return bad; })()",
    );
    browser.call("Emulation.clearDeviceMetricsOverride", json!({}));
    found.as_array().unwrap().iter().map(Value::to_string).collect()
}

/// The least contrast of any text, in light and in dark, to what is behind it (WCAG 2).
pub fn worst_contrast(browser: &mut Browser) -> f64 {
    let mut worst = f64::MAX;
    for scheme in ["light", "dark"] {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", media);
        let found = browser.eval(
            "(() => { \
             const numbers = (c) => c.match(/[0-9.]+/g).map(Number); \
             const light = (c) => { const [r, g, b] = numbers(c).map((v) => { v /= 255; \
               return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); }); \
               return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; \
             const behind = (e) => { for (let p = e; p; p = p.parentElement) { \
               const c = getComputedStyle(p).backgroundColor; if ((numbers(c)[3] ?? 1) > 0) return c; } return 'rgb(255, 255, 255)'; }; \
             let worst = [99, '']; \
             for (const e of document.querySelectorAll('body, body *')) { \
               if (e.closest('script, style, title') || e.ownerSVGElement || \
                   ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue; \
               const [a, b] = [light(getComputedStyle(e).color), light(behind(e))]; \
               const c = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); \
               if (c < worst[0]) worst = [c, e.tagName + '.' + e.getAttribute('class') + ': ' + e.textContent.slice(0, 40)]; } \
             return worst; })()",
        );
        if found[0].as_f64().unwrap() < 4.5 {
            eprintln!("{scheme}: {found}");
        }
        worst = worst.min(found[0].as_f64().unwrap());
    }
    browser.call("Emulation.setEmulatedMedia", json!({"features": []}));
    worst
}

#[test]
fn the_report_fits_a_phone_and_its_plots_stay_legible() {
    let mut run = example::run(4, 60_000);
    // As a real run has them: a latency that needs six digits, names without a place to break a line.
    run.series[0].histogram.record(Ns(153_392_000));
    let path = "/sys/kernel/debug/sched/fair_server/a_name_without_a_space_to_break_at/runtime";
    run.conditions.notes.push(format!("{path}: cannot be read"));
    run.conditions.host = Some(path.to_owned());
    let Some((_directory, mut browser)) = opened("the_report_on_a_phone", &run) else { return };
    browser.eval("document.querySelectorAll('details').forEach((d) => (d.open = true))");
    assert_eq!(at_400_pixels(&mut browser), Vec::<String>::new());
    browser.eval("document.querySelector('#latency-cyclic [data-do=in]').click()");
    assert_eq!(at_400_pixels(&mut browser), Vec::<String>::new(), "zoomed");
    assert!(worst_contrast(&mut browser) >= 4.5);
    // A sheet of A4 has 700 px between its margins; the short print draws its plots small.
    let paper = json!({"width": 700, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", paper);
    browser.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
    let smallest = browser.eval(
        "Math.min(...[...document.querySelectorAll('svg.plot text')].filter((t) => t.getBoundingClientRect().width) \
         .map((t) => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))",
    );
    assert!(smallest.as_f64().unwrap() >= 9.0, "{smallest} px on paper");
}

/// CPU 0 of a monitor: half an hour with a gap of one window, the largest in the window from 22:50.
fn recorded() -> History {
    let begin = 1_795_645_800_000; // 2026-11-25T22:30:00Z
    let window = |nth: i64| (UnixMs(begin + nth * 300_000), UnixMs(begin + (nth + 1) * 300_000));
    let row = |nth: i64| {
        let mut histogram = Histogram::new(Layout::LATENCY);
        [5, 7, if nth == 4 { 4_321 } else { 40 }].iter().for_each(|&us| histogram.record(Ns::from_us(us)));
        Row {
            begin: window(nth).0,
            end: window(nth).1,
            measured: Ns(300_000_000_000),
            whole: true,
            key: SeriesKey::of_cpu(Quantity::TimerWakeup, Cpu(0)),
            figures: WindowFigures::of(&histogram),
            lost: 0,
            max_at: None,
            victim: None,
            culprit: None,
            held: None,
            histogram: packed::pack(&histogram),
            peak: None,
        }
    };
    History {
        monitor: Some("lathunt 1 on board-7 (Linux 6.12-rt) <b>".to_owned()),
        windows: (0..24).map(window).collect(),
        rows: (0..24).filter(|nth| *nth != 7).map(row).collect(),
        ..History::default()
    }
}

#[test]
fn the_history_has_a_clock_the_host_and_the_worst_cases() {
    let Some((directory, mut browser)) = opened("the_history_has_a_clock", &example::run(1, 1_000)) else {
        return;
    };
    let recorded = recorded();
    let plot = history::plot(&recorded, Quantity::TimerWakeup, &[]).unwrap();
    let file = directory.path().join("history.html");
    std::fs::write(&file, history::page(&recorded, &[plot]).unwrap()).unwrap();
    browser.open(&file);
    assert!(text(&mut browser, ".subtitle").contains("board-7 (Linux 6.12-rt) <b>"));
    let case = text(&mut browser, ".cases tbody tr");
    assert!(case.starts_with("4.321 ms") && case.contains("before 2026-11-25T22:55:00Z"), "{case}");
    let axis = text(&mut browser, ".xaxis");
    assert!(axis.contains("23:30") && axis.contains("11-26") && !axis.contains("00:00"), "{axis}");
    browser.eval("document.querySelector('.plot-figure').focus()");
    let readings: Vec<String> = (0..5)
        .map(|_| {
            browser.key("ArrowRight", false);
            text(&mut browser, ".reading")
        })
        .collect();
    assert!(
        readings[4].starts_with("2026-11-25 22:50 to 2026-11-25 22:55") && readings[4].contains("4 321 µs"),
        "{readings:?}"
    );
    (0..3).for_each(|_| browser.key("+", false));
    let zoomed = text(&mut browser, ".xaxis");
    assert!(zoomed != axis && zoomed.contains("22:50"), "{zoomed}");
    assert_eq!(at_400_pixels(&mut browser), Vec::<String>::new());
    assert!(worst_contrast(&mut browser) >= 4.5);
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn entries_of_a_drawn_legend_never_overlap() {
    let Some((directory, mut browser)) = opened("entries_of_a_drawn_legend", &example::run(1, 1_000)) else {
        return;
    };
    let run = example::run(4, 60_000);
    let names = ["WWWWWWWW-board-with-a-very-long-name-MMMM.lathunt.json", "illi", "計測計測計測"];
    for names in [&names[..], &names[1..2]] {
        let runs: Vec<_> = names.iter().map(|name| (*name, &run)).collect();
        let curves = latency::curves(&runs, Quantity::Cyclic);
        let plot = latency::plot(Quantity::Cyclic, &curves, None, Default::default()).unwrap();
        let file = directory.path().join("plot.svg");
        std::fs::write(&file, lathunt_core::report::svg::standalone(&plot)).unwrap();
        browser.open(&file);
        let found = browser.eval(
            "(() => { const boxes = [...document.querySelectorAll('text.small, text.title')].map((t) => [t.getBBox(), t.textContent]); \
             const bad = boxes.filter(([b]) => b.x + b.width > 960).map((b) => b[1]); \
             boxes.forEach(([a, s], i) => boxes.slice(i + 1).forEach(([b, t]) => { \
               if (a.x < b.x + b.width && b.x < a.x + a.width && a.y + 4 < b.y + b.height && b.y + 4 < a.y + a.height) bad.push(s + ' | ' + t); })); \
             return bad; })()",
        );
        assert_eq!(found, json!([]), "{names:?}");
    }
}
