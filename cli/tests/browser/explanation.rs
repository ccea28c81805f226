//! The page of `explain --html` in a real browser.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::devtools::Browser;

/// The axis counts from the interval, the arrows read bars, plus and minus zoom, 0 shows all.
fn keyboard(browser: &mut Browser) {
    let tick = |browser: &mut Browser, place: &str| {
        let text =
            browser.eval(&format!("[...document.querySelectorAll('.ticks span')].at({place}).textContent"));
        text.as_str().unwrap().to_owned()
    };
    let ticks = "document.querySelectorAll('.ticks span').length";
    // A busy browser draws later.
    let drawn = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        browser.eval(ticks).as_u64().unwrap() >= 3
    });
    assert!(drawn, "an axis");
    let zeros = "[...document.querySelectorAll('.ticks span')].filter((t) => /^0 /.test(t.textContent)).map((t) => \
                 t.getBoundingClientRect().left - document.querySelector('rect.asked').getBoundingClientRect().left)";
    let off = browser.eval(zeros)[0].as_f64().expect("the start of the interval is 0");
    assert!(off.abs() < 2.0, "0 is {off} px from the start of the interval");
    let whole = tick(browser, "-1");
    browser.eval("document.querySelector('.bars').focus()");
    browser.key("ArrowRight", false);
    let first = super::text(browser, ".reading");
    assert!(first.contains(", from "), "{first}");
    browser.key("ArrowDown", false);
    let below = super::text(browser, ".reading");
    assert!(below != first && below.contains(", from "), "{below}");
    assert_eq!(browser.eval("document.querySelectorAll('.bar.chosen').length"), 1);
    for _ in 0..6 {
        browser.key("+", false);
    }
    assert_ne!(tick(browser, "-1"), whole, "the axis follows");
    browser.key("0", false);
    // A busy browser draws later.
    for _ in 0..50 {
        if tick(browser, "-1") == whole {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(tick(browser, "-1"), whole);
}

#[test]
fn the_timeline_of_an_explanation_is_drawn_and_zooms_without_complaint_or_request() {
    let found = Command::new("chromium").arg("--version").output().is_ok();
    let test = "the_timeline_of_an_explanation_is_drawn";
    if !lathunt_host::testing::may_run(test, (!found).then_some("needs chromium")) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/data/cases/affinity.dat");
    let written = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .arg("explain")
        .arg(trace)
        .args(["--between", "sys:600", "sys:601", "--html"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let mut browser = Browser::start(directory.path());
    browser.open(&file);
    assert!(super::narrow::at_400_pixels(&mut browser).is_empty());
    assert!(super::narrow::worst_contrast(&mut browser) >= 4.5);
    assert!(browser.eval("document.querySelectorAll('.keys i').length").as_u64().unwrap() >= 7, "a legend");
    let right = "getComputedStyle(document.querySelector('.tree td')).textAlign";
    assert_eq!(browser.eval(right), "right");
    keyboard(&mut browser);
    let lanes = browser.eval("document.querySelectorAll('.names div').length").as_u64().unwrap();
    assert!(lanes >= 6, "levels, threads, CPUs and their interrupts: {lanes}");
    let hidden = browser.eval(
        "[...document.querySelectorAll('.bar')].filter((b) => b.getBoundingClientRect().width < 0.1).length",
    );
    assert_eq!(hidden, 0, "every bar can be seen");
    assert!(browser.eval("document.querySelectorAll('.bar.l-running').length").as_u64().unwrap() > 3);
    assert_eq!(browser.eval("document.documentElement.scrollWidth <= innerWidth"), true, "nothing overflows");
    let span = "Number(document.querySelector('.bars').getAttribute('viewBox').split(' ')[2])";
    let before = browser.eval(span).as_f64().unwrap();
    browser.eval(
        "document.querySelector('.bars').dispatchEvent(new WheelEvent('wheel', {deltaY: -1, clientX: 600, cancelable: true}))",
    );
    assert!(browser.eval(span).as_f64().unwrap() < before, "the wheel zooms");
    browser.eval("document.querySelector('.bars').dispatchEvent(new MouseEvent('dblclick'))");
    assert_eq!(browser.eval(span).as_f64().unwrap(), before);
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
    let requests = browser.requests();
    assert!(requests.iter().all(|url| url.starts_with("file://") || url == "data:,"), "{requests:?}");
}
