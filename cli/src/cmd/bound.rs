//! `lathunt bound`: estimates of latencies not seen yet.

mod database;
mod pictures;
mod values;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail, Result};
use lathunt_core::bound::analyse::{analyse, Input, Order, Request};
use lathunt_core::bound::answer::{Answer, Observed};
use lathunt_core::bound::blocks::analyse_maxima;
use lathunt_core::bound::of_run::{self, NoInput};
use lathunt_core::bound::tail::{Distribution, Rounding};
use lathunt_core::bound::text::text;
use lathunt_core::bound::twice::twice;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::stats::model_free::{percent, samples_needed};
use lathunt_core::time::Ns;
use lathunt_host::restrict::{to_reading, Programs};

use super::history::since;
use super::units;
use crate::input::{contents, read_run, Loaded};
use crate::strict::Criteria;
use crate::working::Working;
use crate::{exit, out};

/// Estimate latencies not seen yet, as three separate results: observed, bound, extrapolated.
///
/// Observed: the largest sample, and an upper limit of the probability of larger ones, without a model of the tail; a cluster
/// of samples counts once. Bound: of a run of record --path-analysis, the scheduling latency of the highest priority by the
/// theorem of de Oliveira and others (ECRTS 2020), with its terms. Extrapolated: a generalised Pareto tail, printed only if every gate passes; a gate that refuses is named. No gate can
/// detect a mechanism that first acts after the recording, so a run is extrapolated only with --assume-no-new-mechanism;
/// --values states the same assumption.
///
/// Exit status: 0 done, or the deadline holds for all observed samples; 1 error or invalid arguments; 2 a sample exceeded the
/// deadline; 3 lost samples or missed activations may exceed the deadline, or --strict is not met.
#[derive(Debug, clap::Args)]
pub struct BoundArgs {
    /// Run files of the same configuration, or directories that contain run.lathunt.json
    #[arg(value_name = "RUN", required_unless_present_any = ["values", "needed", "database"], conflicts_with_all = ["values", "needed", "database"])]
    runs: Vec<PathBuf>,
    /// Analyse plain numbers in time order, one per line, in any unit; - is stdin
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
    /// Analyse the windows in this database of lathunt monitor; they are not extrapolated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["values", "needed", "per", "mixed", "assume_no_new_mechanism"])]
    database: Option<PathBuf>,
    /// Span of the windows of --database: 30h, 7d; bare numbers are hours
    #[arg(long, value_name = "TIME", default_value = "30h", value_parser = since, requires = "database")]
    since: Ns,
    /// With --database: analyse the tasks of this name instead of the CPUs
    #[arg(long, value_name = "NAME", requires = "database", conflicts_with = "cpus")]
    task: Option<String>,
    /// Numbers of --values are block maxima: fit a generalised extreme-value distribution
    #[arg(long, requires = "values")]
    block_maxima: bool,
    /// Numbers of --values were rounded down to multiples of this
    #[arg(long, value_name = "WIDTH", requires = "values", conflicts_with = "block_maxima")]
    class_width: Option<f64>,
    /// Threshold of the tail, in the unit of --values, or in µs for runs [default: selected from the data]
    #[arg(long, value_name = "LEVEL", conflicts_with = "block_maxima", allow_negative_numbers = true)]
    threshold: Option<f64>,
    /// One-sided confidence of the limits, from 0.5 to below 1
    #[arg(long, default_value_t = 0.95)]
    confidence: f64,
    /// Probability per activation to extrapolate to [default: 1e-9, or two decades beyond the data]
    #[arg(long, value_name = "P", conflicts_with = "per")]
    exceedance: Option<f64>,
    /// Extrapolate to one exceedance per hour, day, year, or life=20y, of all threads together, at the interval of the run
    #[arg(long, value_name = "TIME", conflicts_with = "values")]
    per: Option<String>,
    /// Extrapolate more than two decades beyond the data
    #[arg(long)]
    beyond: bool,
    /// Extrapolate a run, on the assumption that no mechanism absent from it will act; no test can verify that
    #[arg(long)]
    assume_no_new_mechanism: bool,
    /// Deadline to compare the samples with; bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = units::microseconds, conflicts_with = "values")]
    deadline: Option<Ns>,
    /// Level to compare the numbers of --values with, in their unit
    #[arg(long, value_name = "LEVEL", requires = "values", allow_negative_numbers = true)]
    level: Option<f64>,
    #[command(flatten)]
    strict: Criteria,
    /// Quantity to analyse: cyclic, timer, wakeup, … [default: the main quantity of the first run]
    #[arg(long, value_name = "NAME", conflicts_with = "values")]
    quantity: Option<String>,
    /// Analyse only these CPUs
    #[arg(short, long, value_name = "LIST", conflicts_with = "values")]
    cpus: Option<String>,
    /// Accept runs of different configurations; each is analysed separately
    #[arg(long, conflicts_with = "values")]
    mixed: bool,
    /// Print the number of samples and hours that a claim needs, without a measurement; --exceedance selects the claim
    #[arg(long, conflicts_with_all = ["per", "deadline", "threshold", "beyond", "assume_no_new_mechanism", "quantity", "cpus", "mixed", "json"])]
    needed: bool,
    /// Interval for --needed; bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = units::interval, default_value = "1ms", requires = "needed")]
    interval: Ns,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Directory for bound.json and bound.html (plots)
    #[arg(short, long, value_name = "DIR", conflicts_with = "needed")]
    output: Option<PathBuf>,
    /// Plot the exceedance probability of each level, observed and extrapolated; the extension selects the format: .svg, .png,
    /// or .html with diagnostic plots of the fit
    #[arg(long, value_name = "FILE", conflicts_with_all = ["needed", "block_maxima"])]
    plot: Option<PathBuf>,
}

