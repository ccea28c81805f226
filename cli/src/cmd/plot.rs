//! `lathunt plot`: the standard latency plot, or the maxima over time, of one or several runs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{anyhow, bail, Context, Result};
use lathunt_core::report::plot::{Plot, Wanted};
use lathunt_core::report::{figures, html, latency, seconds, svg};
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_host::programs;
use lathunt_host::restrict::{to_reading, Programs};

use crate::file::write_atomic;
use crate::input::{read_run, Loaded};
use crate::own::{PICTURE_HEAD, PICTURE_MARK};

/// Plot the latencies of one or more runs as SVG, PNG or HTML; several runs are overlaid.
#[derive(Debug, clap::Args)]
pub struct PlotArgs {
    /// Run files, directories that hold run.lathunt.json, or histograms of 1000 lines of a latency box
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// File for the plot; the extension selects the format: .svg, .png or .html; - writes SVG to stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Kind of plot
    #[arg(long, value_enum, default_value_t = Kind::Latency)]
    kind: Kind,
    /// Quantity to plot: cyclic, timer, wakeup, timer+wakeup, npt, … [default: the main quantity of the first run]
    #[arg(long, value_name = "NAME")]
    quantity: Option<String>,
    /// Scale of the latency axis
    #[arg(long, value_enum, default_value_t = Axis::Auto)]
    axis: Axis,
    /// Draw one line per run, with all its CPUs or threads together
    #[arg(long)]
    merge_cpus: bool,
    /// Title [default: the names of the runs]
    #[arg(long)]
    title: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Number of samples at each latency
    Latency,
    /// The largest latency of each second
    Seconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Axis {
    /// Linear, unless that would hide the body of the distribution
    Auto,
    /// Always linear
    Linear,
    /// Always logarithmic
    Log,
}

/// Reads, draws, writes.
///
/// # Errors
/// One line: a file that cannot be read or written, a quantity that was not measured, a PNG without
/// `rsvg-convert`.
pub fn run(args: PlotArgs) -> Result<ExitCode> {
    let to_stdout = args.output == Path::new("-");
    let ending = if to_stdout { "svg".to_owned() } else { ending_of(&args.output)? };
    let outputs: &[&Path] = if to_stdout { &[] } else { &[&args.output] };
    to_reading(outputs, if ending == "png" { Programs::Some } else { Programs::None })?;
    let mut loaded: Vec<Loaded> = args.runs.iter().map(|path| read_run(path)).collect::<Result<_>>()?;
    let quantity = quantity(args.quantity.as_deref(), &loaded)?;
    if args.merge_cpus {
        loaded.iter_mut().try_for_each(|loaded| merge(loaded, quantity))?;
    }
    let bytes = if ending == "html" {
        let kinds =
            if args.kind == Kind::Latency { vec![Kind::Latency, Kind::Seconds] } else { vec![args.kind] };
        let plots: Vec<Plot> =
            kinds.into_iter().filter_map(|kind| draw(&args, kind, quantity, &loaded)).collect();
        if plots.is_empty() {
            return Err(nothing(quantity, args.kind));
        }
        html::plots(&title(&args, &loaded), &plots)?.into_bytes()
    } else {
        let plot = draw(&args, args.kind, quantity, &loaded).ok_or_else(|| nothing(quantity, args.kind))?;
        let drawing = svg::standalone(&plot);
        if ending == "png" {
            to_png(&drawing)?
        } else {
            drawing.into_bytes()
        }
    };
    if to_stdout {
        crate::out::bytes(&bytes)?;
        return Ok(ExitCode::SUCCESS);
    }
    write_atomic(&args.output, &bytes)?;
    eprintln!("plot: {}", args.output.display());
    Ok(ExitCode::SUCCESS)
}

/// Merges the series of `quantity` into one.
fn merge(loaded: &mut Loaded, quantity: Quantity) -> Result<()> {
    if loaded.run.of(quantity).filter(|series| series.histogram.count() > 0).count() < 2 {
        return Ok(());
    }
    let sum = latency::merged(&loaded.run, quantity).ok_or_else(|| {
        anyhow!("cannot merge the CPUs of {}: their histograms have different classes; without --merge-cpus each has a line", loaded.path.display())
    })?;
    loaded.run.series = vec![sum];
    Ok(())
}

/// `svg`, `png` or `html`.
fn ending_of(output: &Path) -> Result<String> {
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or("").to_lowercase();
    if !["svg", "png", "html"].contains(&ending.as_str()) {
        bail!("cannot plot to {}: the name must end in .svg, .png or .html", output.display());
    }
    Ok(ending)
}

/// For `compare --plot`: the runs overlaid.
///
/// # Errors
/// As [`run`].
pub fn of_runs(runs: Vec<PathBuf>, output: PathBuf) -> Result<ExitCode> {
    run(PlotArgs {
        runs,
        output,
        kind: Kind::Latency,
        quantity: None,
        axis: Axis::Auto,
        merge_cpus: false,
        title: None,
    })
}

fn nothing(quantity: Quantity, kind: Kind) -> anyhow::Error {
    match kind {
        Kind::Latency => anyhow!(
            "nothing to plot: no run has a sample of {}; --quantity selects another quantity",
            quantity.name()
        ),
        Kind::Seconds => anyhow!(
            "nothing to plot: no run kept maxima over time of {}; --kind latency plots its distribution",
            quantity.name()
        ),
    }
}

fn title(args: &PlotArgs, loaded: &[Loaded]) -> String {
    let names = || loaded.iter().map(Loaded::name).collect::<Vec<_>>().join(", ");
    args.title.clone().unwrap_or_else(names)
}

fn draw(args: &PlotArgs, kind: Kind, quantity: Quantity, loaded: &[Loaded]) -> Option<Plot> {
    let wanted = match args.axis {
        Axis::Auto => Wanted::Auto,
        Axis::Linear => Wanted::Linear,
        Axis::Log => Wanted::Log,
    };
    let names: Vec<String> = loaded.iter().map(Loaded::name).collect();
    let runs: Vec<_> = names.iter().zip(loaded).map(|(name, loaded)| (name.as_str(), &loaded.run)).collect();
    let curves = latency::curves(&runs, quantity);
    let mut plot = match kind {
        Kind::Latency => latency::plot(quantity, &curves, deadline(loaded), wanted)?,
        Kind::Seconds => seconds::plot(quantity, &curves, deadline(loaded), wanted)?,
    };
    plot.subtitle = match (loaded, &args.title) {
        ([one], None) => html::subtitle(&one.run),
        _ => title(args, loaded),
    };
    Some(plot)
}

/// The deadline, if all runs have the same.
fn deadline(loaded: &[Loaded]) -> Option<Ns> {
    let of = |loaded: &Loaded| loaded.run.verdict.as_ref().and_then(|verdict| verdict.deadline_ns);
    let first = of(loaded.first()?)?;
    loaded.iter().all(|other| of(other) == Some(first)).then_some(first)
}

/// The requested quantity, or the first run's main one.
fn quantity(asked: Option<&str>, loaded: &[Loaded]) -> Result<Quantity> {
    let mut measured: Vec<Quantity> = Vec::new();
    for quantity in loaded.iter().flat_map(|loaded| figures::quantities(&loaded.run)) {
        if !measured.contains(&quantity) {
            measured.push(quantity);
        }
    }
    let Some(asked) = asked else {
        return measured.first().copied().ok_or_else(|| anyhow!("nothing to plot: the run has no series"));
    };
    measured.iter().copied().find(|quantity| quantity.name() == asked).ok_or_else(|| {
        let names: Vec<&str> = measured.iter().map(|quantity| quantity.name()).collect();
        anyhow!("cannot plot '{asked}': the runs have {}", names.join(", "))
    })
}

/// The picture with the name of its program in it, which marks it as one that may be overwritten.
fn marked(mut picture: Vec<u8>) -> Vec<u8> {
    if picture.len() > PICTURE_HEAD {
        picture.splice(PICTURE_HEAD..PICTURE_HEAD, *PICTURE_MARK);
    }
    picture
}

/// PNG by librsvg's own program, at twice the size so that it is sharp in a document.
pub(super) fn to_png(drawing: &str) -> Result<Vec<u8>> {
    let spawned = programs::command("rsvg-convert")
        .args(["--zoom", "2", "--format", "png"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(|error| {
        anyhow!(
            "cannot make a PNG: rsvg-convert: {error}; install librsvg2-bin (Debian, Ubuntu), or write .svg"
        )
    })?;
    let mut input = child.stdin.take().context("rsvg-convert has no input")?;
    // It reads everything before it writes, so this sequence cannot block.
    let fed = input.write_all(drawing.as_bytes());
    drop(input);
    let output = child.wait_with_output().context("cannot make a PNG: rsvg-convert")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || fed.is_err() {
        bail!(
            "cannot make a PNG: rsvg-convert: {}; write .svg instead",
            complaint.trim().replace('\n', "; ")
        );
    }
    Ok(marked(output.stdout))
}
