//! The heading of a tracer's text: which tracer, its latency, the victim, the CPU.

use crate::printable;
use crate::series::Thread;
use crate::time::{Cpu, Ns, Prio, Tid};
use crate::trace::ftrace_text::line::{parse, Line};
use crate::trace::ftrace_text::tidy::has_latency_time;

/// Number of lines searched for the heading.
const LOOKED_AT: usize = 4_000;

/// The tracer of a heading that lacks its first lines and has both ends of a section.
pub(super) const SECTIONS: &str = "irqsoff, preemptoff or preemptirqsoff";

/// Contents of the heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heading {
    /// `wakeup_rt`.
    pub tracer: String,
    /// `6.1.0-rt`; empty if not printed.
    pub release: String,
    /// The latency of the trace.
    pub latency: Option<Ns>,
    /// CPU of the measurement.
    pub cpu: Option<Cpu>,
    /// `preempt_rt`, `desktop`; empty if not printed.
    pub model: String,
    /// The named thread: the woken one, or the one that disabled interrupts or preemption.
    pub task: Option<Thread>,
    /// Start of a critical section.
    pub started: Option<String>,
    /// Its end.
    pub ended: Option<String>,
    /// Entries printed, and entries recorded.
    pub entries: Option<(u64, u64)>,
}

impl Heading {
    /// The heading of `text`, if it has one.
    #[must_use]
    pub fn read(text: &str) -> Option<Heading> {
        let mut heading = Heading::default();
        for line in text.lines().take(LOOKED_AT) {
            let trimmed = line.trim();
            match trimmed.strip_prefix('#') {
                Some(said) => heading.line(said.trim()),
                // Kernels before 2.6.29 print it without a '#' (kernel/trace/trace.c, print_trace_header).
                None if is_of_old_kernel(trimmed) => heading.line(trimmed),
                None => {}
            }
        }
        if heading.tracer.is_empty() && heading.started.is_some() && heading.ended.is_some() {
            SECTIONS.clone_into(&mut heading.tracer);
        }
        (!heading.tracer.is_empty()).then_some(heading)
    }

    fn line(&mut self, said: &str) {
        // Copies of web pages have the line on one line with the rule above it.
        let said = said.trim_start_matches(['-', '#', ' ']);
        if let Some(tracer) = said.strip_prefix("tracer:").filter(|_| self.tracer.is_empty()) {
            self.tracer = named(tracer);
        } else if let Some((tracer, rest)) = said.split_once(" latency trace v") {
            let release = rest.split_once(" on ").map_or("", |(_, release)| release);
            let release = release.split_whitespace().next().unwrap_or("");
            self.release = printable::line(release).into_owned();
            if self.tracer.is_empty() {
                self.tracer = named(tracer);
            }
        } else if let Some(rest) = said.strip_prefix("latency:") {
            self.latency(rest);
        } else if let Some(rest) = said.strip_prefix("| task:") {
            self.task = task(rest.trim());
        } else if let Some(place) = said.strip_prefix("=> started at:") {
            self.started = place_of(place);
        } else if let Some(place) = said.strip_prefix("=> ended at:") {
            self.ended = place_of(place);
        } else if let Some(rest) = said.strip_prefix("entries-in-buffer/entries-written:") {
            self.entries = pair(rest.split_whitespace().next().unwrap_or(""));
        }
    }

    /// ` 1689 us, #6/6, CPU#0 | (M:preempt_rt VP:0, KP:0, SP:0 HP:0 #P:4)`
    fn latency(&mut self, rest: &str) {
        let mut words = rest.split_whitespace();
        let number = words.next().and_then(|word| word.parse::<u64>().ok());
        self.latency = number.map(Ns::from_us);
        for word in rest.split([' ', ',', '|', '(', ')']) {
            if let Some(cpu) = word.strip_prefix("CPU#") {
                self.cpu = cpu.parse().ok().map(Cpu);
            } else if let Some(model) = word.strip_prefix("M:") {
                self.model = printable::line(model).into_owned();
            } else if let Some(entries) = word.strip_prefix('#').filter(|word| word.contains('/')) {
                self.entries = pair(entries);
            }
        }
    }

    /// ` on Linux 6.1.0`.
    pub(super) fn on(&self) -> String {
        match self.release.as_str() {
            "" => String::new(),
            release => format!(", Linux {release}"),
        }
    }

    /// `12.189 ms`, or `at least 12.129 ms` if the tracer's figure is not in the text.
    pub(super) fn amount(&self, total: Ns) -> String {
        match self.latency {
            Some(_) => total.to_string(),
            None => format!("at least {total}"),
        }
    }

    /// Text on missing lines, if the heading has the number of lines.
    pub(super) fn missing(&self, lines: u64) -> Option<String> {
        let (printed, written) = self.entries?;
        if lines < printed {
            return Some(format!(
                "the heading announces {printed} entries, the text has {lines}: it was cut or filtered"
            ));
        }
        let lost = written.checked_sub(printed).filter(|lost| *lost > 0)?;
        Some(format!("{lost} earlier entries were overwritten: enlarge the buffer (buffer_size_kb)"))
    }
}

