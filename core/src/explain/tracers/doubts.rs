//! Whether all lines of a tracer's text were read: a line that was not may have the worst latency.

use std::collections::HashMap;

use super::{net_noise, noise, timerlat, Heading, Report};
use crate::hwlat::tracer_line::Sample;
use crate::numbers::counted;
use crate::printable;
use crate::trace::ftrace_text::cut::{self, Cut};
use crate::trace::ftrace_text::line::{parse, EventLine, Line};
use crate::trace::ftrace_text::tidy::{has_latency_time, is_prose};

/// Characters of a line that are shown.
const SHOWN: usize = 60;

/// The tracers whose figure is the largest of their lines, not that of the heading.
const OF_LINES: [&str; 5] = ["function", "function_graph", "hwlat", "osnoise", "timerlat"];

/// Adds the doubts about `text` to its report.
pub(super) fn add(report: &mut Report, text: &str, heading: &Heading) {
    let mut seen = Seen { tracer: &heading.tracer, ..Seen::default() };
    text.lines().filter(|line| !line.trim().is_empty()).for_each(|line| seen.line(line));
    let announced = heading.entries.map_or(0, |(printed, _)| printed);
    let is_graph = heading.tracer == "function_graph";
    // Their limit says so.
    report.is_doubtful |= report.lines < announced && !is_graph;
    report.is_doubtful |= seen.is_omitted && OF_LINES.contains(&heading.tracer.as_str());
    let mut doubts = Vec::new();
    if let Some(first) = seen.unread {
        let lines = match seen.count {
            1 => "a line is".to_owned(),
            count => format!("{} are", counted(count, "line")),
        };
        doubts.push(format!("{lines} not understood, and may be of a longer latency: '{first}'"));
    }
    if seen.goes_back {
        let why = "time goes back between lines of one CPU: the lines were sorted, or are of two recordings";
        doubts.push(why.to_owned());
    }
    if let Some((before, after)) = seen.hole {
        doubts.push(format!("the samples between #{before} and #{after} are not in the text"));
    }
    if cut::starts_within(text) || cut::ends_within(text) {
        doubts.push("the text starts or ends within a line: others are missing".to_owned());
    }
    doubts.extend(seen.cut.found());
    report.is_doubtful |= !doubts.is_empty();
    report.limits.extend(doubts);
}

/// Whether it has functions in the latency format, or that of the option verbose, and no heading: the tracer is unknown.
pub(super) fn is_headless(text: &str) -> bool {
    let mut functions = 0;
    for line in text.lines() {
        let Some(Line::Event(event)) = parse(line) else { continue };
        match event.name {
            "function" if has_latency_time(line) || line.contains("ms): ") => functions += 1,
            "text" | "timerlat" => {}
            // A switch of the wakeup tracers starts with a thread.
            name if name.starts_with(|c: char| c.is_ascii_digit()) => {}
            _ => return false,
        }
    }
    functions > 1
}

/// Facts about the lines.
#[derive(Default)]
struct Seen<'h> {
    tracer: &'h str,
    /// Lines not understood: their number, and the first.
    count: u64,
    unread: Option<String>,
    is_omitted: bool,
    goes_back: bool,
    /// Functions of the display-graph option have another clock than the stacks among them.
    is_graph: bool,
    last: HashMap<u32, u64>,
    /// The last sample: of a CPU for timerlat, of all for hwlat.
    sample: HashMap<u32, u64>,
    /// Numbers of samples between which others are missing.
    hole: Option<(u64, u64)>,
    /// Time of the last line of a graph.
    graph_at: Option<f64>,
    /// A line was read.
    has_begun: bool,
    cut: Cut,
}

