//! A run as CI results: JUnit XML, and GitHub annotations.
//!
//! One test for each judged series, and one for the verdict. FAIL is a failure. INCONCLUSIVE is an error, never a skip:
//! it must not look like a pass. Without a deadline there is no verdict, and its test is skipped with the reason.

use std::fmt::Write as _;

use crate::numbers::counted;
use crate::printable;
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::time::Ns;
use crate::verdict::Outcome;

/// JUnit XML of a run; `name` is its path.
#[must_use]
pub fn junit(name: &str, run: &Run) -> String {
    let cases = cases(run);
    let count = |is: fn(&Answer) -> bool| cases.iter().filter(|case| is(&case.answer)).count();
    let (failures, errors) =
        (count(|of| matches!(of, Answer::Fails(_))), count(|of| matches!(of, Answer::Errs(_))));
    let skipped = count(|of| matches!(of, Answer::Skips(_)));
    let name = printable::markup(name);
    let seconds = run.conditions.duration_s.map_or(String::new(), |took| format!(" time=\"{took:.3}\""));
    let mut xml = format!(
        "<testsuites name=\"lathunt\">\n<testsuite name=\"lathunt {name}\" tests=\"{}\" \
         failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"{seconds}>\n",
        cases.len()
    );
    for case in &cases {
        let _ = write!(xml, "<testcase classname=\"lathunt\" name=\"{}\"", printable::markup(&case.name));
        let _ = match &case.answer {
            Answer::Passes => writeln!(xml, "/>"),
            Answer::Fails(why) => writeln!(xml, ">{}</testcase>", element("failure", why)),
            Answer::Errs(why) => writeln!(xml, ">{}</testcase>", element("error", why)),
            Answer::Skips(why) => writeln!(xml, ">{}</testcase>", element("skipped", why)),
        };
    }
    xml + "</testsuite>\n</testsuites>\n"
}

/// GitHub annotations (`::error title=…::…`): a line for the verdict and for each of its reasons.
#[must_use]
pub fn annotations(name: &str, run: &Run) -> String {
    let Some(verdict) = &run.verdict else { return String::new() };
    let level = match verdict.outcome {
        Some(Outcome::Fail) => "error",
        Some(Outcome::Inconclusive) => "warning",
        Some(Outcome::Pass) | None => "notice",
    };
    let (failures, limits) = verdict.split();
    let title = format!("lathunt {}: {name}", verdict.outcome.map_or("NO VERDICT", Outcome::name));
    let mut all: Vec<(&str, &str)> = failures.iter().map(|why| (level, why.as_str())).collect();
    let doubts = if verdict.outcome == Some(Outcome::Fail) { "notice" } else { level };
    all.extend(limits.iter().map(|why| (doubts, why.as_str())));
    if let (true, Some(claim)) = (all.is_empty(), &verdict.model_free) {
        all.push((level, claim.sentence.as_str()));
    }
    let line = |(level, why): (&str, &str)| {
        format!("::{level} title={}::{}\n", escaped(&title, true), escaped(why, false))
    };
    all.into_iter().map(line).collect()
}

struct Case {
    name: String,
    answer: Answer,
}

enum Answer {
    Passes,
    Fails(Vec<String>),
    Errs(Vec<String>),
    Skips(Vec<String>),
}

fn cases(run: &Run) -> Vec<Case> {
    let Some(verdict) = &run.verdict else {
        let why = vec!["the run has no verdict".to_owned()];
        return vec![Case { name: "verdict".to_owned(), answer: Answer::Errs(why) }];
    };
    let answer = match verdict.outcome {
        Some(Outcome::Pass) => Answer::Passes,
        Some(Outcome::Fail) => Answer::Fails(verdict.reasons.clone()),
        Some(Outcome::Inconclusive) => Answer::Errs(verdict.reasons.clone()),
        None => Answer::Skips(vec!["no deadline was given".to_owned()]),
    };
    let name = match verdict.deadline_ns {
        Some(deadline) => format!("deadline {deadline}"),
        None => "verdict".to_owned(),
    };
    let mut cases = vec![Case { name, answer }];
    // For jobs, each thread may have its own deadline.
    if let (Some(quantity), Some(deadline)) = (verdict.quantity, verdict.deadline_ns) {
        let own = |series: &&Series| run.tasks.is_empty() || series.thread.is_none();
        cases.extend(run.of(quantity).filter(own).map(|series| of_series(series, quantity, deadline)));
    }
    for task in &run.tasks {
        let Some(deadline) = task.held_to.and_then(|held| held.deadline_ns) else { continue };
        let answer = match (task.misses, task.miss_max_ns) {
            (0, _) => Answer::Passes,
            (missed, most) => {
                let by = most.map_or(String::new(), |most| format!(", by {most} at most"));
                Answer::Fails(vec![format!("missed its deadline in {}{by}", counted(missed, "job"))])
            }
        };
        cases.push(Case { name: format!("{} within {deadline}", task.thread), answer });
    }
    cases
}

