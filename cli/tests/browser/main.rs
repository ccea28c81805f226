//! The report in a real browser (Debian's chromium): no error, no request, every plot drawn, hover, zoom, keyboard,
//! sorting and printing work.

#[path = "../../../core/tests/example/mod.rs"]
mod example;

mod devtools;
mod explanation;
mod jobs;
mod narrow;

use devtools::Browser;
use lathunt_core::report::html;
use lathunt_core::run::Run;
use lathunt_core::time::Ns;
use serde_json::{json, Value};

/// A page of `run` in a browser; `None` where there is no browser.
fn opened(test: &str, run: &Run) -> Option<(tempfile::TempDir, Browser)> {
    let found = std::process::Command::new("chromium").arg("--version").output().is_ok();
    let reason = (!found).then_some("needs chromium");
    if !lathunt_host::testing::may_run(test, reason) {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.html");
    std::fs::write(&file, html::report(run).unwrap()).unwrap();
    let mut browser = Browser::start(directory.path());
    browser.open(&file);
    Some((directory, browser))
}

fn text(browser: &mut Browser, selector: &str) -> String {
    browser
        .eval(&format!("document.querySelector('{selector}').textContent"))
        .as_str()
        .unwrap_or("")
        .to_owned()
}

/// Where a share of the plotting area lies in the window, after scrolling the plot into view.
fn place(browser: &mut Browser, plot: &str, across: f64, down: f64) -> (f64, f64) {
    let at = browser.eval(&format!(
        "(() => {{ document.getElementById('{plot}').scrollIntoView(); \
         const p = plots.find((p) => p.data.id === '{plot}'), b = p.svg.getBoundingClientRect(), d = p.data; \
         const s = b.width / p.svg.viewBox.baseVal.width; \
         return [b.left + (d.left + {across} * (d.right - d.left)) * s, \
                 b.top + (d.top + {down} * (d.bottom - d.top)) * s]; }})()"
    ));
    (at[0].as_f64().unwrap(), at[1].as_f64().unwrap())
}

fn view(browser: &mut Browser, plot: &str) -> (f64, f64) {
    let view = browser.eval(&format!("plots.find((p) => p.data.id === '{plot}').view"));
    (view[0].as_f64().unwrap(), view[1].as_f64().unwrap())
}

#[test]
fn the_report_is_drawn_without_complaint_or_request() {
    let Some((_directory, mut browser)) = opened("the_report_is_drawn", &example::run(4, 60_000)) else {
        return;
    };
    let drawn = browser.eval(
        "[...document.querySelectorAll('.plot-figure')].map((f) => [f.id, f.querySelectorAll('.lines .line').length, \
         [...f.querySelectorAll('.lines .line')].every((l) => l.getTotalLength() > 100), \
         f.querySelector('.tools').hidden, f.querySelectorAll('.legend li').length])",
    );
    let expected: Vec<Value> = ["cyclic", "timer", "wakeup"]
        .iter()
        .flat_map(|q| ["latency", "seconds"].map(|kind| json!([format!("{kind}-{q}"), 4, true, false, 4])))
        .collect();
    assert_eq!(drawn, Value::Array(expected));
    assert_eq!(browser.eval("document.querySelectorAll('.peak').length"), 12);
    assert_eq!(browser.eval("document.documentElement.scrollWidth <= innerWidth"), true, "nothing overflows");
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
    assert!(
        browser.requests().iter().all(|url| url.starts_with("file://") || url == "data:,"),
        "{:?}",
        browser.requests()
    );
    // The policy in the page forbids connections even to a script that tries.
    browser.eval("let refused; fetch('http://127.0.0.1:9/').catch(() => 0); addEventListener('securitypolicyviolation', (e) => { refused = e.effectiveDirective; }); 0");
    browser.call(
        "Runtime.evaluate",
        json!({"expression": "new Promise((r) => setTimeout(r, 200))", "awaitPromise": true}),
    );
    assert_eq!(browser.eval("refused"), "connect-src");
}

#[test]
fn hovering_reads_values_and_dragging_zooms() {
    let run = example::run(2, 60_000);
    let Some((_directory, mut browser)) = opened("hovering_and_zooming", &run) else { return };
    let plot = "latency-cyclic";
    // The class of the median: the axis goes to 120 µs.
    let hi = browser.eval("plots[0].data.x.hi").as_f64().unwrap();
    let (x, y) = place(&mut browser, plot, 5.5 / hi, 0.5);
    browser.mouse("mouseMoved", x, y);
    let tip = text(&mut browser, "#latency-cyclic .tip");
    let count = |series: usize| run.series[series].histogram.rows()[5];
    let grouped = lathunt_core::numbers::grouped;
    assert!(tip.starts_with("5 to 6 µs"), "{tip}");
    for cpu in 0..2 {
        assert!(tip.contains(&format!("CPU {cpu}: {} samples", grouped(count(cpu)))), "{tip}");
    }
    assert_eq!(browser.eval("document.querySelector('#latency-cyclic .tip').hidden"), false);
    let lines_before = browser.eval("plots[0].lines.getBoundingClientRect().width").as_f64().unwrap();
    let ticks_before = text(&mut browser, "#latency-cyclic .xaxis");
    // From 60 to 100 µs, where the maxima are.
    let (from, _) = place(&mut browser, plot, 60.0 / hi, 0.5);
    let (to, y) = place(&mut browser, plot, 100.0 / hi, 0.5);
    browser.mouse("mousePressed", from, y);
    browser.mouse("mouseMoved", (from + to) / 2.0, y);
    assert_eq!(browser.eval("plots[0].band.getAttribute('visibility')"), "visible");
    browser.mouse("mouseMoved", to, y);
    browser.mouse("mouseReleased", to, y);
    let (a, b) = view(&mut browser, plot);
    assert!((a - 60.0 / hi).abs() < 0.01 && (b - 100.0 / hi).abs() < 0.01, "{a} {b}");
    let lines_after = browser.eval("plots[0].lines.getBoundingClientRect().width").as_f64().unwrap();
    assert!(lines_after > 2.5 * lines_before, "the lines grow: {lines_before} to {lines_after}");
    let ticks = text(&mut browser, "#latency-cyclic .xaxis");
    assert!(ticks != ticks_before && ticks.contains("85") && !ticks.contains("120"), "{ticks}");
    let max = run.max_of(lathunt_core::series::Quantity::Cyclic).unwrap().as_us();
    let (x, y) = place(&mut browser, plot, (max - 60.0) / 40.0, 0.5);
    browser.mouse("mouseMoved", x, y);
    let tip = text(&mut browser, "#latency-cyclic .tip");
    assert!(tip.starts_with("86 to 87 µs") && tip.contains("CPU 0: 1 sample"), "{tip}");
    browser.eval("document.querySelector('#latency-cyclic [data-do=all]').click()");
    assert_eq!(view(&mut browser, plot), (0.0, 1.0));
    assert_eq!(text(&mut browser, "#latency-cyclic .xaxis"), ticks_before);
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn the_keyboard_does_all_that_the_mouse_does() {
    let Some((_directory, mut browser)) = opened("the_keyboard", &example::run(2, 60_000)) else { return };
    for plot in ["latency-cyclic", "seconds-cyclic"] {
        browser.eval(&format!("document.getElementById('{plot}').focus()"));
        browser.key("End", false);
        let last = text(&mut browser, &format!("#{plot} .reading"));
        let wanted =
            if plot == "latency-cyclic" { "86 to 87 µs, CPU 0: 1 sample" } else { "59 to 60 s, CPU " };
        assert!(last.starts_with(wanted), "{last}");
        browser.key("ArrowLeft", false);
        let before = text(&mut browser, &format!("#{plot} .reading"));
        assert_ne!(before, last);
        browser.key("+", false);
        browser.key("+", false);
        let (a, b) = view(&mut browser, plot);
        assert!((b - a - 0.25).abs() < 1e-6, "{a} {b}");
        browser.key("ArrowLeft", true);
        assert!(view(&mut browser, plot).0 < a);
        browser.key("-", false);
        assert!(view(&mut browser, plot).1 - view(&mut browser, plot).0 > 0.4);
        browser.key("0", false);
        assert_eq!(view(&mut browser, plot), (0.0, 1.0));
    }
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn a_logarithmic_axis_zooms_and_reads_right_too() {
    let mut run = example::run(2, 60_000);
    run.series[0].histogram.record(Ns(53_392_000));
    let Some((_directory, mut browser)) = opened("a_logarithmic_axis", &run) else { return };
    assert_eq!(browser.eval("plots[0].data.x.kind"), "log");
    browser.eval("document.getElementById('latency-cyclic').focus()");
    browser.key("End", false);
    let class = run.series[0].histogram.occupied().next_back().unwrap();
    let (lower, upper) = (class.0.as_us(), (class.1 .0 + 1) as f64 / 1e3);
    let reading = text(&mut browser, "#latency-cyclic .reading").replace(' ', "");
    assert!(reading.starts_with(&format!("{lower}to{upper}µs,CPU0:1sample")), "{reading}");
    // The cursor is at the lower edge of the maximum's bin, zoomed or not.
    for _ in 0..4 {
        let apart = browser.eval(
            "(() => { const c = plots[0].cursor.getBoundingClientRect(); \
             const tops = [...plots[0].svg.querySelectorAll('.top')].map((t) => t.getBoundingClientRect()); \
             return Math.min(...tops.map((t) => Math.abs(t.left + t.width / 2 - c.left))); })()",
        );
        assert!(apart.as_f64().unwrap() < 60.0, "{apart} px from the maximum");
        browser.key("+", false);
    }
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn causes_sort_links_open_cases_and_paper_shows_all() {
    let Some((_directory, mut browser)) = opened("causes_and_paper", &example::run(2, 60_000)) else {
        return;
    };
    let first = "table.sortable tbody th";
    let by_worst = text(&mut browser, first);
    browser.eval("document.querySelectorAll('table.sortable thead button')[1].click()");
    assert_ne!(text(&mut browser, first), by_worst, "most cases is another cause than the worst");
    browser.eval("document.querySelectorAll('table.sortable thead button')[0].click()");
    assert_eq!(text(&mut browser, first), by_worst);
    let closed = "document.querySelectorAll('details:not([open])').length";
    let before = browser.eval(closed).as_u64().unwrap();
    assert!(before > 1);
    browser.eval("location.hash = '#peak-5'; 0");
    browser.eval("openTarget()");
    assert_eq!(browser.eval("document.getElementById('peak-5').open"), true);
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(browser.eval(closed).as_u64().unwrap(), before - 1, "paper is short unless all is wanted");
    browser.eval("dispatchEvent(new Event('afterprint'))");
    browser.eval("document.getElementById('print-all').click()");
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(browser.eval(closed), 0);
    browser.eval("dispatchEvent(new Event('afterprint'))");
    assert_eq!(browser.eval(closed).as_u64().unwrap(), before - 1);
    let pdf = browser.call("Page.printToPDF", json!({}));
    assert!(pdf["data"].as_str().unwrap().len() > 50_000);
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[test]
fn dark_and_light_are_both_readable() {
    let Some((_directory, mut browser)) = opened("dark_and_light", &example::run(2, 60_000)) else { return };
    for scheme in ["light", "dark"] {
        browser.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        // Contrast by WCAG 2: text 4.5 to 1, lines of a plot 3 to 1.
        let worst = browser.eval(
            "(() => { \
             const light = (c) => { const [r, g, b] = c.match(/[0-9.]+/g).map((v) => { v /= 255; \
               return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); }); \
               return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; \
             const paper = light(getComputedStyle(document.body).backgroundColor); \
             const contrast = (c) => { const l = light(c); \
               return (Math.max(l, paper) + 0.05) / (Math.min(l, paper) + 0.05); }; \
             const texts = ['p', 'h1', '.word', '.note', 'a', 'td', '.count'].map((s) => \
               contrast(getComputedStyle(document.querySelector(s)).color)); \
             const lines = Array.from({ length: 8 }, (_, i) => { const e = document.createElementNS( \
               'http://www.w3.org/2000/svg', 'path'); e.setAttribute('class', 'line c' + i); \
               document.querySelector('svg.plot').append(e); const c = contrast(getComputedStyle(e).stroke); \
               e.remove(); return c; }); \
             return [Math.min(...texts), Math.min(...lines)]; })()",
        );
        assert!(worst[0].as_f64().unwrap() >= 4.5, "{scheme}: text {worst}");
        assert!(worst[1].as_f64().unwrap() >= 3.0, "{scheme}: lines {worst}");
    }
}
