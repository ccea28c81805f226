//! `lathunt tasks compare`: the same set under each scheduler.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Result};
use lathunt_core::printable;
use lathunt_core::run::Run;
use lathunt_core::set_run::ThreadRun;
use lathunt_core::time::Ns;
use lathunt_host::{signals, wall};
use serde_json::json;

use super::run::{measure, Chosen, Common, Measured, Sinks};
use super::{read, warn};
use crate::outdir::Output;
use crate::{exit, out};

/// Run a task set under every scheduler that this machine supports, one after the other.
///
/// The table shows the longest response of each thread under each scheduler, and its missed deadlines. With -o, DIR contains
/// the run of each scheduler (fifo.lathunt.json, …), and report.html compares them. A scheduler that cannot run the set is
/// listed with the reason.
///
/// Exit status: 0 under at least one scheduler no deadline was missed; 2 under each of them a deadline was missed; 1 error, or
/// no scheduler can run the set.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// Task set in rt-app's JSON; - is stdin
    #[arg(value_name = "SET.json")]
    set: PathBuf,
    #[command(flatten)]
    common: Common,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

/// Files besides the comparison.
const RUNS: [&str; 6] = [
    "fifo.lathunt.json",
    "rr.lathunt.json",
    "deadline.lathunt.json",
    "other.lathunt.json",
    "fiber-fp.lathunt.json",
    "fiber-edf.lathunt.json",
];

/// Length per scheduler, if neither the file nor the command line gives it.
const DURATION: Ns = Ns::from_ms(10_000);

/// Runs and prints.
///
/// # Errors
/// If the set cannot be read, or run by any scheduler, or the result cannot be written.
pub fn run(args: &CompareArgs) -> Result<ExitCode> {
    let set = read(&args.set)?;
    warn(&set.warnings);
    signals::install()?;
    let started = wall::now_rfc3339();
    let wanted = args.common.output.as_deref();
    let output = wanted.map(|path| Output::create_for(Some(path), started.as_deref(), &RUNS)).transpose()?;
    let mut common = args.common.clone();
    if set.global.duration_s.is_none() {
        common.duration = common.duration.or(Some(DURATION));
    }
    let (mut runs, mut missing, mut unsaved) = (Vec::new(), Vec::new(), Vec::new());
    const ALL: [Chosen; 6] =
        [Chosen::Fifo, Chosen::Rr, Chosen::Deadline, Chosen::Other, Chosen::FiberFp, Chosen::FiberEdf];
    for chosen in ALL {
        if signals::stop_requested().is_some() {
            missing.push((chosen.scheduler().name(), "stopped before it was run".to_owned()));
            continue;
        }
        let name = chosen.scheduler().name();
        if !common.quiet {
            eprintln!("{name} …");
        }
        let file = format!("{name}.lathunt.json");
        let mut save = |run: &Run| output.iter().for_each(|output| output.save_as(&file, run));
        let save = output.is_some().then_some(&mut save as &mut dyn FnMut(&Run));
        let sinks = Sinks { silent: args.json, save, ..Sinks::default() };
        match measure(&set, chosen.scheduler(), &common, sinks) {
            Ok(Measured { run, .. }) => {
                // A full disk now does not cost the other schedulers: the run is in memory, and written again at the end.
                if let Some(Err(error)) = output.as_ref().map(|output| output.put(&file, &run)) {
                    eprintln!("lathunt: {}; the comparison continues", exit::one_line(&error));
                    unsaved.push(runs.len());
                }
                runs.push((name.to_owned(), run));
            }
            Err(error) => missing.push((name, exit::one_line(&error))),
        }
    }
    if runs.is_empty() {
        let first = missing.into_iter().map(|(name, why)| format!("{name}: {why}")).next();
        bail!("no scheduler can run the set; {}", first.unwrap_or_default());
    }
    let mut saved = Vec::new();
    if let Some(output) = &output {
        let again = unsaved.into_iter().map(|index| &runs[index]);
        saved.extend(again.map(|(name, run)| output.put(&format!("{name}.lathunt.json"), run)));
        saved.push(output.write(&lathunt_core::merge::side_by_side(&runs), &[]));
    }
    let text = match args.json {
        true => format!("{:#}\n", document(&runs, &missing)),
        false => table(&runs, &missing),
    };
    saved.push(out::print(&text).map_err(Into::into));
    exit::all(saved)?;
    let met = runs.iter().any(|(_, run)| run.misses == Some(0));
    Ok(if met { ExitCode::SUCCESS } else { exit::EXCEEDED.into() })
}

fn threads(run: &Run) -> &[ThreadRun] {
    run.task_set.as_ref().map_or(&[], |set| set.threads.as_slice())
}

fn table(runs: &[(String, Run)], missing: &[(&str, String)]) -> String {
    const NAME: usize = 24;
    let names: Vec<&str> = threads(&runs[0].1).iter().map(|thread| thread.name.as_str()).collect();
    let mut text = format!("{:<NAME$} {:>10}", "max response", "deadline");
    for (name, _) in runs {
        let _ = write!(text, " {name:>21}");
    }
    text.push('\n');
    for name in names {
        let of = |run: &Run| threads(run).iter().find(|thread| thread.name == name).cloned();
        let deadline = of(&runs[0].1).and_then(|thread| thread.deadline_ns);
        let shown = printable::line(name);
        let _ = write!(
            text,
            "{:<NAME$} {:>10}",
            printable::cut(&shown, NAME),
            deadline.map_or("-".to_owned(), |deadline| deadline.to_string())
        );
        for (_, run) in runs {
            let cell = of(run).map_or("-".to_owned(), |thread| {
                let response = thread.response_max_ns.map_or("-".to_owned(), |ns| ns.to_string());
                match thread.misses {
                    0 => response,
                    misses => format!("{response} ({misses} late)"),
                }
            });
            let _ = write!(text, " {cell:>21}");
        }
        text.push('\n');
    }
    let total = |figure: fn(&Run) -> Option<u64>, label: &str, text: &mut String| {
        let _ = write!(text, "{label:<NAME$} {:>10}", "");
        for (_, run) in runs {
            let _ = write!(text, " {:>21}", figure(run).unwrap_or(0));
        }
        text.push('\n');
    };
    total(|run| run.jobs, "jobs", &mut text);
    total(|run| run.misses, "late jobs", &mut text);
    for (name, run) in runs {
        let Some(set) = &run.task_set else { continue };
        let places = format!("{name}: on CPU {}", set.cpus);
        let _ = writeln!(
            text,
            "{places}{}",
            set.not_analysed
                .iter()
                .map(|why| format!("; not analysed: {}", printable::line(why)))
                .collect::<String>()
        );
        for line in set.findings.iter().chain(&run.conditions.during.ended_early) {
            let _ = writeln!(text, "{name}: {}", printable::line(line));
        }
    }
    for (name, why) in missing {
        let _ = writeln!(text, "{name}: not run: {}", printable::line(why));
    }
    text
}

fn document(runs: &[(String, Run)], missing: &[(&str, String)]) -> serde_json::Value {
    let one = |(name, run): &(String, Run)| {
        json!({
            "scheduler": name,
            "jobs": run.jobs,
            "misses": run.misses,
            "threads": threads(run),
            "outcome": run.verdict.as_ref().and_then(|verdict| verdict.outcome),
        })
    };
    json!({
        "format": "lathunt-tasks-comparison",
        "version": 1,
        "runs": runs.iter().map(one).collect::<Vec<_>>(),
        "missing": missing.iter().map(|(name, why)| json!({"scheduler": name, "why": why})).collect::<Vec<_>>(),
    })
}