/// An answer with the data of its plots; block maxima have none.
struct Analysed {
    answer: Answer,
    basis: Option<(Input, Request)>,
}

/// Reads, analyses, prints.
///
/// # Errors
/// One line: the option or file, and what is wrong with it.
pub fn run(args: BoundArgs) -> Result<ExitCode> {
    let outputs: Vec<&Path> = args.output.iter().chain(&args.plot).map(PathBuf::as_path).collect();
    let converts = args
        .plot
        .as_ref()
        .is_some_and(|path| path.extension().is_some_and(|it| it.eq_ignore_ascii_case("png")));
    to_reading(&outputs, if converts { Programs::Some } else { Programs::None })?;
    if !(0.5..1.0).contains(&args.confidence) {
        bail!("--confidence {}: must be from 0.5 to below 1, for example 0.95", args.confidence);
    }
    if let Some(p) = args.exceedance.filter(|p| !(*p > 0.0 && *p < 1.0)) {
        bail!("--exceedance {p}: must be between 0 and 1, for example 1e-9");
    }
    for (option, level) in [("--threshold", args.threshold), ("--level", args.level)] {
        if let Some(level) = level.filter(|level| !level.is_finite()) {
            bail!("{option} {level}: must be a number");
        }
    }
    if args.needed {
        out::print(&needed(args.interval, args.exceedance, args.confidence))?;
        return Ok(ExitCode::SUCCESS);
    }
    args.plot.as_deref().map(pictures::supported).transpose()?;
    let working = Working::show("lathunt bound: fitting and testing");
    let analysed = match (&args.values, &args.database) {
        (Some(path), _) => vec![of_values(path, &args)?],
        (None, Some(path)) => vec![database::of_database(path, &args)?],
        (None, None) => of_runs(&args)?,
    };
    drop(working);
    let answers: Vec<&Answer> = analysed.iter().map(|one| &one.answer).collect();
    let printed = match (args.json, answers.as_slice()) {
        (true, [one]) => serde_json::to_string_pretty(one)? + "\n",
        (true, all) => serde_json::to_string_pretty(all)? + "\n",
        (false, all) => all.iter().copied().map(text).collect::<Vec<_>>().join("\n"),
    };
    exit::all([out::print(&printed).map_err(Into::into), pictures::write(&args, &analysed)])?;
    Ok(judged(&args, &answers))
}

/// Exit code: observed beyond the deadline or level, or possibly; or criteria not met.
fn judged(args: &BoundArgs, answers: &[&Answer]) -> ExitCode {
    let of_level = |level: f64| {
        if answers.iter().any(|answer| answer.observed.max_ns > level) {
            return exit::EXCEEDED;
        }
        let unknown = |o: &Observed| o.above > 0 || o.probability_upper.is_none();
        if answers.iter().any(|answer| unknown(&answer.observed)) {
            exit::INCONCLUSIVE
        } else {
            0
        }
    };
    // Plain numbers have no criteria: all count as unmet.
    let unmet = |answer: &&Answer| {
        answer.criteria.is_empty() || answer.criteria.iter().any(|one| one.met != Some(true))
    };
    match level(args).map_or(0, of_level) {
        0 if args.strict.is_asked() && answers.iter().any(unmet) => exit::INCONCLUSIVE.into(),
        code => code.into(),
    }
}

