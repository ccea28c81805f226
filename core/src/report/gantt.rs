//! Gantt chart of the jobs of a task set around the worst one, with a lane per thread: release, start and end of each
//! job.
//!
//! From the records of the threads themselves: a bar is a job from its release to its end, its dark part starts at the
//! start of the job. The tasks on the CPU in between are not recorded; the lanes above show other jobs. A slider
//! stretches the chart.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::printable::{cut, markup};
use crate::run::Run;
use crate::set_run::{ChartJob, SetRun};
use crate::time::{Mono, Ns};

const LANE: f64 = 26.0;
const LEFT: f64 = 150.0;
const WIDTH: f64 = 1_060.0;
/// Maximum number of lanes: those with the most jobs in the chart.
const LANES: usize = 24;
const NAME: usize = 20;

/// The chart as markup; empty without a task set.
#[must_use]
pub fn chart(run: &Run) -> String {
    let Some(set) = run.task_set.as_ref().filter(|set| !set.stretch.is_empty()) else { return String::new() };
    let begin = set.stretch.iter().map(|job| job.release).min().unwrap_or_default();
    let end = set.stretch.iter().map(|job| job.end.max(due(job))).max().unwrap_or_default();
    let length = end.since(begin).0.max(1) as f64;
    let at = |time: Mono| LEFT + (time.since(begin).0 as f64 / length) * (WIDTH - LEFT - 10.0);
    let lanes: Vec<usize> =
        set.stretch.iter().map(|job| job.thread).collect::<BTreeSet<_>>().into_iter().take(LANES).collect();
    let height = LANE * (lanes.len() as f64 + 1.0) + 10.0;
    let mut svg = format!(
        "<label class=\"note\">Width <input type=\"range\" min=\"100\" max=\"1000\" value=\"100\" \
         oninput=\"this.parentNode.nextElementSibling.firstElementChild.style.width=this.value+'%'\"></label>\
         <div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {height}\" style=\"width:100%;min-width:52rem\" role=\"img\" \
         preserveAspectRatio=\"none\"><title>Jobs around the worst one, from {} to {} after the start</title>\n",
        begin.since(set.begin),
        end.since(set.begin)
    );
    for (lane, thread) in lanes.iter().enumerate() {
        let top = LANE * lane as f64 + 4.0;
        let name = set.threads.get(*thread).map_or("?", |thread| thread.name.as_str());
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" style=\"font-size:13px;fill:var(--ink)\">{}</text>",
            LEFT - 8.0,
            top + 15.0,
            markup(&cut(name, NAME))
        );
        for job in set.stretch.iter().filter(|job| job.thread == *thread) {
            draw(&mut svg, job, top, &at, set);
        }
    }
    axis(&mut svg, begin, end, set, &at, height);
    svg.push_str("</svg></div>\n<p class=\"note\">Light: released and not started; dark: from the first instruction of the job \
                  to its end, including preemption; red: after its deadline (the small mark). If not the whole run is shown, these are the jobs around the worst one.</p>\n");
    svg
}

fn due(job: &ChartJob) -> Mono {
    job.release + job.deadline_ns.unwrap_or_default()
}

fn draw(svg: &mut String, job: &ChartJob, top: f64, at: &impl Fn(Mono) -> f64, set: &SetRun) {
    let late = job.deadline_ns.is_some_and(|deadline| job.end.since(job.release) > deadline);
    let colour = if late { "var(--bad)" } else { "var(--part)" };
    let (from, to) = (at(job.release), at(job.end));
    let text = format!(
        "released {}, response {}{}, CPU time {}",
        job.release.since(set.begin),
        job.end.since(job.release),
        if job.finished { "" } else { " so far" },
        job.execution_ns
    );
    let _ = write!(
        svg,
        "<g><title>{}</title><rect x=\"{from:.2}\" y=\"{top:.1}\" width=\"{:.2}\" height=\"18\" \
         style=\"fill:{colour};opacity:.25\"/>",
        markup(&text),
        (to - from).max(0.5)
    );
    if let Some(start) = job.start {
        let start = at(start).min(to);
        let _ = write!(
            svg,
            "<rect x=\"{start:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"12\" style=\"fill:{colour}\"/>",
            top + 3.0,
            (to - start).max(0.5)
        );
    }
    if job.deadline_ns.is_some() {
        let _ = write!(
            svg,
            "<rect x=\"{:.2}\" y=\"{:.1}\" width=\"1\" height=\"22\" style=\"fill:var(--soft)\"/>",
            at(due(job)),
            top - 2.0
        );
    }
    svg.push_str("</g>\n");
}

/// The time axis below the lanes.
fn axis(svg: &mut String, begin: Mono, end: Mono, set: &SetRun, at: &impl Fn(Mono) -> f64, height: f64) {
    let length = end.since(begin).0;
    for nth in 0..=5 {
        let time = begin + Ns(length / 5 * nth);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{}\" style=\"font-size:12px;fill:var(--soft)\">{:.3} ms</text>",
            at(time),
            height - 8.0,
            if nth == 5 { "end" } else { "start" },
            time.since(set.begin).0 as f64 / 1e6
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;

    #[test]
    fn each_job_is_a_bar_and_a_late_one_is_red_and_names_cannot_break_out() {
        let job = |thread, release, end, start| ChartJob {
            thread,
            release: Mono(release),
            start,
            end: Mono(end),
            execution_ns: Ns(10),
            deadline_ns: Some(Ns(100)),
            finished: true,
        };
        let thread = serde_json::json!({
            "name": "</svg><script>", "scheduling": "FIFO 1", "period_ns": null, "deadline_ns": 100, "jobs": 2, "finished": 2,
            "not_started": 0, "misses": 1, "lateness_max_ns": 50, "missed_releases": 0, "response_max_ns": 150,
            "analysed_ns": null, "release": null, "end_jitter_ns": null, "slack_min_ns": -50, "execution": null,
            "budget_ns": null, "blocked": {"count": 0, "total_ns": 0, "max_ns": 0}, "preemptions": 0, "migrations": null,
        });
        let mut run = Run::new(Conditions::default());
        assert_eq!(chart(&run), "");
        run.task_set = Some(SetRun {
            cpus: "1".to_owned(),
            speeds: Vec::new(),
            ns_per_loop: None,
            switch_ns: None,
            begin: Mono(0),
            threads: vec![serde_json::from_value(thread).unwrap()],
            warnings: Vec::new(),
            findings: Vec::new(),
            accounted: None,
            not_analysed: None,
            stretch: vec![job(0, 0, 50, Some(Mono(5))), job(0, 100, 250, None)],
            fibers: None,
        });
        let svg = chart(&run);
        assert_eq!(svg.matches("<g>").count(), 2);
        assert_eq!(svg.matches("opacity:.25").count(), 2);
        assert_eq!(svg.matches("height=\"12\"").count(), 1, "one never started");
        assert!(svg.contains("var(--bad)") && svg.contains("response 150 ns"));
        assert!(!svg.contains("<script"), "{svg}");
    }
}