/// The observed result of a series; doubts are in the test of the verdict.
fn of_series(series: &Series, quantity: Quantity, deadline: Ns) -> Case {
    let name = format!("{} {} within {deadline}", quantity.name(), series.label());
    let answer = match series.histogram.max() {
        None => Answer::Errs(vec!["no sample".to_owned()]),
        Some(max) if max > deadline => Answer::Fails(vec![format!("largest {max}")]),
        Some(_) => Answer::Passes,
    };
    Case { name, answer }
}

/// The first reason as the message, all as the text.
fn element(kind: &str, why: &[String]) -> String {
    let message = why.first().map_or("", String::as_str);
    let text: Vec<String> = why.iter().map(|why| printable::markup(why)).collect();
    format!("<{kind} message=\"{}\">{}</{kind}>", printable::markup(message), text.join("\n"))
}

/// GitHub's escapes; a comma or a colon ends a property.
fn escaped(text: &str, property: bool) -> String {
    let plain = printable::no_commands(&printable::line(text)).replace('%', "%25");
    match property {
        true => plain.replace(':', "%3A").replace(',', "%2C"),
        false => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::histogram::{Histogram, Layout};
    use crate::judge::{judge, Rules};
    use crate::time::Cpu;

    fn run(deadline: Option<u64>, samples: u64, max: Ns) -> Run {
        let mut run = Run::new(Conditions::default());
        for cpu in 0..2 {
            let mut histogram = Histogram::new(Layout::LATENCY);
            (0..samples).for_each(|_| histogram.record(Ns::from_us(10)));
            if cpu == 1 {
                histogram.record(max);
            }
            run.series.push(Series::new(Quantity::Cyclic, Some(Cpu(cpu)), histogram));
        }
        run.verdict = Some(judge(&run, deadline.map(Ns::from_us), &Rules::instrument(Quantity::Cyclic)));
        run
    }

    #[test]
    fn each_series_is_a_test_and_no_answer_is_an_error() {
        let failed = junit("a \"<b>\".json\x1b", &run(Some(50), 40_000, Ns::from_us(90)));
        assert!(failed.contains("tests=\"3\" failures=\"2\" errors=\"0\" skipped=\"0\""), "{failed}");
        assert!(failed.contains("cyclic CPU 0 within 50.0 µs\"/>"), "{failed}");
        assert!(
            failed.contains("name=\"cyclic CPU 1 within 50.0 µs\"><failure message=\"largest 90.0 µs\""),
            "{failed}"
        );
        assert!(failed.contains("lathunt a &quot;&lt;b&gt;&quot;.json\\u{1b}"), "{failed}");
        let few = junit("x", &run(Some(50), 3, Ns::from_us(20)));
        assert!(few.contains("failures=\"0\" errors=\"1\"") && few.contains("<error message="), "{few}");
        let passed = junit("x", &run(Some(50), 40_000, Ns::from_us(20)));
        assert!(passed.contains("failures=\"0\" errors=\"0\" skipped=\"0\""), "{passed}");
        let unasked = junit("x", &run(None, 40_000, Ns::from_us(20)));
        assert!(unasked.contains("skipped=\"1\"") && unasked.contains("no deadline was given"), "{unasked}");
    }

    #[test]
    fn annotations_have_the_level_of_the_answer_and_hold_one_line_each() {
        let mut failed = run(Some(50), 40_000, Ns::from_us(90));
        failed.verdict.as_mut().unwrap().reasons[0].push_str(" 50%\n::notice::x");
        let text = annotations("a,b:c", &failed);
        assert!(text.starts_with("::error title=lathunt FAIL%3A a%2Cb%3Ac::"), "{text}");
        assert!(text.contains("50%25") && text.lines().all(|line| line.starts_with("::")), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("::notice::x")), "{text}");
        assert!(annotations("x", &run(Some(50), 3, Ns::from_us(20))).starts_with("::warning "));
        let passed = annotations("x", &run(Some(50), 40_000, Ns::from_us(20)));
        assert!(passed.starts_with("::notice ") && passed.contains("fewer than 1 in"), "{passed}");
    }
}
