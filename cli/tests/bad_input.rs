//! Damaged, foreign and hostile run files: never a panic, one clear line, nothing half-written.

#[path = "../../core/tests/example/mod.rs"]
mod example;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use lathunt_core::report::compare::Comparison;
use lathunt_core::report::{html, text};
use lathunt_core::run::Run;

fn lathunt(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).current_dir(directory).args(arguments).output().unwrap()
}

/// A run with something of everything, as short as possible: each of its bytes is damaged below.
fn small() -> String {
    let mut run = example::run(1, 300);
    run.series.truncate(1);
    run.series[0].seconds.truncate(3);
    run.peaks.truncate(2);
    run.losses.push(example::loss());
    run.to_json()
}

/// Everything that shows a run; must not panic for any run that can be read.
fn show(run: &Run) {
    let page = html::report(run).unwrap();
    assert!(page.ends_with("</html>\n"));
    assert!(text::summary(run, &text::Screen::default()).lines().count() > 1);
    assert!(!Comparison::of(&[("a", run), ("b", run)]).to_text(80).is_empty());
}

#[test]
fn names_that_are_not_utf_8_are_names() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("a.json"), small()).unwrap();
    fs::write(place.path().join("b.json"), example::run(1, 200).to_json()).unwrap();
    let name = OsStr::from_bytes(b"\xffrun");
    for arguments in [
        &["merge", "a.json", "b.json", "-o"][..],
        &["cyclic", "-p0", "--no-mlock", "-l", "5", "-q", "-o"],
        &["npt", "-c", "0", "-n", "1000", "-p", "0", "-o"],
        &["hunt", "-D", "1s", "--load", "none", "-q", "-o"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        let output = command.current_dir(&place).args(arguments).arg(name).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() != Some(101) && !said.contains("panicked"), "{arguments:?}: {said}");
        assert!(place.path().join(name).exists(), "{arguments:?}: {said}");
        let _ = fs::remove_file(place.path().join(name));
        let _ = fs::remove_dir_all(place.path().join(name));
    }
}

#[test]
fn a_run_cut_off_anywhere_is_refused() {
    let text = small();
    for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
        let error = Run::from_json(&text[..end]).expect_err("half a run is no run").to_string();
        assert!(error.contains("not a run file"), "cut at {end}: {error}");
    }
}

#[test]
fn a_run_damaged_anywhere_is_refused_or_shown() {
    let text = small();
    let mut read = 0;
    for at in 0..text.len() {
        for damage in [b'9', b'"', 0x01] {
            let mut bytes = text.clone().into_bytes();
            if bytes[at] == damage {
                continue;
            }
            bytes[at] = damage;
            let Ok(damaged) = String::from_utf8(bytes) else { continue };
            let Ok(run) = Run::from_json(&damaged) else { continue };
            // Drawing every one of them would take minutes; each 25th is still hundreds.
            read += 1;
            if read % 25 == 0 {
                show(&run);
            }
        }
    }
    assert!(
        read > 100,
        "only {read} damaged files could still be read: the damage is too coarse to test the views"
    );
}

#[test]
fn counters_at_their_limit_are_refused_in_a_file_and_shown() {
    let most = u64::MAX.to_string();
    let text = small()
        .replace("\"missed\":0", &format!("\"missed\":{most}"))
        .replace("\"lost\":0", &format!("\"lost\":{most}"));
    let refused = Run::from_json(&text).unwrap_err().to_string();
    assert!(refused.contains("more than one per nanosecond"), "{refused}");
    // In memory.
    let mut run = Run::from_json(&small()).unwrap();
    run.series[0].missed = Some(u64::MAX);
    run.series[0].lost = u64::MAX;
    let half = format!(
        "{{\"width_ns\":1000,\"linear_bins\":10240,\"count\":{n},\"sum_ns\":{most},\"min_ns\":4100,\"max_ns\":4900,\"bins\":[[4,{n}]]}}",
        n = 1u64 << 63
    );
    run.series[0].histogram = serde_json::from_str(&half).unwrap();
    run.series.push(run.series[0].clone());
    show(&run);
}

