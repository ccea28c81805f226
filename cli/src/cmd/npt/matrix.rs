//! `lathunt npt --matrix`: each cell of each round is a separate process that runs `lathunt npt`, so that no tracer is
//! affected by what another left behind.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::npt::matrix::{Matrix, Name};
use lathunt_core::report::{html, svg};
use lathunt_core::run::Run;
use lathunt_core::time::Ns;
use lathunt_host::beneath::Readers;
use lathunt_host::child::{bound_to_parent, not_started};
use lathunt_host::instrument::npt::probe::Kind;
use lathunt_host::{recorder, signals, threads};

use super::NptArgs;
use crate::cmd::plot::to_png;
use crate::file::write_atomic;
use crate::out;

/// Default bursts and pauses: 13 % of pause, so that throttling never strikes.
const BURST: Ns = Ns::from_ms(20);

/// No event of any tracer may count as a gap: handling one would be part of its next iteration.
const THRESHOLD: Ns = Ns::from_ms(10);

/// A row to measure: its name, and its flags.
struct Cell {
    name: Name,
    flags: Vec<&'static str>,
}

/// Measures all cells in turn, prints the table, writes the files.
pub(super) fn run(args: &NptArgs, cpus: &CpuSet) -> Result<ExitCode> {
    if cpus.len() != 1 {
        bail!("cannot compare tracers on CPU {cpus}: one CPU at a time; name it with -c");
    }
    if let Some(directory) = &args.output {
        crate::file::directory(directory, Readers::Umask)?;
    }
    signals::install()?;
    let mut matrix = Matrix::default();
    let cells = cells(&mut matrix);
    let rounds = u64::from(args.rounds).min(args.count);
    let mut failed: Vec<usize> = Vec::new();
    let mut last = 0;
    for round in 1..=rounds {
        if signals::stop_requested().is_none() {
            last = round;
        }
        for (index, cell) in cells.iter().enumerate() {
            if signals::stop_requested().is_some() || failed.contains(&index) {
                continue;
            }
            progress(args, round, rounds, &cell.name);
            match measure(args, cpus, args.count.div_ceil(rounds), cell) {
                Ok(run) => drop(matrix.add(&cell.name, &run)),
                Err(error) => {
                    matrix.lacks(&cell.name.label(), &error.to_string());
                    failed.push(index);
                }
            }
        }
    }
    if !args.quiet && out::can_draw() {
        eprint!("\r\x1b[K");
    }
    if let Some(signal) = signals::stop_requested() {
        matrix.lacks("the rest", &format!("ended by signal {signal} in round {last} of {rounds}"));
    }
    let saved = args.output.as_ref().map_or(Ok(()), |directory| write(&matrix, directory));
    let printed = out::print(&if args.json { matrix.to_json() + "\n" } else { matrix.text() });
    crate::exit::all([printed.map_err(Into::into), saved])?;
    if matrix.rows().is_empty() {
        bail!("nothing was measured: each cell states the reason");
    }
    Ok(ExitCode::SUCCESS)
}