/// What the samples are compared with: ns, or the unit of --values.
fn level(args: &BoundArgs) -> Option<f64> {
    args.level.or(args.deadline.map(|deadline| deadline.0 as f64))
}

fn request(args: &BoundArgs) -> Request {
    Request {
        confidence: args.confidence,
        exceedance: args.exceedance,
        deadline: level(args),
        threshold: args.threshold,
        beyond: args.beyond,
        // Plain numbers have no machine: their limit states the assumption.
        assume_no_new: args.assume_no_new_mechanism || args.values.is_some(),
        parameters: args.json || args.output.is_some(),
        ..Request::default()
    }
}

fn of_values(path: &Path, args: &BoundArgs) -> Result<Analysed> {
    let bytes = contents(path)?;
    let shown = path.display();
    let values = values::parse(&shown.to_string(), &bytes)?;
    let plural = if values.len() == 1 { "" } else { "s" };
    let about = format!("{} value{plural} of {shown}", values.len());
    if args.block_maxima {
        let answer = analyse_maxima(&about, &values, &request(args))
            .ok_or_else(|| anyhow!("cannot read {shown}: no numbers"))?;
        return Ok(Analysed { answer, basis: None });
    }
    let grid = match args.class_width {
        None => Rounding::Exact,
        Some(width) if width > 0.0 && width.is_finite() => {
            if let Some(value) = values.iter().find(|value| !is_multiple(**value, width)) {
                bail!("--class-width {width}: {value} in {shown} is not a multiple of it: numbers that were rounded down to multiples are");
            }
            Rounding::Width(width)
        }
        Some(width) => bail!("--class-width {width}: must be a number above 0"),
    };
    let distribution =
        Distribution::of_values(&values, grid).ok_or_else(|| anyhow!("cannot read {shown}: no numbers"))?;
    let input = Input { about, ..Input::new("as given", distribution, Order::Values(values)) };
    let request = request(args);
    Ok(Analysed { answer: analyse(&input, &request), basis: Some((input, request)) })
}

/// Within a millionth of a class, or two units in the last place: decimal fractions are not exact in binary.
fn is_multiple(value: f64, width: f64) -> bool {
    let classes = value / width;
    classes.is_finite() && (classes - classes.round()).abs() <= (2.0 * f64::EPSILON * classes.abs()).max(1e-6)
}

fn of_runs(args: &BoundArgs) -> Result<Vec<Analysed>> {
    let loaded: Vec<Loaded> = args.runs.iter().map(|path| read_run(path)).collect::<Result<_>>()?;
    if let Some(part) = loaded.iter().find(|one| one.run.is_unfinished()) {
        bail!("{} is incomplete: its measurement was still running, or was killed", part.path.display());
    }
    let first = loaded.first().ok_or_else(|| anyhow!("no run given"))?;
    let quantity = match &args.quantity {
        Some(name) => named(name)?,
        None => of_run::main_quantity(&first.run)
            .or_else(|| (!first.run.path_analysis.is_empty()).then_some(Quantity::Wakeup))
            .ok_or_else(|| anyhow!("{} has no sample to analyse", first.path.display()))?,
    };
    let cpus = match &args.cpus {
        Some(list) => {
            let set: CpuSet = list.parse().map_err(|error| anyhow!("-c {list}: {error}"))?;
            Some(set.iter().collect::<Vec<_>>())
        }
        None => None,
    };
    for other in loaded.iter().skip(1).filter(|_| !args.mixed) {
        let differ = of_run::differences(&first.run, &other.run, quantity);
        if !differ.is_empty() {
            bail!("{} and {} have different configurations ({}): their samples do not have one distribution; give --mixed to analyse each separately", first.path.display(), other.path.display(), differ.join(", "));
        }
    }
    let pairs = loaded
        .iter()
        .enumerate()
        .flat_map(|(at, one)| loaded[at + 1..].iter().map(move |other| (one, other)));
    for (one, other) in pairs.filter(|_| !args.mixed) {
        if let Some(why) = twice(&one.run, &other.run) {
            bail!("{} and {} {why}: their samples would count twice, and each may have disturbed the other; name one of them, or give --mixed to analyse each separately", one.path.display(), other.path.display());
        }
    }
    let groups: Vec<Vec<&Loaded>> = match args.mixed {
        true => loaded.iter().map(|one| vec![one]).collect(),
        false => vec![loaded.iter().collect()],
    };
    groups.iter().map(|group| of_group(group, quantity, cpus.as_deref(), args)).collect()
}