#[test]
fn a_bad_file_gives_one_line_exit_1_and_no_output() {
    let directory = tempfile::tempdir().unwrap();
    let text = small();
    fs::write(directory.path().join("cut.json"), &text[..text.len() / 2]).unwrap();
    for arguments in [
        &["report", "cut.json"][..],
        &["report", "missing"],
        &["report", "cut.json", "--text"],
        &["plot", "cut.json", "-o", "x.svg"],
        &["plot", "cut.json", "-o", "x.gif"],
        &["compare", "cut.json", "cut.json"],
    ] {
        let output = lathunt(directory.path(), arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.starts_with("lathunt: cannot "), "{said}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "only the bad file itself");
}

#[test]
fn wrong_arguments_exit_with_1_and_not_with_deadline_exceeded() {
    let directory = tempfile::tempdir().unwrap();
    let too_many = ["cyclic", "-D", "1s", "--worst", "99999999999"];
    let too_often = ["hunt", "-i", "9", "-D", "1s", "--load", "none"];
    for arguments in
        [&["compare", "one"][..], &["report"], &["plot", "x"], &["nonsense"], &too_many, &too_often]
    {
        assert_eq!(lathunt(directory.path(), arguments).status.code(), Some(1), "{arguments:?}");
    }
    assert_eq!(lathunt(directory.path(), &["report", "--help"]).status.code(), Some(0));
}

/// Names a program may give itself, and what would happen were they not escaped.
const HOSTILE: [&str; 6] = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"onmouseover=\"x",
    "a\u{1b}[2J\u{1b}]0;x\u{7}",
    "\u{202e}gnp.exe\0",
    "{{ 7*7 }}&lt;",
];

#[test]
fn hostile_names_stay_text_in_every_view() {
    for name in HOSTILE {
        let mut run = example::run(2, 300);
        run.conditions.host = Some(name.into());
        run.conditions.load = Some(name.into());
        run.conditions.notes.push(name.into());
        run.series[0].thread.as_mut().unwrap().comm = name.into();
        run.series[1].cpu = None;
        run.series[1].thread.as_mut().unwrap().comm = name.into();
        for peak in &mut run.peaks {
            peak.victim.comm = name.into();
            peak.culprit = Some(name.into());
            if let Some(explanation) = &mut peak.explanation {
                explanation.sentence = name.into();
                explanation.advice = name.into();
                explanation.limits.push(name.into());
                label_all(&mut explanation.tree, name);
            }
        }
        let verdict = run.verdict.as_mut().unwrap();
        verdict.reasons.push(name.into());
        verdict.model_free.as_mut().unwrap().sentence = name.into();
        let page = html::report(&run).unwrap();
        let plain = html::report(&example::run(2, 300)).unwrap();
        for tag in ["<script", "</script", "<img", "<style", "</svg"] {
            assert_eq!(
                page.matches(tag).count(),
                plain.matches(tag).count(),
                "{tag} smuggled in by {name:?}"
            );
        }
        assert!(!page.contains("\"onmouseover=\"") && !page.contains("onerror=alert(1)>"), "{name:?}");
        let terminal =
            text::summary(&run, &text::Screen::default()) + &text::verdict(&run, &text::Screen::default());
        let compared = Comparison::of(&[(name, &run), ("plain", &example::run(2, 300))]).to_text(100);
        for shown in [page, terminal, compared] {
            let hidden = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
            assert!(!shown.contains(hidden), "{name:?} reached the reader: {:?}", shown.find(hidden));
        }
    }
}

fn label_all(node: &mut lathunt_core::explain::Segment, name: &str) {
    node.label = name.into();
    node.stack.push(name.into());
    node.gaps.iter_mut().for_each(|gap| gap.label = name.into());
    node.children.iter_mut().for_each(|child| label_all(child, name));
}
