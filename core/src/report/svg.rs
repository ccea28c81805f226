//! Draws a [`Plot`] as SVG: an own writer, for deterministic bytes and control of the axes; a plotting library would
//! bring fonts and rasterizers.
//!
//! Two forms of one geometry: a standalone file (white, with title and legend, explicit colours, so that any viewer and
//! `rsvg-convert` show it) and a part of a page (colours from the page's CSS, legend in HTML, groups that the script
//! scales).

use std::fmt::Write;

use super::extent::{cut, width, wrap};
use super::plot::{Axis, Deadline, Line, Plot, BOTTOM, COLOURS, LEFT, RIGHT, TOP, WIDTH};
use super::scale::{count_label, tick_label, Kind};
use crate::printable::markup;

/// Okabe and Ito's palette for the colour-blind (2008), yellow replaced and orange darkened for contrast on white.
const ON_WHITE: [&str; COLOURS] =
    ["#0072b2", "#d55e00", "#009e73", "#aa4499", "#b8860b", "#3a9ad9", "#882255", "#555555"];
/// The same, lightened for a dark page.
const ON_DARK: [&str; COLOURS] =
    ["#56a8e8", "#ff8c4a", "#2cc79b", "#e08fd6", "#e6b54a", "#8fd0ff", "#e07aa0", "#b5b5b5"];
/// `stroke-dasharray` per dash index; the first is solid.
const DASH: [&str; super::plot::DASHES] = ["", "7 3", "2 2", "9 3 2 3"];

/// Rules for the classes of a plot inside a page, for light and dark.
#[must_use]
pub fn page_css() -> String {
    let variables = |colours: &[&str]| {
        colours.iter().enumerate().map(|(i, c)| format!("--c{i}:{c};")).collect::<String>()
    };
    let mut css = format!(":root{{{}}}\n", variables(&ON_WHITE));
    let _ =
        writeln!(css, "@media screen and (prefers-color-scheme: dark){{:root{{{}}}}}", variables(&ON_DARK));
    for i in 0..COLOURS {
        let _ = writeln!(css, ".c{i}{{stroke:var(--c{i})}}");
    }
    css.push_str(&dash_css());
    css
}

fn dash_css() -> String {
    let rule = |(i, dash): (usize, &&str)| format!(".d{i}{{stroke-dasharray:{dash}}}\n");
    DASH.iter().enumerate().skip(1).map(rule).collect()
}

/// The plot as part of a page.
#[must_use]
pub fn inline(plot: &Plot) -> String {
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-labelledby=\"{id}-title\">\n\
         <title id=\"{id}-title\">{}</title>\n",
        BOTTOM + 46.0,
        markup(&plot.title),
        id = plot.id,
    );
    body(&mut svg, plot);
    svg.push_str("</svg>\n");
    svg
}

/// Maximum number of legend entries per row of the standalone drawing.
const LEGEND_COLUMNS: usize = 4;
/// Width of an entry before its text, and after it.
const SWATCH: f64 = 38.0;
const GAP: f64 = 16.0;
/// Font size of the legend and of notes.
const SMALL: f64 = 11.5;
/// Largest font size of a page, on the narrowest screen: ticks that would overlap at it are marked `spare`, for the style
/// sheet. The script of the page does the same when it zooms.
const LARGE: f64 = 36.0;
/// Width ratio of bold letters.
const BOLD: f64 = 1.08;
/// Height of such a row.
const LEGEND_ROW: f64 = 17.0;
/// Height of the title block.
const HEAD: f64 = 52.0;

/// The plot as a standalone file.
#[must_use]
pub fn standalone(plot: &Plot) -> String {
    let columns = legend_columns(plot);
    let column = (RIGHT - LEFT) / columns as f64;
    let rows = plot.lines.len().div_ceil(columns) as f64;
    let legend_top = BOTTOM + 62.0;
    let notes: Vec<String> = plot.notes.iter().flat_map(|note| wrap(note, SMALL, WIDTH - LEFT)).collect();
    let height = HEAD + legend_top + rows * LEGEND_ROW + notes.len() as f64 * 15.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 -{HEAD} {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>\n{}</style>\n\
         <rect x=\"0\" y=\"-{HEAD}\" width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"-28\" class=\"title\">{}</text>\n<text x=\"{LEFT}\" y=\"-8\" class=\"small\">{}</text>\n",
        markup(&plot.title),
        markup(&plot.lines.iter().map(|line| line.legend.as_str()).collect::<Vec<_>>().join("; ")),
        file_css(),
        markup(&cut(&plot.title, 17.0 * BOLD, WIDTH - LEFT)),
        markup(&cut(&plot.subtitle, SMALL, WIDTH - LEFT)),
    );
    body(&mut svg, plot);
    for (i, line) in plot.lines.iter().enumerate() {
        let x = LEFT + (i % columns) as f64 * column;
        let text = cut(&line.legend, SMALL, column - SWATCH - GAP);
        legend_entry(&mut svg, line, &text, x, legend_top + (i / columns) as f64 * LEGEND_ROW);
    }
    for (i, note) in notes.iter().enumerate() {
        let y = legend_top + rows * LEGEND_ROW + i as f64 * 15.0;
        let _ =
            writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\" class=\"small\">{}</text>", number(y), markup(note));
    }
    svg.push_str("</svg>\n");
    svg
}

