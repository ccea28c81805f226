//! `lathunt compare`: two or more runs side by side.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use lathunt_core::printable::line;
use lathunt_core::regression::{check, overall, pairs, Finding, Limit, Outcome};
use lathunt_core::report::compare::Comparison;
use lathunt_core::report::figures::quantities;
use lathunt_core::run::Run;
use lathunt_core::verdict;
use lathunt_host::restrict::{to_reading, Programs};

use crate::exit::{EXCEEDED, INCONCLUSIVE};
use crate::input::{read_run, Loaded};

/// Compare runs; the first is the reference.
///
/// With --fail-on, a run fails if a figure exceeds that of the reference by more than the limit and by more than chance
/// explains. The test compares seconds, not samples, because late activations come in bursts: the run fails if it has too large
/// a share of the seconds with a larger latency. An excess in only one or two seconds may be chance; it is reported, and does
/// not fail the run.
///
/// Exit status: 0 compared, and no figure is worse than allowed; 1 a run cannot be read; 2 a figure is worse; 3 undecided: a
/// run is too short to show even a clear excess, incomplete, itself inconclusive, or has lost samples that may be larger.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// Run files, or directories that hold run.lathunt.json
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    runs: Vec<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Also plot the runs over each other: FILE.svg, .png or .html; - writes SVG to stdout, and no table
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Exit with status 2 if a run is worse than the first by more than these limits: 'max +20%, p99.99 +10%, median +5us'
    #[arg(long, value_name = "LIMITS", value_delimiter = ',')]
    fail_on: Vec<Limit>,
    /// With --fail-on: confidence of the test; 1 - LEVEL limits the probability that a run fails by chance
    #[arg(long, value_name = "LEVEL", default_value = "0.95", value_parser = level, requires = "fail_on")]
    confidence: f64,
}

/// A confidence.
fn level(text: &str) -> Result<f64, String> {
    let level = text.parse().ok().filter(|level| (0.5..1.0).contains(level));
    level.ok_or_else(|| {
        format!("'{text}' is not a confidence; write a number from 0.5 to below 1, for example 0.95")
    })
}

/// Result of the limits for one run.
#[derive(serde::Serialize)]
struct Checked {
    /// File it was read from.
    run: String,
    /// Quantity of its series.
    quantity: &'static str,
    /// Why it proves nothing, whatever its figures.
    doubt: Option<String>,
    /// Overall outcome.
    outcome: Outcome,
    /// One for each series and limit.
    figures: Vec<Finding>,
}

/// Reads, compares, prints.
///
/// # Errors
/// One line about the file that cannot be read.
pub fn run(args: CompareArgs) -> Result<ExitCode> {
    let plot = args.plot.iter().map(PathBuf::as_path).filter(|plot| *plot != Path::new("-"));
    let is_picture =
        args.plot.as_ref().is_some_and(|plot| plot.extension().is_some_and(|ending| ending == "png"));
    to_reading(&plot.collect::<Vec<_>>(), if is_picture { Programs::Some } else { Programs::None })?;
    let loaded: Vec<Loaded> = args.runs.iter().map(|path| read_run(path)).collect::<Result<_>>()?;
    let names: Vec<String> = loaded.iter().map(|loaded| loaded.path.display().to_string()).collect();
    let sides: Vec<_> =
        names.iter().zip(&loaded).map(|(name, loaded)| (name.as_str(), &loaded.run)).collect();
    let comparison = Comparison::of(&sides);
    let checked: Vec<Checked> = match (args.fail_on.is_empty(), sides.split_first()) {
        (false, Some(((_, reference), rest))) => {
            rest.iter().map(|(name, run)| against(reference, name, run, &args)).collect::<Result<_>>()?
        }
        _ => Vec::new(),
    };
    let text = if args.json {
        let mut whole = serde_json::to_value(&comparison)?;
        if let (Some(fields), false) = (whole.as_object_mut(), args.fail_on.is_empty()) {
            fields.insert("fail_on".to_owned(), serde_json::to_value(&checked)?);
        }
        serde_json::to_string_pretty(&whole)? + "\n"
    } else {
        comparison.to_text(crate::out::screen(&[], true).width) + &checked_text(&checked, &comparison)
    };
    let to_stdout = args.plot.as_deref() == Some(Path::new("-"));
    if !to_stdout {
        crate::out::print(&text)?;
    }
    if let Some(output) = args.plot {
        super::plot::of_runs(args.runs, output)?;
    }
    Ok(match checked.iter().map(|run| run.outcome).max() {
        Some(Outcome::Worse) => EXCEEDED.into(),
        Some(Outcome::Undecided) => INCONCLUSIVE.into(),
        Some(Outcome::Within | Outcome::NotSignificant) | None => ExitCode::SUCCESS,
    })
}

