//! The page of `explain --html` in a real browser.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::devtools::Browser;

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
    let lanes = browser.eval("document.querySelectorAll('.names text').length").as_u64().unwrap();
    assert!(lanes >= 6, "levels, threads, CPUs and their interrupts: {lanes}");
    let hidden = browser.eval(
        "[...document.querySelectorAll('.bar')].filter((b) => b.getBoundingClientRect().width < 0.1).length",
    );
    assert_eq!(hidden, 0, "every bar can be seen");
    assert!(browser.eval("document.querySelectorAll('.bar.running').length").as_u64().unwrap() > 3);
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