/// The measurable cells; the others are noted in `matrix`.
fn cells(matrix: &mut Matrix) -> Vec<Cell> {
    let cell = |user: &str, kernel: &str, flags: &[&'static str]| Cell {
        name: Name { user: user.to_owned(), kernel: kernel.to_owned() },
        flags: flags.to_vec(),
    };
    let mut cells = vec![cell("none", "none", &["--no-record"])];
    let absent =
        recorder::capability().into_iter().find(|need| !need.present && need.name != "kernel_symbols");
    match &absent {
        None => cells.push(cell("none", "lathunt", &[])),
        Some(need) => matrix.lacks("kernel: lathunt", &need.note),
    }
    cells.push(cell("lathunt", "none", &["--no-record", "--probe", "lathunt"]));
    if absent.is_none() {
        cells.push(cell("lathunt", "lathunt", &["--probe", "lathunt"]));
    }
    let ftrace = Kind::Kernel.missing();
    match &ftrace {
        None => cells.push(cell("none", "ftrace", &["--no-record", "--probe", "kernel"])),
        Some(why) => matrix.lacks("kernel: ftrace", why),
    }
    let peers: [(Kind, &[&'static str]); 4] = [
        (Kind::Lttng { read_timer: false }, &["--no-record", "--probe", "lttng"]),
        (Kind::Lttng { read_timer: true }, &["--no-record", "--probe", "lttng", "--read-timer"]),
        (Kind::Marker, &["--no-record", "--probe", "marker"]),
        (Kind::Uprobe, &["--no-record", "--probe", "uprobe"]),
    ];
    for (kind, flags) in peers {
        match kind.missing() {
            Some(why) => matrix.lacks(kind.name(), &why),
            None => {
                cells.push(cell(kind.name(), "none", flags));
                if ftrace.is_none() {
                    cells.push(cell(kind.name(), "ftrace", &[flags, &["--trace-kernel"]].concat()));
                }
            }
        }
    }
    cells
}

fn progress(args: &NptArgs, round: u64, rounds: u64, name: &Name) {
    if !args.quiet {
        let (begin, end) = if out::can_draw() { ("\r", "\x1b[K") } else { ("", "\n") };
        eprint!("{begin}round {round} of {rounds}: user {}, kernel {}{end}", name.user, name.kernel);
    }
}

/// One cell of one round.
fn measure(args: &NptArgs, cpus: &CpuSet, count: u64, cell: &Cell) -> Result<Run> {
    let ns = |time: Ns| format!("{}ns", time.0);
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command
        .args(["npt", "--json", "-q", "--worst", "0", "-c", &cpus.to_string(), "-n", &count.to_string()])
        .args([
            "-p",
            &args.priority.to_string(),
            "--threshold",
            &ns(THRESHOLD.max(args.threshold.unwrap_or_default())),
        ])
        .args(["--burst", &ns(args.burst.unwrap_or(BURST)), "--pause", &ns(args.pause)])
        .args(["--clock", args.clock.word()])
        .args(&cell.flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = bound_to_parent(&mut command).spawn().map_err(|error| not_started("a round", error))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        threads::spawn(move || {
            let mut text = String::new();
            pipe.map(|mut pipe| pipe.read_to_string(&mut text));
            text
        })
    };
    let (result, said) =
        (read(stdout.map(|pipe| Box::new(pipe) as _))?, read(stderr.map(|pipe| Box::new(pipe) as _))?);
    let limit = limit(count);
    let Some(status) = ended(&mut child, limit)? else {
        bail!("it did not end within {} s", limit.as_secs());
    };
    let (result, said) = (result.join().unwrap_or_default(), said.join().unwrap_or_default());
    if !status.success() {
        let line = said.lines().rev().find_map(|line| line.strip_prefix("lathunt: "));
        return Err(anyhow!("{}", line.map_or_else(|| status.to_string(), str::to_owned)));
    }
    Run::from_json(&result).context("a round printed no run")
}

/// Time limit of a round: ten times that of the slowest tracer on a slow machine, plus its setup.
fn limit(count: u64) -> Duration {
    Duration::from_secs(120) + Duration::from_micros(count.saturating_mul(10))
}

/// Waits for the round's process; `None`: it had to be killed.
fn ended(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a round")? {
            return Ok(Some(status));
        }
        let late = begin.elapsed() > limit;
        if signals::stop_requested().is_some() || late {
            // From a terminal it has the signal already; a second one does no harm.
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            std::thread::sleep(Duration::from_millis(200));
        }
        if late && begin.elapsed() > limit + Duration::from_secs(15) {
            child.kill().and_then(|()| child.wait()).context("cannot end a round")?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn write(matrix: &Matrix, directory: &Path) -> Result<()> {
    write_atomic(&directory.join("matrix.txt"), matrix.text().as_bytes())?;
    write_atomic(&directory.join("matrix.csv"), matrix.csv().as_bytes())?;
    write_atomic(&directory.join("matrix.json"), matrix.to_json().as_bytes())?;
    let Some(plot) = matrix.plot() else { return Ok(()) };
    let drawing = svg::standalone(&plot);
    write_atomic(&directory.join("matrix.svg"), drawing.as_bytes())?;
    let title = plot.title.clone();
    write_atomic(&directory.join("matrix.html"), html::plots(&title, &[plot])?.as_bytes())?;
    match to_png(&drawing) {
        Ok(png) => write_atomic(&directory.join("matrix.png"), &png)?,
        Err(error) => eprintln!("note: no matrix.png: {error}"),
    }
    eprintln!("written: {}/matrix.{{txt,csv,json,svg,html,png}}", directory.display());
    Ok(())
}