impl Seen<'_> {
    fn line(&mut self, line: &str) {
        self.cut.line(line);
        match parse(line) {
            Some(Line::Event(event)) => {
                let is_stack = event.fields.contains("<stack trace>");
                let last = self.last.entry(event.cpu).or_insert(event.at);
                self.goes_back |= event.at < *last && !is_stack && !self.is_graph;
                *last = event.at;
                self.sample(&event);
                if !is_whole(self.tracer, line, &event) {
                    self.unread(line);
                }
            }
            Some(Line::Omission) => self.is_omitted = true,
            Some(Line::Timeless) => self.unread(line),
            Some(_) => {}
            None => {
                let is_graph = is_of_graph(line);
                self.is_graph |= is_graph;
                if is_graph {
                    self.of_graph(line);
                } else if !is_of_heading(line) && (!is_prose(line) || !self.has_begun) {
                    self.unread(line);
                }
            }
        }
        // Cut, the heading lacks the number of lines.
        let is_open = |start: &str| line.contains(start) && line.contains('(') && !line.contains(')');
        if line.starts_with('#') && (is_open(" latency: ") || is_open("| task: ")) {
            self.unread(line);
        }
        self.has_begun = true;
    }

    /// A line of function_graph, or of the display-graph option.
    fn of_graph(&mut self, line: &str) {
        if line.contains("/*") && !line.contains("*/") {
            self.unread(line);
        }
        let time = line.split_once('|').map_or("", |(time, _)| time.trim());
        let number = time.strip_suffix(" us").unwrap_or(time);
        let is_time = number.len() < time.len() || number.contains('.');
        if let Some(at) = number.parse::<f64>().ok().filter(|_| is_time && line.matches('|').count() > 1) {
            self.goes_back |= self.graph_at.is_some_and(|before| at < before);
            self.graph_at = Some(at);
        }
    }

    /// `#402268 context …` of timerlat, `#7 inner/outer(us): …` of hwlat.
    fn sample(&mut self, event: &EventLine<'_>) {
        let key = match self.tracer {
            "timerlat" => event.cpu,
            "hwlat" => 0,
            _ => return,
        };
        let number = event.fields.strip_prefix('#').and_then(|rest| rest.split_whitespace().next());
        let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) else { return };
        if let Some(before) = self.sample.insert(key, number).filter(|before| number > before + 1) {
            self.hole.get_or_insert((before, number));
        }
    }

    fn unread(&mut self, line: &str) {
        self.count += 1;
        self.unread.get_or_insert_with(|| {
            let shown: String = line.trim().chars().take(SHOWN).collect();
            printable::line(&shown).into_owned()
        });
    }
}

/// Whether a line of the tracer has its figures.
fn is_whole(tracer: &str, line: &str, event: &EventLine<'_>) -> bool {
    let is_noise = event.name.ends_with("_noise") || event.name == "sample_threshold";
    match tracer {
        "hwlat" if event.fields.starts_with('#') => Sample::parse(line).is_some(),
        "timerlat" if event.fields.starts_with('#') => timerlat::is_sample(event.fields),
        "osnoise" if event.name == "text" && event.fields.starts_with(|c: char| c.is_ascii_digit()) => {
            noise::is_period(event.fields)
        }
        "timerlat" | "osnoise" if is_noise => event
            .fields
            .rsplit_once("start ")
            .is_some_and(|(_, rest)| net_noise::start_and_duration(rest).is_some()),
        _ => true,
    }
}

/// Lines of the heading without `#`, of kernels before 2.6.29, rules between parts, and fences.
fn is_of_heading(line: &str) -> bool {
    let line = line.trim();
    let is_rule = line
        .bytes()
        .all(|byte| matches!(byte, b'-' | b'=' | b' ' | b'|' | b'/' | b'\\' | b'_' | b'+' | b'`'));
    let starts = ["| task:", "=>", "latency:", "_---", "|", "/", "(", "\\"];
    is_rule || line.contains(" latency trace v1") || starts.iter().any(|start| line.starts_with(start))
}

/// `  0)   0.516 us    |  _raw_spin_lock();`, ` 3750 us | 0) bash-1507 | …`, ` 0)  rcuc/0-19  =>  sh-1091`.
fn is_of_graph(line: &str) -> bool {
    line.contains('|') || line.contains("=>") && line.contains(") ")
}
