//! One case as a timeline: the late thread, each other thread involved, interrupts, and unexplained time.
//!
//! Drawn from the tree of the explanation, so that a run file is sufficient. A part with several pieces is drawn piece
//! by piece if the file has them, else hatched from the start of the first.

use std::fmt::Write;

use crate::explain::{Explanation, Kind, Segment};
use crate::printable::{line, markup};
use crate::series::Thread;
use crate::time::{Mono, Ns};

/// Geometry, in units of the drawing.
const WIDTH: f64 = 1000.0;
const NAMES: f64 = 190.0;
const ROW: f64 = 24.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 22.0;
/// Minimum width of a bar.
const NARROWEST: f64 = 1.5;
/// Width of a letter.
const LETTER: f64 = 6.6;
/// Maximum number of threads in addition to the late one.
const MOST_THREADS: usize = 8;
/// Divisions of the axis.
const TICKS: u64 = 5;

/// Appearance of a bar; also its name in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    Running,
    Ready,
    Blocked,
    Holds,
    Interrupt,
    Unexplained,
}

impl Look {
    const ALL: [Look; 6] =
        [Look::Running, Look::Ready, Look::Blocked, Look::Holds, Look::Interrupt, Look::Unexplained];

    fn class(self) -> &'static str {
        match self {
            Look::Running => "l-running",
            Look::Ready => "l-ready",
            Look::Blocked => "l-blocked",
            Look::Holds => "l-holds",
            Look::Interrupt => "l-interrupt",
            Look::Unexplained => "l-unexplained",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Look::Running => "runs",
            Look::Ready => "waits for a CPU",
            Look::Blocked => "blocked",
            Look::Holds => "holds the resource waited for",
            Look::Interrupt => "interrupt",
            Look::Unexplained => "unexplained",
        }
    }

    fn of(kind: Kind) -> Look {
        match kind {
            Kind::Running | Kind::ReturnToUser | Kind::PageFault | Kind::Thread | Kind::IrqsOff => {
                Look::Running
            }
            Kind::Blocked => Look::Blocked,
            Kind::HardIrq | Kind::Vector | Kind::Softirq | Kind::Nmi | Kind::TimerInterrupt => {
                Look::Interrupt
            }
            Kind::Lost => Look::Unexplained,
            _ => Look::Ready,
        }
    }
}

struct Bar {
    begin: Mono,
    end: Mono,
    look: Look,
    label: String,
    net: Ns,
    /// Pieces were added up, and their places are not known.
    summed: bool,
}

struct Lane {
    name: String,
    bars: Vec<Bar>,
}

/// The drawing; empty if there is only one part. `number`: that of the case, for its links.
#[must_use]
pub(super) fn svg(explanation: &Explanation, victim: &Thread, number: usize) -> String {
    let lanes = lanes(explanation, victim);
    if lanes.iter().map(|lane| lane.bars.len()).sum::<usize>() < 2 {
        return String::new();
    }
    let height = TOP + ROW * lanes.len() as f64 + AXIS;
    let (begin, total) = (explanation.tree.begin, explanation.total_ns.0.max(1) as f64);
    let x = |at: Mono| NAMES + (at.since(begin).0 as f64 / total).clamp(0.0, 1.0) * (WIDTH - NAMES);
    let mut out = format!(
        "<figure class=\"timeline\"><div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"group\" aria-label=\"Timeline \
         of case {number}\">\n"
    );
    for tick in 0..=TICKS {
        let at = Ns(explanation.total_ns.0 / TICKS * tick);
        let place = x(begin + at);
        let anchor = if tick == TICKS { "end" } else { "middle" };
        let bottom = TOP + ROW * lanes.len() as f64;
        let _ = writeln!(
            out,
            "<line class=\"l-grid\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"l-tick\" x=\"{place:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{at}</text>",
            bottom + 15.0
        );
    }
    for (row, lane) in lanes.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let name = cut(&lane.name, NAMES - 8.0);
        let _ = writeln!(
            out,
            "<text class=\"l-name\" x=\"0\" y=\"{}\">{}<title>{}</title></text>",
            y + 16.0,
            markup(&name),
            markup(&lane.name)
        );
        lane.bars.iter().for_each(|bar| draw(&mut out, bar, [x(bar.begin), x(bar.end)], y, begin));
    }
    out.push_str("</svg></div>\n<figcaption class=\"note\">");
    let used = Look::ALL
        .into_iter()
        .filter(|look| lanes.iter().flat_map(|lane| &lane.bars).any(|bar| bar.look == *look));
    for look in used {
        let _ =
            write!(out, "<span class=\"l-key\"><i class=\"{}\"></i>{}</span> ", look.class(), look.name());
    }
    out.push_str("Time from the release. The tab key goes from bar to bar.</figcaption></figure>");
    out
}

