//! The views of a small deterministic run, as a reader sees them. `cargo insta review` (or INSTA_UPDATE=always)
//! accepts a change.

mod example;

use lathunt_core::report::compare::Comparison;
use lathunt_core::report::plot::Wanted;
use lathunt_core::report::{html, latency, seconds, svg, text};
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_core::verdict::Outcome;

fn latency_plot(run: &Run, deadline: Option<Ns>, wanted: Wanted) -> String {
    let curves = latency::curves(&[("a", run)], Quantity::Cyclic);
    let mut plot = latency::plot(Quantity::Cyclic, &curves, deadline, wanted).unwrap();
    plot.subtitle = html::subtitle(run);
    svg::standalone(&plot)
}

#[test]
fn the_latency_plot_of_a_small_run() {
    insta::assert_snapshot!(latency_plot(&example::run(2, 500), Some(Ns::from_us(100)), Wanted::Auto));
}

#[test]
fn the_maxima_over_time_of_a_small_run() {
    let mut run = example::run(2, 500);
    run.series.iter_mut().for_each(|series| series.seconds.retain(|s| (18..24).contains(&s.second)));
    let curves = latency::curves(&[("a", &run)], Quantity::Cyclic);
    let plot = seconds::plot(Quantity::Cyclic, &curves, None, Wanted::Auto).unwrap();
    insta::assert_snapshot!(svg::standalone(&plot));
}

#[test]
fn the_summary_on_a_terminal() {
    let run = example::run(2, 60_000);
    let paths = [("run", "out/run.lathunt.json"), ("report", "out/report.html")];
    insta::assert_snapshot!(text::summary(&run, &text::Screen { paths: &paths, ..text::Screen::default() }));
}

#[test]
fn the_summary_of_64_cpus_with_everything_wrong() {
    let mut run = example::run(64, 10_000);
    run.losses.push(example::loss());
    run.calibration[3].passed = false;
    run.calibration[3].note = "the instrument saw 210 µs of 500 µs".into();
    run.complete = false;
    let verdict = run.verdict.as_mut().unwrap();
    verdict.outcome = Some(Outcome::Inconclusive);
    verdict.reasons.insert(0, "records were lost: a worse case may have gone unseen ".repeat(4));
    let paths = [("run", "out/run.lathunt.json"), ("report", "out/report.html")];
    let text = text::summary(&run, &text::Screen { paths: &paths, ..text::Screen::default() });
    insta::assert_snapshot!(text);
}

#[test]
fn a_narrow_screen_cuts_nothing_off_a_maximum_or_what_was_lost() {
    let mut run = example::run(2, 60_000);
    run.series[0].lost = 1_234;
    let max = run.series[0].histogram.max().unwrap().to_string();
    for width in [60, 72, 73, 80, 98, 99, 120] {
        let text = text::summary(&run, &text::Screen { width, ..text::Screen::default() });
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        let heading = text.lines().find(|line| line.contains(" samples ")).unwrap();
        assert!(heading.ends_with(" lost"), "{width}:\n{text}");
        let row = text.lines().find(|line| line.starts_with("CPU 0 ")).unwrap();
        assert!(row.contains(&max) && row.ends_with(" 1 234"), "{width}:\n{text}");
    }
}

#[test]
fn a_summary_fits_one_screen() {
    let paths = [("run", "out/run.lathunt.json"), ("report", "out/report.html")];
    for cpus in [1, 2, 3, 4, 8, 9, 16, 64, 300] {
        let run = example::run(cpus, 60_000);
        let text = text::summary(&run, &text::Screen { paths: &paths, ..text::Screen::default() });
        assert!(text.lines().count() <= 24, "{cpus} CPUs:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{cpus} CPUs:\n{text}");
        assert!(
            text.contains("PASS") && text.contains("Model-free bound") && text.contains("out/report.html")
        );
        assert!(
            text.contains(&run.max_of(Quantity::Cyclic).unwrap().to_string()),
            "the worst is shown:\n{text}"
        );
        let whole = text::summary(&run, &text::Screen { lines: 0, ..text::Screen::default() });
        assert!((0..cpus).all(|cpu| whole.contains(&format!("\nCPU {cpu} "))));
        assert!(!whole.contains("more"), "nothing is left out where there is room:\n{whole}");
    }
}

#[test]
fn two_runs_side_by_side() {
    let (a, mut b) = (example::run(2, 60_000), example::run(1, 90_000));
    b.conditions.kernel.realtime = Some(false);
    b.conditions.kernel.release = None;
    b.conditions.started = Some("2026-03-02T12:00:00Z".into());
    b.series.retain(|series| series.quantity == Quantity::Cyclic);
    b.series[0].histogram.record(Ns(412_345));
    b.verdict.as_mut().unwrap().outcome = Some(Outcome::Fail);
    let comparison = Comparison::of(&[("before", &a), ("after", &b)]);
    insta::assert_snapshot!(comparison.to_text(100));
    let json = serde_json::to_value(&comparison).unwrap();
    assert_eq!((json["format"].as_str(), json["version"].as_u64()), (Some("lathunt-comparison"), Some(1)));
    assert_eq!(json["rows"][0]["figures"][1]["max_ns"], 412_345);
}

/// The page without what has goldens of its own: style, script, drawings and their data.
fn skeleton(page: &str) -> String {
    let mut rest = page;
    let mut kept = String::new();
    while let Some((before, tag, after)) = ["<style", "<script", "<svg"]
        .iter()
        .filter_map(|t| rest.find(t).map(|at| (&rest[..at], *t, &rest[at..])))
        .min_by_key(|f| f.0.len())
    {
        let close = format!("</{}>", &tag[1..]);
        let end = after.find(&close).expect("every element is closed") + close.len();
        kept.push_str(before);
        kept.push_str(tag);
        kept.push_str("…/>");
        rest = &after[end..];
    }
    let kept = kept + rest;
    kept.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn the_report_of_a_small_run() {
    let mut run = example::run(2, 500);
    run.series.retain(|series| series.quantity == Quantity::Cyclic);
    run.peaks.truncate(4);
    run.losses.push(example::loss());
    run.series[1].replayed = Some(run.series[1].histogram.clone());
    insta::assert_snapshot!(skeleton(&html::report(&run).unwrap()));
}

#[test]
fn an_empty_run_says_so_everywhere() {
    let run = Run::new(Default::default());
    let page = html::report(&run).unwrap();
    for said in
        ["NO VERDICT", "No series was measured", "No single case was kept", "Not calibrated", "not known"]
    {
        assert!(page.contains(said), "{said}");
    }
    let text = text::summary(&run, &text::Screen::default());
    assert!(text.contains("no sample was taken") && text.contains("No series was measured"), "{text}");
    let comparison = Comparison::of(&[("a", &run), ("b", &run)]).to_text(100);
    assert!(comparison.contains("conditions are the same"), "{comparison}");
}