fn file_css() -> String {
    let mut css = String::from(
        "text{font-family:'Liberation Sans',Arial,Helvetica,sans-serif;font-size:13px;fill:#222}\n\
         .title{font-size:17px;font-weight:bold}\n.small{font-size:11.5px;fill:#555}\n\
         .line{fill:none;stroke-width:1.5;stroke-linecap:square}\n.top{stroke-width:7;stroke-linecap:round}\n\
         .grid line{stroke:#e2e2e2}\n.frame{fill:none;stroke:#888}\n\
         .deadline{stroke:#c00000;stroke-width:1.5;stroke-dasharray:5 3}\n.deadline-label{fill:#c00000}\n",
    );
    for (i, colour) in ON_WHITE.iter().enumerate() {
        let _ = writeln!(css, ".c{i}{{stroke:{colour}}}");
    }
    css.push_str(&dash_css());
    css
}

/// The largest number of columns in which all entries fit.
fn legend_columns(plot: &Plot) -> usize {
    let widest = plot.lines.iter().map(|line| width(&line.legend, SMALL)).fold(0.0, f64::max);
    let fit = ((RIGHT - LEFT) / (widest + SWATCH + GAP)).floor() as usize;
    fit.clamp(1, LEGEND_COLUMNS)
}

fn legend_entry(svg: &mut String, line: &Line, text: &str, x: f64, y: f64) {
    let _ = writeln!(
        svg,
        "<path class=\"line c{} d{}\" d=\"M{} {}h30\"/><text x=\"{}\" y=\"{}\" class=\"small\">{}</text>",
        line.colour,
        line.dash,
        number(x),
        number(y - 4.0),
        number(x + SWATCH),
        number(y),
        markup(text),
    );
}

/// Grid, axes, lines and deadline: common to both forms.
fn body(svg: &mut String, plot: &Plot) {
    y_axis(svg, &plot.y, plot.columns);
    x_axis(svg, &plot.x);
    let (width, height) = (RIGHT - LEFT, BOTTOM - TOP);
    let _ = writeln!(
        svg,
        "<clipPath id=\"{id}-clip\"><rect x=\"{LEFT}\" y=\"{}\" width=\"{width}\" height=\"{}\"/></clipPath>\n\
         <g clip-path=\"url(#{id}-clip)\"><g class=\"lines\">",
        TOP - 6.0,
        height + 6.0,
        id = plot.id,
    );
    for line in &plot.lines {
        let _ = writeln!(
            svg,
            "<path class=\"line c{} d{}\" vector-effect=\"non-scaling-stroke\" d=\"{}\"/>",
            line.colour,
            line.dash,
            path(plot, line)
        );
    }
    for line in &plot.lines {
        if let Some((x, y)) = line.max {
            let (x, y) = (number(plot.x.scale.at(x)), number(plot.y.scale.at(y)));
            let _ = writeln!(
                svg,
                "<path class=\"top c{}\" vector-effect=\"non-scaling-stroke\" d=\"M{x} {y}h0\"/>",
                line.colour
            );
        }
    }
    if let Some(deadline) = plot.deadline.as_ref().filter(|d| d.on_x && inside(d, &plot.x)) {
        let x = number(plot.x.scale.at(deadline.at));
        let _ = writeln!(
            svg,
            "<path class=\"deadline\" vector-effect=\"non-scaling-stroke\" d=\"M{x} {TOP}V{BOTTOM}\"/>"
        );
    }
    svg.push_str("</g></g>\n");
    if let Some(deadline) = &plot.deadline {
        deadline_label(svg, plot, deadline);
    }
    let _ = writeln!(
        svg,
        "<rect class=\"frame\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\"/>"
    );
}