/// The reports in `text` if there may be several: each from its heading to the next one. A heading may lack its first
/// line.
pub(super) fn each(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = Vec::new();
    let count = |begin: &str| text.matches(begin).take(2).count();
    if count("tracer:") < 2 && count(" latency trace v1") < 2 {
        return Vec::new();
    }
    let (mut at, mut has_release) = (0, false);
    for line in text.split_inclusive('\n') {
        let said = line.trim_start().strip_prefix('#').map(str::trim_start);
        let is_release = line.contains(" latency trace v1");
        if said.is_some_and(|said| said.starts_with("tracer:"))
            || is_release && (has_release || starts.is_empty())
        {
            starts.push(at);
            has_release = false;
        }
        has_release |= is_release;
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

/// The report itself, without the words around it: from its heading to the last of the entries that the heading
/// announces and the stack of that one, or to the first line of another trace. The whole text if entries are missing, or
/// if others may follow.
pub(super) fn extent<'t>(text: &'t str, heading: &Heading) -> &'t str {
    let Some((announced, _)) = heading.entries.filter(|_| heading.latency.is_some()) else { return text };
    let mut begin = None;
    let mut end = None;
    let (mut at, mut entries) = (0, 0);
    for line in text.split_inclusive('\n') {
        let is_event = matches!(parse(line), Some(Line::Event(_)));
        let is_entry = is_event && has_latency_time(line);
        let is_frame = line.trim_start().starts_with("=>");
        if is_heading(line) {
            begin.get_or_insert(at);
        }
        if entries == announced && !is_frame {
            end.get_or_insert(at);
        }
        // Its lines count from the start of the latency; those of other traces have the time of a clock.
        if let Some(begin) = begin.filter(|_| is_event && !is_entry && entries > 0) {
            return &text[begin..end.unwrap_or(at)];
        }
        entries += u64::from(is_entry);
        // Lines of the display-graph option count from the start, too, and no heading says how many there are.
        if entries > announced || is_entry && begin.is_none() || line.contains(" us |") {
            return text;
        }
        at += line.len();
    }
    match begin.filter(|_| entries == announced && entries > 0) {
        Some(begin) => &text[begin..end.unwrap_or(text.len())],
        None => text,
    }
}

/// Whether `text` has events of the scheduler outside `part` of it.
pub(super) fn has_events_around(text: &str, part: &str) -> bool {
    let range = part.as_bytes().as_ptr_range();
    let outside = |line: &&str| !range.contains(&line.as_ptr());
    let is_one = |line| matches!(parse(line), Some(Line::Event(event)) if event.name.starts_with("sched_"));
    text.lines().filter(outside).any(is_one)
}

/// Whether it is the first line of a heading, or the second, if the first is missing.
fn is_heading(line: &str) -> bool {
    let said = line.trim_start().trim_start_matches('#').trim_start();
    said.starts_with("tracer:") || line.contains(" latency trace v1")
}

/// Whether it is a line of the heading without `#`, which no event looks like.
fn is_of_old_kernel(line: &str) -> bool {
    let starts = ["| task:", "=> started at:", "=> ended at:"];
    line.contains(" latency trace v1")
        || line.starts_with("latency:") && (line.contains("CPU#") || line.contains("#CPUS:"))
        || starts.iter().any(|start| line.starts_with(start))
}

/// `wakeup_rt`, which kernels between 6.0 and 6.4 printed as `wakeup_RT`.
fn named(tracer: &str) -> String {
    printable::line(tracer.trim()).to_ascii_lowercase()
}

/// The function at an end of a section, without comments after it.
fn place_of(text: &str) -> Option<String> {
    let end = text.trim().find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.')));
    let place = &text.trim()[..end.unwrap_or(text.trim().len())];
    (!place.is_empty()).then(|| place.to_owned())
}

fn pair(text: &str) -> Option<(u64, u64)> {
    let (printed, written) = text.split_once('/')?;
    Some((printed.parse().ok()?, written.parse().ok()?))
}

/// `cyclictest-217 (uid:0 nice:0 policy:1 rt_prio:99)`
fn task(text: &str) -> Option<Thread> {
    let (who, rest) = text.rsplit_once(" (")?;
    let (comm, tid) = who.rsplit_once('-')?;
    let value = |name: &str| {
        let word = rest.split([' ', ')']).find_map(|word| word.strip_prefix(name));
        word.and_then(|word| word.parse::<i32>().ok())
    };
    let prio = match (value("policy:"), value("rt_prio:"), value("nice:")) {
        (Some(1 | 2), Some(priority), _) => Some(Prio::from_rt(priority)),
        (Some(6), ..) => Some(Prio(-1)),
        (Some(_), _, Some(nice)) => Some(Prio(120 + nice)),
        _ => None,
    };
    let tid = Tid(tid.parse().ok()?);
    // Kernels before 2.6.34 print no name for it.
    let comm = if tid == Tid::IDLE && comm.is_empty() { "swapper" } else { comm };
    Some(Thread { tid, comm: printable::line(comm).into_owned(), prio })
}
