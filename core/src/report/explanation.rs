//! Explained intervals as one self-contained HTML page: a timeline of CPUs, threads and the explanation, and the tree.
//!
//! The page loads nothing from the network (its policy forbids it); it is complete without JavaScript, which only adds
//! zooming. Texts of the trace are escaped: a thread name may be `<script>`.

use std::fmt::Write;

use super::html::page_css;
use super::scale::Scale;
use super::tree::{rows, Row};
use crate::explain::answers::{Answer, Answers};
use crate::explain::lanes::{Lane, Lanes, Look, Of};
use crate::explain::Explanation;
use crate::printable::markup;
use crate::time::Ns;

const STYLE: &str = include_str!("../../templates/explain.css");
const SCRIPT: &str =
    concat!(include_str!("../../templates/explain.js"), include_str!("../../templates/tables.js"));
/// Geometry of the timeline, in its own units.
const WIDTH: f64 = 1000.0;
const ROW: f64 = 20.0;
/// Minimum width of a bar.
const NARROWEST: f64 = 0.6;

/// The page of `answers`; `lanes` are those of its explained intervals, in order.
#[must_use]
pub fn page(answers: &Answers, lanes: &[Lanes]) -> String {
    let mut out = String::new();
    let title = markup(&format!("{}: {}", answers.trace.path, answers.question));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{}{STYLE}</style>\n</head>\n<body class=\"print-all\">\n<main>\n<h1>{title}</h1>\n",
        page_css()
    );
    let facts = &answers.trace;
    let _ = writeln!(
        out,
        "<p class=\"subtitle\">{}, {} events, {} lost, clock {}; {} intervals</p>",
        markup(&facts.format),
        facts.events,
        facts.lost,
        markup(&facts.clock),
        answers.intervals.len()
    );
    for limit in &answers.limits {
        let _ = writeln!(out, "<p class=\"limit\">{}</p>", markup(limit));
    }
    let explained = answers.intervals.iter().enumerate().filter(|(_, answer)| answer.tree.is_some());
    for ((place, answer), lanes) in explained.zip(lanes) {
        interval(&mut out, place, answer, lanes);
    }
    listed(&mut out, answers);
    let _ = write!(out, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

fn interval(out: &mut String, place: usize, answer: &Answer, lanes: &Lanes) {
    let Some(explanation) = explanation(answer) else { return };
    let _ = writeln!(
        out,
        "<section class=\"interval\"><h2>interval {}: {}</h2>\n<p class=\"sentence\">{}</p>",
        place + 1,
        answer.total_ns,
        markup(&explanation.sentence)
    );
    if !explanation.advice.is_empty() {
        let _ = writeln!(out, "<p class=\"advice\">→ {}</p>", markup(&explanation.advice));
    }
    timeline(out, place + 1, answer, lanes);
    out.push_str("<div class=\"scroll\"><table class=\"tree\"><thead><tr><th scope=\"col\">Where the time went<th scope=\"col\" class=\"n\">Time<th scope=\"col\" class=\"n\">Share</thead><tbody>\n");
    rows(&explanation).iter().for_each(|row| tree_row(out, row));
    out.push_str("</tbody></table></div>\n");
    for limit in &explanation.limits {
        let _ = writeln!(out, "<p class=\"limit\">{}</p>", markup(limit));
    }
    out.push_str("</section>\n");
}

fn explanation(answer: &Answer) -> Option<Explanation> {
    Some(Explanation {
        sentence: answer.sentence.clone()?,
        advice: answer.remedy.clone().unwrap_or_default(),
        tree: answer.tree.as_deref()?.clone(),
        total_ns: answer.total_ns,
        unexplained_ns: answer.unexplained_ns.unwrap_or_default(),
        cause: answer.cause.clone().unwrap_or_default(),
        limits: answer.limits.clone(),
    })
}

fn tree_row(out: &mut String, row: &Row) {
    let class = if row.unexplained { "unexplained" } else { "" };
    let count = if row.count > 1 { format!(" ×{}", row.count) } else { String::new() };
    let inferred = if row.inferred { " <span class=\"inferred\">inferred</span>" } else { "" };
    let proof = if row.evidence.is_empty() && row.stack.is_empty() {
        String::new()
    } else {
        let lines = row.evidence.iter().chain(&row.stack).map(|line| markup(line)).collect::<Vec<_>>();
        format!(
            "<details class=\"proof\"><summary>evidence</summary><pre>{}</pre></details>",
            lines.join("\n")
        )
    };
    let _ = writeln!(
        out,
        "<tr class=\"{class}\"><th scope=\"row\" style=\"--depth:{}\">{}{count}{inferred}{proof}<td class=\"n\">{}<td class=\"n\">{:.1} %",
        row.depth,
        markup(&row.label),
        row.time,
        row.share
    );
}

fn timeline(out: &mut String, number: usize, answer: &Answer, lanes: &Lanes) {
    let height = ROW * lanes.lanes.len() as f64;
    let span = lanes.end.since(lanes.begin).0.max(1) as f64;
    let x = |at: crate::time::Mono| at.since(lanes.begin).0 as f64 / span * WIDTH;
    out.push_str("<p class=\"keys\">");
    for look in LOOKS {
        let _ =
            write!(out, "<span class=\"l-key\"><i class=\"{}\"></i>{}</span> ", class(look), meaning(look));
    }
    out.push_str("<span class=\"l-key\"><i class=\"asked\"></i>the interval</span></p>\n");
    // Data of the script for the axis: ns shown, and those before the interval.
    let _ = writeln!(
        out,
        "<div class=\"lanes\" data-ns=\"{span}\" data-zero=\"{}\"><div class=\"names\">",
        answer.begin.since(lanes.begin).0
    );
    for lane in &lanes.lanes {
        let name = markup(&name(lane));
        let _ = writeln!(out, "<div title=\"{name}\">{name}</div>");
    }
    let _ = writeln!(
        out,
        "</div><div class=\"area\"><svg class=\"bars\" tabindex=\"0\" role=\"group\" aria-label=\"Timeline of interval {number}. Up and \
         down arrow choose a lane, left and right read its bars, plus and minus zoom, shift and arrows move, 0 shows all.\" \
         viewBox=\"0 0 {WIDTH} {height}\" height=\"{height}\" preserveAspectRatio=\"none\">"
    );
    let (from, to) = (x(answer.begin), x(answer.end));
    let _ = writeln!(
        out,
        "<rect class=\"asked\" x=\"{from:.3}\" y=\"0\" width=\"{:.3}\" height=\"{height}\"/>",
        (to - from).max(NARROWEST)
    );
    for (row, lane) in lanes.lanes.iter().enumerate() {
        for bar in &lane.bars {
            let (left, right) = (x(bar.begin).clamp(0.0, WIDTH), x(bar.end).clamp(0.0, WIDTH));
            let _ = writeln!(
                out,
                "<rect class=\"bar {}\" data-lane=\"{row}\" x=\"{left:.3}\" y=\"{}\" width=\"{:.3}\" height=\"{}\"><title>{}: {}, from {}</title></rect>",
                class(bar.look),
                ROW * row as f64 + 2.0,
                (right - left).max(NARROWEST),
                ROW - 4.0,
                markup(&bar.label),
                bar.end.since(bar.begin),
                bar.begin
            );
        }
    }
    out.push_str("</svg><div class=\"ticks\">");
    ticks(out, span, answer.begin.since(lanes.begin).0 as f64);
    out.push_str("</div></div></div>\n<p class=\"reading\" aria-live=\"polite\"></p>\n");
    let _ = writeln!(
        out,
        "<p class=\"note\">{} shown, from {}; the axis counts from the start of the interval. <span class=\"hint\">Wheel, + and −: zoom; \
         drag: move; arrows: read; double click, 0: all.</span></p>",
        Ns(lanes.end.since(lanes.begin).0),
        lanes.begin
    );
}

/// The axis of the whole timeline without scripts: 0 is the start of the interval.
fn ticks(out: &mut String, span_ns: f64, zero_ns: f64) {
    let (unit, per) = match span_ns {
        ..2e3 => ("ns", 1.0),
        ..2e6 => ("µs", 1e3),
        ..2e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let scale = Scale {
        kind: crate::report::scale::Kind::Linear,
        lo: -zero_ns / per,
        hi: (span_ns - zero_ns) / per,
        from: 0.0,
        to: 100.0,
    };
    for tick in scale.ticks() {
        let at = scale.at(tick);
        // A label close to the right edge would not fit.
        if at <= 95.0 {
            let _ = write!(out, "<span style=\"left:{at:.2}%\">{tick:.0} {unit}</span>");
        }
    }
}

fn name(lane: &Lane) -> String {
    match &lane.of {
        Of::Cpu(cpu) => format!("CPU {cpu}"),
        Of::Interrupts(cpu) => format!("CPU {cpu} interrupts"),
        Of::Thread(thread) => thread.to_string(),
        Of::Path(level) => format!("explanation, level {level}"),
    }
}

/// In the order of the legend.
const LOOKS: [Look; 7] =
    [Look::Running, Look::Ready, Look::Blocked, Look::Interrupt, Look::Idle, Look::Part, Look::Unknown];

/// The colours are those of the report's timelines.
fn class(look: Look) -> &'static str {
    match look {
        Look::Running => "l-running",
        Look::Ready => "l-ready",
        Look::Blocked => "l-blocked",
        Look::Interrupt => "l-interrupt",
        Look::Idle => "l-idle",
        Look::Part => "l-part",
        Look::Unknown => "l-unexplained",
    }
}

fn meaning(look: Look) -> &'static str {
    match look {
        Look::Running => "runs",
        Look::Ready => "waits for a CPU",
        Look::Blocked => "blocked",
        Look::Interrupt => "interrupt",
        Look::Idle => "CPU idle",
        Look::Part => "part of the explanation",
        Look::Unknown => "not known",
    }
}

fn listed(out: &mut String, answers: &Answers) {
    const MOST: usize = 1000;
    out.push_str("<h2>all intervals</h2>\n<div class=\"scroll\"><table><thead><tr><th class=\"n\">#<th class=\"n\">length<th>thread<th>key<th class=\"n\">CPU<th class=\"n\">from</thead><tbody>\n");
    for (place, answer) in answers.intervals.iter().take(MOST).enumerate() {
        let _ = writeln!(
            out,
            "<tr><td class=\"n\">{}<td class=\"n\">{}<td>{}<td>{}<td class=\"n\">{}<td class=\"n\">{}",
            place + 1,
            answer.total_ns,
            markup(&answer.thread.to_string()),
            markup(answer.key.as_deref().unwrap_or("")),
            answer.cpu,
            answer.begin
        );
    }
    out.push_str("</tbody></table></div>\n");
    if answers.intervals.len() > MOST {
        let _ = writeln!(
            out,
            "<p class=\"note\">and {} more (--json lists all)</p>",
            answers.intervals.len() - MOST
        );
    }
}
