//! Explained passages as one self-contained page: a timeline of CPUs, the threads involved and the explanation, and the
//! tree beside it.
//!
//! The page loads nothing and asks nobody (its policy forbids it); without JavaScript all is shown, with it the
//! timeline can be zoomed. Texts of the trace are escaped: a thread may call itself `<script>`.

use std::fmt::Write;

use super::answers::{Answer, Answers};
use super::lanes::{Lane, Lanes, Look, Of};
use super::segment::Explanation;
use crate::printable::markup;
use crate::report::tree::{rows, Row};
use crate::time::Ns;

const STYLE: &str = include_str!("../../templates/explain.css");
const SCRIPT: &str = include_str!("../../templates/explain.js");
/// Geometry of the timeline, in its own units.
const WIDTH: f64 = 1000.0;
const NAMES: f64 = 170.0;
const ROW: f64 = 20.0;
/// Bars narrower than this are drawn this wide.
const NARROWEST: f64 = 0.6;

/// The page of `answers`; `lanes` belong to its explained passages, in their order.
#[must_use]
pub fn page(answers: &Answers, lanes: &[Lanes]) -> String {
    let mut out = String::new();
    let title = markup(&format!("{}: {}", answers.trace.path, answers.question));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    let facts = &answers.trace;
    let _ = writeln!(
        out,
        "<p class=\"facts\">{}, {} events, {} lost, clock {}; {} passages</p>",
        markup(&facts.format),
        facts.events,
        facts.lost,
        markup(&facts.clock),
        answers.passages.len()
    );
    for limit in &answers.limits {
        let _ = writeln!(out, "<p class=\"limit\">{}</p>", markup(limit));
    }
    let explained = answers.passages.iter().enumerate().filter(|(_, answer)| answer.tree.is_some());
    for ((place, answer), lanes) in explained.zip(lanes) {
        passage(&mut out, place, answer, lanes);
    }
    listed(&mut out, answers);
    let _ = write!(out, "<script>{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

fn passage(out: &mut String, place: usize, answer: &Answer, lanes: &Lanes) {
    let Some(explanation) = explanation(answer) else { return };
    let _ = writeln!(
        out,
        "<section class=\"passage\"><h2>passage {}: {}</h2>\n<p class=\"sentence\">{}</p>",
        place + 1,
        answer.total_ns,
        markup(&explanation.sentence)
    );
    if !explanation.advice.is_empty() {
        let _ = writeln!(out, "<p class=\"remedy\">→ {}</p>", markup(&explanation.advice));
    }
    timeline(out, answer, lanes);
    let _ = writeln!(out, "<table class=\"tree\"><thead><tr><th>what<th>time<th>%</thead><tbody>");
    rows(&explanation).iter().for_each(|row| tree_row(out, row));
    out.push_str("</tbody></table>\n");
    for limit in &explanation.limits {
        let _ = writeln!(out, "<p class=\"limit\">{}</p>", markup(limit));
    }
    out.push_str("</section>\n");
}

fn explanation(answer: &Answer) -> Option<Explanation> {
    Some(Explanation {
        sentence: answer.sentence.clone()?,
        advice: answer.remedy.clone().unwrap_or_default(),
        tree: answer.tree.clone()?,
        total_ns: answer.total_ns,
        unexplained_ns: answer.unexplained_ns.unwrap_or_default(),
        cause: answer.cause.clone().unwrap_or_default(),
        limits: answer.limits.clone(),
    })
}

fn tree_row(out: &mut String, row: &Row) {
    let class = if row.unexplained { "unexplained" } else { "" };
    let count = if row.count > 1 { format!(" ×{}", row.count) } else { String::new() };
    let inferred = if row.inferred { " (inferred)" } else { "" };
    let proof = if row.evidence.is_empty() && row.stack.is_empty() {
        String::new()
    } else {
        let lines = row.evidence.iter().chain(&row.stack).map(|line| markup(line)).collect::<Vec<_>>();
        format!("<details><summary>evidence</summary><pre>{}</pre></details>", lines.join("\n"))
    };
    let _ = writeln!(
        out,
        "<tr class=\"{class}\"><td style=\"padding-left:{:.1}em\">{}{count}{inferred}{proof}<td>{}<td>{:.1}",
        0.5 + 1.2 * row.depth as f64,
        markup(&row.label),
        row.time,
        row.share
    );
}

fn timeline(out: &mut String, answer: &Answer, lanes: &Lanes) {
    let height = ROW * lanes.lanes.len() as f64 + ROW;
    let span = lanes.end.since(lanes.begin).0.max(1) as f64;
    let x = |at: crate::time::Mono| at.since(lanes.begin).0 as f64 / span * WIDTH;
    let _ = writeln!(
        out,
        "<div class=\"timeline\"><svg class=\"names\" viewBox=\"0 0 {NAMES} {height}\" width=\"{NAMES}\" height=\"{height}\">"
    );
    for (row, lane) in lanes.lanes.iter().enumerate() {
        let (name, y) = (markup(&name(lane)), ROW * row as f64 + 14.0);
        let _ = writeln!(out, "<text x=\"2\" y=\"{y}\">{name}<title>{name}</title></text>");
    }
    let _ = writeln!(
        out,
        "</svg><svg class=\"bars\" viewBox=\"0 0 {WIDTH} {height}\" height=\"{height}\" preserveAspectRatio=\"none\">"
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
                "<rect class=\"bar {}\" x=\"{left:.3}\" y=\"{}\" width=\"{:.3}\" height=\"{}\"><title>{}: {}, from {}</title></rect>",
                look(bar.look),
                ROW * row as f64 + 2.0,
                (right - left).max(NARROWEST),
                ROW - 4.0,
                markup(&bar.label),
                bar.end.since(bar.begin),
                bar.begin
            );
        }
    }
    out.push_str("</svg></div>\n<p class=\"axis\"></p>\n");
    let _ = writeln!(
        out,
        "<p class=\"facts\">{} shown, from {}; the passage is shaded. Wheel: zoom; drag: move; double click: all.</p>",
        Ns(lanes.end.since(lanes.begin).0),
        lanes.begin
    );
}

fn name(lane: &Lane) -> String {
    match &lane.of {
        Of::Cpu(cpu) => format!("CPU {cpu}"),
        Of::Interrupts(cpu) => format!("CPU {cpu} interrupts"),
        Of::Thread(thread) => thread.to_string(),
        Of::Path(level) => format!("explanation, level {level}"),
    }
}

fn look(look: Look) -> &'static str {
    match look {
        Look::Running => "running",
        Look::Ready => "ready",
        Look::Blocked => "blocked",
        Look::Interrupt => "interrupt",
        Look::Idle => "idle",
        Look::Part => "part",
        Look::Unknown => "unknown",
    }
}

fn listed(out: &mut String, answers: &Answers) {
    const MOST: usize = 1000;
    out.push_str("<h2>all passages</h2>\n<table><thead><tr><th>#<th>length<th>thread<th>key<th>CPU<th>from</thead><tbody>\n");
    for (place, answer) in answers.passages.iter().take(MOST).enumerate() {
        let _ = writeln!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}",
            place + 1,
            answer.total_ns,
            markup(&answer.thread.to_string()),
            markup(answer.key.as_deref().unwrap_or("")),
            answer.cpu,
            answer.begin
        );
    }
    out.push_str("</tbody></table>\n");
    if answers.passages.len() > MOST {
        let _ = writeln!(
            out,
            "<p class=\"facts\">and {} more (--json lists all)</p>",
            answers.passages.len() - MOST
        );
    }
}