fn draw(out: &mut String, bar: &Bar, [left, right]: [f64; 2], y: f64, begin: Mono) {
    let width = (right - left).max(NARROWEST);
    let summed = if bar.summed { " l-summed" } else { "" };
    let told = format!("{}: {}, from +{}", line(&bar.label), bar.net, bar.begin.since(begin));
    let told = markup(&if bar.summed { format!("{told}, several pieces together") } else { told });
    let _ = write!(
        out,
        "<g tabindex=\"0\" role=\"img\" aria-label=\"{told}\"><title>{told}</title><rect class=\"l-bar {}{summed}\" x=\"{left:.1}\" \
         y=\"{}\" width=\"{width:.1}\" height=\"{}\"/>",
        bar.look.class(),
        y + 3.0,
        ROW - 6.0
    );
    let name = cut(&bar.label, width - 8.0);
    if name.chars().count() > 3 {
        let _ = write!(
            out,
            "<text class=\"l-label\" x=\"{:.1}\" y=\"{}\">{}</text>",
            left + 4.0,
            y + 16.0,
            markup(&name)
        );
    }
    out.push_str("</g>\n");
}

/// `text`, truncated to `room`.
fn cut(text: &str, room: f64) -> String {
    let text = line(text);
    let fits = (room.max(0.0) / LETTER) as usize;
    match text.chars().count() <= fits {
        true => text.into_owned(),
        false => text.chars().take(fits.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn lanes(explanation: &Explanation, victim: &Thread) -> Vec<Lane> {
    let root = &explanation.tree;
    let mut own = Lane { name: victim.to_string(), bars: Vec::new() };
    for part in &root.children {
        own.bars.extend(bars(part, Look::of(part.kind)));
    }
    let (mut threads, mut interrupts): (Vec<Lane>, Vec<Bar>) = (Vec::new(), Vec::new());
    root.children.iter().for_each(|part| others(part, victim, &mut threads, &mut interrupts));
    let total = |lane: &Lane| lane.bars.iter().map(|bar| bar.net).sum::<Ns>();
    threads.sort_by_key(|lane| std::cmp::Reverse(total(lane)));
    threads.truncate(MOST_THREADS);
    let mut unexplained = Vec::new();
    gaps(root, &mut unexplained);
    let rest = [("interrupts", interrupts), ("unexplained", unexplained)];
    let rest = rest.map(|(name, bars)| Lane { name: name.to_owned(), bars });
    let mut all = vec![own];
    all.extend(threads.into_iter().chain(rest));
    all.retain(|lane| !lane.bars.is_empty());
    all
}

/// Collects the lanes of other threads and of interrupts.
fn others(node: &Segment, victim: &Thread, threads: &mut Vec<Lane>, interrupts: &mut Vec<Bar>) {
    if Look::of(node.kind) == Look::Interrupt {
        interrupts.extend(bars(node, Look::Interrupt));
    }
    if let Some(thread) = node.thread.as_ref().filter(|thread| thread.tid != victim.tid) {
        // It held the object that the victim waited for; its activity is not recorded.
        let look = if node.kind == Kind::Blocked && node.children.is_empty() {
            Look::Holds
        } else {
            Look::of(node.kind)
        };
        let name = thread.to_string();
        let mine = if node.children.is_empty() { bars(node, look) } else { Vec::new() };
        match threads.iter_mut().find(|lane| lane.name == name) {
            Some(lane) => lane.bars.extend(mine),
            None if !mine.is_empty() => threads.push(Lane { name, bars: mine }),
            None => {}
        }
    }
    node.children.iter().for_each(|child| others(child, victim, threads, interrupts));
}

fn bars(node: &Segment, look: Look) -> Vec<Bar> {
    let bar = |(begin, end), net, summed| Bar { begin, end, look, label: node.label.clone(), net, summed };
    match node.pieces.as_slice() {
        [] => vec![bar((node.begin, node.begin + node.duration_ns), node.duration_ns, node.count > 1)],
        pieces => pieces.iter().map(|&(begin, end)| bar((begin, end), end.since(begin), false)).collect(),
    }
}

fn gaps(node: &Segment, all: &mut Vec<Bar>) {
    all.extend(node.gaps.iter().map(|gap| Bar {
        begin: gap.begin,
        end: gap.begin + gap.duration_ns,
        look: Look::Unexplained,
        label: gap.label.clone(),
        net: gap.duration_ns,
        summed: false,
    }));
    node.children.iter().for_each(|child| gaps(child, all));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Prio, Tid};

    fn thread(tid: i32, comm: &str) -> Thread {
        Thread { tid: Tid(tid), comm: comm.to_owned(), prio: Some(Prio(120)) }
    }

    /// 1 ms: 100 µs of its own, 700 blocked by the logger that is interrupted for 50 of them, 200 unexplained.
    fn blocked() -> Explanation {
        let at = |us: u64| Mono(5_000 + Ns::from_us(us).0);
        let own = Segment::leaf(Kind::Running, "runs", at(0), Ns::from_us(100));
        let mut logger = Segment::leaf(Kind::Thread, "logger/8 ran", at(100), Ns::from_us(650));
        logger.thread = Some(thread(8, "logger"));
        logger.pieces = vec![(at(100), at(300)), (at(350), at(800))];
        let irq = Segment::leaf(Kind::HardIrq, "hard IRQ 25 <virtio0>", at(300), Ns::from_us(50));
        let wait =
            Segment::group(Kind::Blocked, "blocked in futex", at(100), Ns::from_us(700), vec![logger, irq]);
        let tree = Segment::group(Kind::Passage, "job", at(0), Ns::from_us(1_000), vec![own, wait]);
        Explanation {
            sentence: String::new(),
            advice: String::new(),
            total_ns: tree.duration_ns,
            unexplained_ns: tree.total_unexplained(),
            tree,
            cause: String::new(),
            limits: Vec::new(),
        }
    }

    #[test]
    fn each_who_had_a_part_has_a_lane_and_names_are_text() {
        let told = blocked();
        let lanes = lanes(&told, &thread(7, "control"));
        let names: Vec<(&str, usize)> =
            lanes.iter().map(|lane| (lane.name.as_str(), lane.bars.len())).collect();
        let expected =
            [("control/7 (nice 0)", 2), ("logger/8 (nice 0)", 2), ("interrupts", 1), ("unexplained", 1)];
        assert_eq!(names, expected);
        let drawn = svg(&told, &thread(7, "<b>"), 3);
        assert!(
            !drawn.contains("<b>") && !drawn.contains("<virtio0>") && drawn.contains("1.000 ms"),
            "{drawn}"
        );
        assert!(drawn.contains("blocked in futex: 700 µs, from +100 µs"), "{drawn}");
    }

    #[test]
    fn a_case_of_one_part_has_no_timeline() {
        let one = Segment::leaf(Kind::Running, "runs", Mono(0), Ns(9));
        let told = Explanation {
            tree: Segment { children: vec![one], ..blocked().tree },
            total_ns: Ns(9),
            ..blocked()
        };
        let told = Explanation { tree: Segment { gaps: Vec::new(), ..told.tree }, ..told };
        assert_eq!(svg(&told, &thread(7, "control"), 1), "");
    }
}