fn of_group(
    group: &[&Loaded],
    quantity: Quantity,
    cpus: Option<&[lathunt_core::time::Cpu]>,
    args: &BoundArgs,
) -> Result<Analysed> {
    let runs: Vec<&Run> = group.iter().map(|one| &one.run).collect();
    let path = group.first().map(|one| one.path.display().to_string()).unwrap_or_default();
    let input = of_run::input(&runs, quantity, cpus);
    let has_none = matches!(&input, Err(NoInput::NoSample(_) | NoInput::NoCpu(_)));
    let alone = || of_run::bound_alone(&path, &runs, quantity, (cpus, &request(args)));
    if let Some(answer) = has_none.then(alone).flatten() {
        return Ok(Analysed { answer, basis: None });
    }
    let mut input = input.map_err(|error| anyhow!("{path}: {error}"))?;
    let selected: Vec<Run> = match cpus {
        Some(cpus) => runs.iter().map(|run| of_run::selected(run, quantity, cpus)).collect(),
        None => Vec::new(),
    };
    let runs = if selected.is_empty() { runs } else { selected.iter().collect() };
    input.about = format!("{} ({path})", input.about);
    let mut request = request(args);
    request.threshold = args.threshold.map(|us| us * 1e3);
    if let Some(per) = &args.per {
        let all: BTreeSet<Option<Ns>> =
            runs.iter().flat_map(|run| of_run::intervals(run, quantity)).collect();
        let interval = match all.iter().collect::<Vec<_>>().as_slice() {
            [Some(interval)] => *interval,
            [_, _, ..] => bail!("--per {per}: the threads of {path} have different intervals; choose CPUs of one with -c, or give --exceedance"),
            _ => bail!("--per {per}: {path} has no fixed interval; give --exceedance"),
        };
        let threads = runs.iter().map(|run| of_run::threads(run, quantity)).max().unwrap_or(1);
        let level = interval.as_secs() / span(per)? / threads.max(1) as f64;
        request.exceedance = Some(level).filter(|p| *p > 0.0 && *p < 1.0);
        if request.exceedance.is_none() {
            bail!("--per {per}: shorter than the interval of {interval}");
        }
    }
    let mut answer = analyse(&input, &request);
    of_run::complete(&mut answer, &runs, quantity, cpus);
    Ok(Analysed { answer, basis: Some((input, request)) })
}

/// Seconds of `hour`, `day`, `year`, `life=20y`.
fn span(text: &str) -> Result<f64> {
    const YEAR: f64 = 365.25 * 86_400.0;
    let years = text
        .strip_prefix("life=")
        .and_then(|life| life.strip_suffix('y'))
        .and_then(|n| n.parse::<f64>().ok());
    match (text, years) {
        ("hour", _) => Ok(3_600.0),
        ("day", _) => Ok(86_400.0),
        ("year", _) => Ok(YEAR),
        (_, Some(years)) if years.is_finite() && years > 0.0 => Ok(years * YEAR),
        _ => bail!("--per {text}: write hour, day, year or life=20y"),
    }
}

fn named(name: &str) -> Result<Quantity> {
    serde_json::from_value(serde_json::Value::String(name.to_owned()))
        .map_err(|_| anyhow!("--quantity {name}: no such quantity; write for example cyclic or timer"))
}

/// Claim × confidence → samples and hours without an exceedance; `confidence` has a column of its own.
fn needed(interval: Ns, claim: Option<f64>, confidence: f64) -> String {
    let mut text = format!(
        "independent samples without an exceedance, and the time they take at an interval of {interval}\n"
    );
    let claims = claim.map_or_else(|| vec![1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9], |claim| vec![claim]);
    let mut confidences = vec![0.9, 0.95, 0.99, confidence];
    confidences.sort_by(f64::total_cmp);
    confidences.dedup();
    for claim in claims {
        text += &format!("fewer than {claim:e}");
        for &confidence in &confidences {
            let figures = match samples_needed(claim, confidence) {
                Some(samples) => {
                    let hours = (samples as f64 * interval.as_secs() / 3.6).ceil() / 1e3; // no shorter than needed
                    format!("{samples:>11} {hours:>10.3} h")
                }
                None => "more than 2^63".to_owned(),
            };
            text += &format!("   {:>2} %: {figures}", percent(confidence));
        }
        text.push('\n');
    }
    text
}