fn inside(deadline: &Deadline, axis: &Axis) -> bool {
    (axis.scale.lo..=axis.scale.hi).contains(&deadline.at)
}

/// The text of the deadline; with an arrow if it is beyond the range.
fn deadline_label(svg: &mut String, plot: &Plot, deadline: &Deadline) {
    let axis = if deadline.on_x { &plot.x } else { &plot.y };
    let text = markup(&deadline.text);
    let _ = match (deadline.on_x, inside(deadline, axis)) {
        (true, true) => {
            let x = axis.scale.at(deadline.at);
            let (dx, anchor) = if x > (LEFT + RIGHT) / 2.0 { (-6.0, "end") } else { (6.0, "start") };
            let (x, y) = (number(x + dx), TOP + 14.0);
            writeln!(
                svg,
                "<text class=\"deadline-label\" data-dx=\"{dx}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
            )
        }
        (true, false) => writeln!(
            svg,
            "<text class=\"deadline-label\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{text} →</text>",
            RIGHT - 6.0,
            TOP + 14.0
        ),
        (false, true) => {
            let y = axis.scale.at(deadline.at);
            let below = if y < TOP + 16.0 { 14.0 } else { -5.0 };
            writeln!(
                svg,
                "<path class=\"deadline\" d=\"M{LEFT} {}H{RIGHT}\"/>\n\
                 <text class=\"deadline-label\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{text}</text>",
                number(y),
                RIGHT - 6.0,
                number(y + below)
            )
        }
        (false, false) => writeln!(
            svg,
            "<text class=\"deadline-label\" x=\"{}\" y=\"{}\" text-anchor=\"end\">↑ {text}</text>",
            RIGHT - 6.0,
            TOP + 14.0
        ),
    };
}

fn y_axis(svg: &mut String, axis: &Axis, counts: bool) {
    svg.push_str("<g class=\"grid\">\n");
    for value in axis.scale.ticks() {
        let y = axis.scale.at(value);
        let label = if counts { count_label(value) } else { tick_label(value) };
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>",
            LEFT - 7.0,
            number(y + 4.5),
            y = number(y),
        );
    }
    let middle = number((TOP + BOTTOM) / 2.0);
    let _ = writeln!(
        svg,
        "<text class=\"ylabel\" x=\"16\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {middle})\">{}</text>\n</g>",
        markup(&axis.label)
    );
}

fn x_axis(svg: &mut String, axis: &Axis) {
    svg.push_str("<g class=\"grid xaxis\">\n");
    let mut free = f64::NEG_INFINITY;
    for value in axis.scale.ticks() {
        let (at, label) = (axis.scale.at(value), axis.scale.label(value));
        let half = width(&label, LARGE) / 2.0;
        let spare = at - half < free;
        if !spare {
            free = at + half + LARGE / 2.0;
        }
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{}\"/>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\"{}>{label}</text>",
            BOTTOM + 4.0,
            BOTTOM + 18.0,
            if spare { " class=\"spare\"" } else { "" },
            x = number(at),
        );
    }
    let _ = writeln!(
        svg,
        "</g>\n<text class=\"xlabel\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 38.0,
        markup(&x_label(axis))
    );
}

/// The text of the horizontal axis.
pub(super) fn x_label(axis: &Axis) -> String {
    let log = if axis.scale.kind == Kind::Log { ", logarithmic" } else { "" };
    format!("{}{log}", axis.label)
}

/// Columns start on the axis; levels do not, and a gap in the data is a gap in the line.
fn path(plot: &Plot, line: &Line) -> String {
    let mut path = String::new();
    let mut end: Option<f64> = None;
    for step in &line.steps {
        let x = number(plot.x.scale.at(step.from));
        let y = number(plot.y.scale.at(step.value));
        if end != Some(step.from) {
            if end.is_some() && plot.columns {
                let _ = write!(path, "V{BOTTOM}");
            }
            let _ = if plot.columns { write!(path, "M{x} {BOTTOM}V{y}") } else { write!(path, "M{x} {y}") };
        } else {
            let _ = write!(path, "V{y}");
        }
        let _ = write!(path, "H{}", number(plot.x.scale.at(step.to)));
        end = Some(step.to);
    }
    if end.is_some() && plot.columns {
        let _ = write!(path, "V{BOTTOM}");
    }
    path
}

/// At most three decimals: sufficient for a zoom of 1000, and stable output.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
