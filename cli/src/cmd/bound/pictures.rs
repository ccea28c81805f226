//! Files written by `lathunt bound`: its plots, and its answer as JSON.

use std::path::Path;

use anyhow::{anyhow, bail, Result};
use lathunt_core::bound::curves::Curves;
use lathunt_core::printable;
use lathunt_core::report::plot::Plot;
use lathunt_core::report::{html, svg};
use lathunt_core::tail_plots::{exceedance, plots, Subject, Unit};
use lathunt_host::beneath::Readers;

use super::{Analysed, BoundArgs};
use crate::cmd::plot::to_png;
use crate::file;

/// Answer of `-o DIR`.
const ANSWER_FILE: &str = "bound.json";
/// Its plots.
const PAGE_FILE: &str = "bound.html";

/// Whether a plot can be written to `path`: checked before the analysis, which may take long.
///
/// # Errors
/// If the extension is not supported.
pub fn supported(path: &Path) -> Result<String> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("").to_lowercase();
    if !["svg", "png", "html"].contains(&ending.as_str()) {
        bail!("cannot plot to {}: the name must end in .svg, .png or .html", path.display());
    }
    Ok(ending)
}

/// Writes the requested files.
///
/// # Errors
/// One line: the file, and the reason.
pub fn write(args: &BoundArgs, analysed: &[Analysed]) -> Result<()> {
    if let Some(path) = &args.plot {
        let bytes = match supported(path)?.as_str() {
            "html" => page(analysed)?.into_bytes(),
            ending => picture(path, analysed, ending)?,
        };
        file::write_atomic(path, &bytes)?;
        eprintln!("plot: {}", path.display());
    }
    if let Some(path) = &args.output {
        let directory = file::directory(path, Readers::Umask)?;
        let answers: Vec<_> = analysed.iter().map(|one| &one.answer).collect();
        let json = match answers.as_slice() {
            [one] => serde_json::to_string_pretty(one)?,
            all => serde_json::to_string_pretty(all)?,
        };
        let json = printable::json(json);
        file::put(&directory, ANSWER_FILE, (json + "\n").as_bytes(), Readers::Umask)?;
        if analysed.iter().any(|one| one.basis.is_some()) {
            file::put(&directory, PAGE_FILE, page(analysed)?.as_bytes(), Readers::Umask)?;
        }
        eprintln!("answer: {}", directory.path().join(ANSWER_FILE).display());
    }
    Ok(())
}

/// The plots of all answers, one after the other.
fn page(analysed: &[Analysed]) -> Result<String> {
    let mut all: Vec<Plot> = Vec::new();
    for (nth, one) in analysed.iter().enumerate() {
        let of_one = drawn(one, plots);
        all.extend(of_one.into_iter().map(|plot| {
            let title =
                if analysed.len() > 1 { format!("{}: {}", plot.title, plot.subtitle) } else { plot.title };
            Plot { id: format!("{}-{nth}", plot.id), title, ..plot }
        }));
    }
    let about: Vec<&str> = analysed.iter().map(|one| one.answer.about.as_str()).collect();
    Ok(html::plots(&about.join(", "), &all)?)
}

/// The exceedance plot of the only answer.
fn picture(path: &Path, analysed: &[Analysed], ending: &str) -> Result<Vec<u8>> {
    let [one] = analysed else {
        bail!("cannot plot several analyses to {}: name a file that ends in .html", path.display());
    };
    let plot = drawn(one, |curves, subject| exceedance(curves, subject).into_iter().collect());
    let plot = plot.first().ok_or_else(|| anyhow!("nothing to plot: there is no sample"))?;
    let drawing = svg::standalone(plot);
    if ending == "png" {
        to_png(&drawing)
    } else {
        Ok(drawing.into_bytes())
    }
}

fn drawn(one: &Analysed, draw: fn(&Curves, &Subject) -> Vec<Plot>) -> Vec<Plot> {
    let Some((input, request)) = &one.basis else { return Vec::new() };
    let is_time = input.unit == "ns";
    let unit = Unit { name: if is_time { "µs" } else { "" }, divisor: if is_time { 1e3 } else { 1.0 } };
    let subject = Subject {
        about: &one.answer.about,
        unit,
        deadline: request.deadline,
        bound: one.answer.bound.value_ns,
        extrapolated: &one.answer.extrapolated.reason,
    };
    draw(&Curves::of(input, request, &one.answer), &subject)
}