/// Compares the quantity that the reference is about.
fn against(reference: &Run, name: &str, run: &Run, args: &CompareArgs) -> Result<Checked> {
    let judged = reference.verdict.as_ref().and_then(|verdict| verdict.quantity);
    let Some(quantity) = judged.or_else(|| quantities(reference).first().copied()) else {
        let doubt = Some("the reference has no samples".to_owned());
        let (run, outcome, figures) = (name.to_owned(), Outcome::Undecided, Vec::new());
        return Ok(Checked { run, quantity: "", doubt, outcome, figures });
    };
    let pairs = pairs(reference, run, quantity)
        .with_context(|| format!("{name}: cannot merge the series of the threads on one CPU"))?;
    let figures = check(&pairs, &args.fail_on, args.confidence);
    let doubt = doubt(reference).map(|why| format!("the reference {why}")).or_else(|| doubt(run));
    let outcome = match (overall(&figures), &doubt) {
        (Outcome::Worse, _) => Outcome::Worse,
        (_, Some(_)) => Outcome::Undecided,
        (outcome, None) => outcome,
    };
    Ok(Checked { run: name.to_owned(), quantity: quantity.name(), doubt, outcome, figures })
}

/// Why a run proves nothing.
fn doubt(run: &Run) -> Option<String> {
    if !run.complete {
        return Some("is not complete".to_owned());
    }
    let verdict = run.verdict.as_ref().filter(|of| of.outcome == Some(verdict::Outcome::Inconclusive))?;
    let why = verdict.reasons.first().map_or("no reason is known", String::as_str);
    Some(format!("is inconclusive by itself: {why}"))
}

fn checked_text(checked: &[Checked], comparison: &Comparison) -> String {
    let mut lines = Vec::new();
    for (run, side) in checked.iter().zip(comparison.runs.iter().skip(1)) {
        let said = match run.outcome {
            Outcome::Within => "no figure exceeds its limit",
            Outcome::NotSignificant => "no figure exceeds its limit by more than chance explains",
            Outcome::Undecided => "undecided: it may be worse than allowed",
            Outcome::Worse => "worse than allowed, and not by chance",
        };
        lines.push(String::new());
        lines.push(format!("{} beside A, {}: {said}", side.letter, run.quantity));
        lines.extend(run.doubt.iter().map(|why| format!("  ? {why}")));
        let told = |of: &&Finding| of.outcome != Outcome::Within;
        lines.extend(run.figures.iter().filter(told).map(|of| format!("  {}", figure_line(of))));
    }
    lines.iter().fold(String::new(), |text, told| text + &line(told) + "\n")
}

fn figure_line(finding: &Finding) -> String {
    let Finding { label, figure, detail, .. } = finding;
    let sign = match finding.outcome {
        Outcome::Worse => '!',
        Outcome::Undecided => '?',
        Outcome::Within | Outcome::NotSignificant => '~',
    };
    let (Some(value), Some(reference), Some(allowed)) =
        (finding.value_ns, finding.reference_ns, finding.limit_ns)
    else {
        return format!("{sign} {label}: {figure}: {detail}");
    };
    let by_chance = finding.p.map_or(String::new(), |p| match p {
        p if p < 1e-4 => ", p < 0.0001".to_owned(),
        p => format!(", p = {p:.4}"),
    });
    // Nothing is above a maximum as displayed.
    let [value_shown, reference] =
        [value, reference].map(|ns| if figure == "max" { ns.rounded_up() } else { ns });
    let limit = match value > allowed {
        true => format!("above {allowed}"),
        false => format!("within {allowed}"),
    };
    format!("{sign} {label}: {figure} {value_shown} is {limit} (A: {reference}): {detail}{by_chance}")
}
