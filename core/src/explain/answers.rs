//! The answer to a query on a trace, as JSON and as text.

use serde::{Deserialize, Serialize};

use super::intervals::{Found, FoundInterval};
use super::segment::{Explanation, Segment};
use super::text::{render, wrap, Options, WIDTH};
use super::tracers::Report;
use crate::numbers::counted;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};

/// The complete answer, as `lathunt explain --json` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answers {
    /// `lathunt-explain`.
    pub format: String,
    /// Version of this format.
    pub version: u32,
    /// Format of the trace, its file and its clock.
    pub trace: TraceFacts,
    /// The query: `sys:600 → sys:601`.
    pub question: String,
    /// Number of intervals found; `intervals` has at most the worst 100,000.
    #[serde(default)]
    pub count: u64,
    /// Intervals, worst first; the worst ones are explained.
    #[serde(rename = "passages")]
    pub intervals: Vec<Answer>,
    /// Start markers without an end.
    pub unmatched_begins: u64,
    /// End markers without a start.
    pub unmatched_ends: u64,
    /// Caveats for all intervals: damage, losses, markers that are not in the trace.
    pub limits: Vec<String>,
    /// The latency is the figure of a kernel tracer: no markers were paired.
    #[serde(skip)]
    pub is_tracers: bool,
}

/// The trace that was read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceFacts {
    /// File or directory.
    pub path: String,
    /// `trace.dat v7`.
    pub format: String,
    /// Name of the clock; empty if not recorded.
    pub clock: String,
    /// Events read.
    pub events: u64,
    /// Events that the recorder counted as lost.
    pub lost: u64,
}

/// One interval; if it is among the worst, with its explanation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Its thread: the one that ended it.
    pub thread: Thread,
    /// The thread that started it, if another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<Tid>,
    /// The value that paired the markers; if paired by thread, the first argument of a system call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// CPU of its end.
    pub cpu: Cpu,
    /// Its start, on the clock of the trace.
    pub begin: Mono,
    /// Its end.
    pub end: Mono,
    /// Its length: the explained leaves of `tree` plus `unexplained_ns`.
    pub total_ns: Ns,
    /// Events were lost between start and end: these may belong to different intervals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spans_loss: bool,
    /// The trace ended before the interval did: it took at least this long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// The parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Box<Segment>>,
    /// What the evidence does not show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexplained_ns: Option<Ns>,
    /// The answer in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// How to fix it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Short name of the main cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Caveats of this explanation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

impl Answer {
    /// An interval without an explanation.
    #[must_use]
    pub fn listed(interval: &FoundInterval) -> Answer {
        Answer {
            thread: Thread { tid: interval.tid, comm: interval.comm.clone(), prio: None },
            begun_by: interval.begun_by,
            key: interval.key.clone(),
            cpu: interval.cpu,
            begin: interval.begin,
            end: interval.end,
            total_ns: interval.total(),
            spans_loss: interval.spans_loss,
            unfinished: interval.unfinished,
            tree: None,
            unexplained_ns: None,
            sentence: None,
            remedy: None,
            cause: None,
            limits: Vec::new(),
        }
    }

    /// An interval with its explanation.
    #[must_use]
    pub fn explained(interval: &FoundInterval, explanation: Explanation) -> Answer {
        let thread = explanation.tree.thread.clone();
        let listed = Answer::listed(interval);
        Answer {
            thread: thread.unwrap_or(listed.thread.clone()),
            tree: Some(Box::new(explanation.tree)),
            unexplained_ns: Some(explanation.unexplained_ns),
            sentence: Some(match interval.unfinished {
                true => format!("not finished when the trace ended, at least: {}", explanation.sentence),
                false => explanation.sentence,
            }),
            remedy: Some(explanation.advice),
            cause: Some(explanation.cause),
            limits: explanation.limits,
            ..listed
        }
    }

    /// The explanation, for printing.
    fn explanation(&self) -> Option<Explanation> {
        Some(Explanation {
            sentence: self.sentence.clone()?,
            advice: self.remedy.clone()?,
            tree: self.tree.as_deref()?.clone(),
            total_ns: self.total_ns,
            unexplained_ns: self.unexplained_ns?,
            cause: self.cause.clone()?,
            limits: self.limits.clone(),
        })
    }
}

/// Maximum number of intervals in the text.
const MOST_LISTED: usize = 40;

impl Answers {
    /// The answer before any interval is explained.
    #[must_use]
    pub fn new(trace: TraceFacts, question: String, found: &Found) -> Answers {
        let mut limits = Vec::new();
        for marker in &found.impossible {
            limits.push(format!("no event in this trace matches {marker}: was it recorded?"));
        }
        if found.is_call_unseen {
            limits.push("no event of this system call is in the trace: was it recorded?".to_owned());
        }
        // The text itself says what was left out of it.
        let uncounted = found.lost_uncounted.saturating_sub(found.left_out);
        let is_lossy = found.lost > 0 || uncounted > 0;
        if is_lossy && found.is_damaged {
            limits.push(
                "events are missing: lost by the recorder, or in an unreadable part of the file".to_owned(),
            );
        } else if is_lossy {
            let places =
                |count| if count == 1 { "at one place".to_owned() } else { format!("at {count} places") };
            let lost = match (found.lost, uncounted) {
                (lost, 0) => format!("{lost} events"),
                (0, count) => format!("events {}, an unknown number", places(count)),
                (lost, count) => format!("{lost} events, and {} an unknown number more", places(count)),
            };
            limits.push(format!("the recorder lost {lost}: enlarge its buffers"));
        }
        if let Some((least, end)) = found.longest_begun_in_loss {
            let count = found.begun_in_losses;
            limits.push(format!(
                "{count} more have no start event (lost): the longest took at least {least}, until {end}"
            ));
        }
        if let Some((most, end)) = found.longest_unseen_switch_in {
            let (count, it) =
                (found.unseen_switch_ins, if found.unseen_switch_ins == 1 { "it" } else { "the longest" });
            limits.push(format!(
                "{} {} not listed because the switch-in was not recorded: {it} took at most {most}, until {end}",
                counted(count, "wake-up"),
                if count == 1 { "is" } else { "are" }
            ));
        }
        if let Some((most, name, end)) = &found.longest_unseen_waking {
            let count = counted(found.unseen_wakings, "wake-up");
            limits.push(format!(
                "{count} not recorded: threads slept, and then got a CPU; the longest wait for one is at most {most}, of {name} until {end}"
            ));
        }
        let worst = found.intervals.iter().map(FoundInterval::total).max();
        if let Some((length, name, begin)) = found.longest_unended.as_ref().filter(|one| Some(one.0) > worst)
        {
            limits.push(format!(
                "the interval of {name} that started at {begin} has no end: it may have taken {length} or more, and is not listed"
            ));
        }
        if let Some((least, name, end)) =
            found.longest_begun_before.as_ref().filter(|one| Some(one.0) > worst)
        {
            limits.push(format!(
                "the interval of {name} that ended at {end} has no start: if it started before the trace, it took at least {least}; it is \
                 not listed"
            ));
        }
        if let Some((length, begin)) = found.longest_cut_by_exit.filter(|one| Some(one.0) > worst) {
            limits.push(format!(
                "an interval that started at {begin} has no end, and is not listed: its thread exited {length} later"
            ));
        }
        if let Some((length, cpu, end)) = found.longest_of_idle {
            let (count, are) =
                (counted(found.of_idle, "interval"), if found.of_idle == 1 { "is" } else { "are" });
            limits.push(format!(
                "{count} {are} of the idle task, and not listed: the longest took {length}, on CPU {cpu} until {end}"
            ));
        }
        if found.spanning_losses > 0 {
            let (count, s) = (found.spanning_losses, if found.spanning_losses == 1 { "s" } else { "" });
            let longest =
                found.intervals.iter().filter(|interval| interval.spans_loss).map(FoundInterval::total).max();
            let longest = longest.map(|longest| format!(", the longest {longest}")).unwrap_or_default();
            limits.push(format!(
                "{count} of the intervals span{s} lost events (marked ?, after the others{longest}): start and end may belong to \
                 different ones"
            ));
        }
        if found.from_wakeup {
            let text =
                "sched_waking is not recorded: wake-ups are counted from sched_wakeup, which comes later";
            limits.push(text.to_owned());
        }
        if found.without_waking > 0 {
            let count = counted(found.without_waking, "wake-up");
            limits.push(format!(
                "{count} without a sched_waking: counted from sched_wakeup, which comes later"
            ));
        }
        if found.unfinished > 0 {
            let count = counted(found.unfinished, "interval");
            limits.push(format!(
                "{count} not finished when the trace ended (marked ≥): the time is a lower limit"
            ));
        }
        if let Some((least, name, end)) = &found.longest_waited_before {
            let count = counted(found.waited_before, "thread");
            let were = if found.waited_before == 1 { "was" } else { "were" };
            limits.push(match found.may_be_new {
                true => format!(
                    "{count} {were} already waiting for a CPU when the trace started, or new (the trace has neither \
                     sched_wakeup_new nor sched_process_fork): unless new, {name} took at least {least}, until {end}"
                ),
                false => format!(
                    "{count} {were} already waiting for a CPU when the trace started (woken or preempted): {name} took at least \
                     {least}, until {end}"
                ),
            });
        }
        limits.extend(found.unanswerable.map(str::to_owned));
        if found.only_in_order {
            let text = "no event shows that these interrupts lead to the thread: each is paired with its next switch-in";
            limits.push(text.to_owned());
        }
        limits.extend(found.silent.iter().cloned());
        limits.extend(found.damage.iter().take(5).map(|damage| format!("the file is damaged at {damage}")));
        Answers {
            format: "lathunt-explain".to_owned(),
            version: 1,
            trace,
            question,
            count: found.count,
            intervals: Vec::new(),
            unmatched_begins: found.unmatched_begins,
            unmatched_ends: found.unmatched_ends,
            limits,
            is_tracers: false,
        }
    }

    /// The answer for the text of a kernel tracer, with the figure of the tracer.
    #[must_use]
    pub fn of_tracer(path: String, report: Report) -> Answers {
        let found = Found { count: report.count, ..Found::default() };
        let trace = TraceFacts { path, format: report.format, events: report.lines, ..TraceFacts::default() };
        let mut answers = Answers::new(trace, report.question, &found);
        answers.is_tracers = true;
        answers.limits.extend(report.limits);
        let worst = report.worst.map(|finding| {
            let end = finding.begin + finding.explanation.total_ns;
            let (tid, comm) = (finding.thread.tid, finding.thread.comm.clone());
            let (begun_by, key, spans_loss) = (None, None, false);
            let interval = FoundInterval {
                tid,
                comm,
                begun_by,
                key,
                cpu: finding.cpu,
                begin: finding.begin,
                end,
                spans_loss,
                unfinished: false,
            };
            Answer::explained(&interval, finding.explanation)
        });
        answers.intervals.extend(worst);
        answers
    }

    /// The terminal text: all intervals, then the explained ones.
    #[must_use]
    pub fn to_text(&self, options: Options) -> String {
        let mut text = String::new();
        let listed = self.intervals.len();
        let clock = if self.trace.clock.is_empty() { "?" } else { &self.trace.clock };
        text.push_str(&cut(&format!(
            "{}: {}, {}, clock {clock}",
            self.trace.path,
            self.trace.format,
            counted(self.trace.events, "event")
        )));
        let counts = match (self.is_tracers, self.count) {
            (true, 0) => format!("{}: not in this text", self.question),
            (true, 1) => self.question.clone(),
            (true, count) => format!("{}: the worst of {count}", self.question),
            _ => format!(
                "{} {}; {} and {} unmatched",
                counted(self.count, "interval"),
                self.question,
                counted(self.unmatched_begins, "begin"),
                counted(self.unmatched_ends, "end")
            ),
        };
        wrap(&mut text, "", &counts);
        for limit in &self.limits {
            wrap(&mut text, "! ", limit);
        }
        for (place, answer) in self.intervals.iter().take(MOST_LISTED).enumerate() {
            let key = answer.key.as_ref().map_or(String::new(), |key| format!("  key {key}"));
            let begun = answer.begun_by.map_or(String::new(), |tid| format!("  started by {tid}"));
            text.push_str(&cut(&format!(
                "{:>5}{} {:>12}  {}/{}{key}{begun}  CPU {}  from {}",
                place + 1,
                if answer.unfinished {
                    '≥'
                } else if answer.spans_loss {
                    '?'
                } else {
                    ' '
                },
                answer.total_ns.to_string(),
                answer.thread.comm,
                answer.thread.tid,
                answer.cpu,
                answer.begin
            )));
        }
        if listed > MOST_LISTED {
            text.push_str(&format!("       … and {} more (--json lists all)\n", listed - MOST_LISTED));
        }
        let unlisted = self.count.saturating_sub(listed as u64);
        if unlisted > 0 && !self.is_tracers {
            text.push_str(&format!("       … and {unlisted} shorter ones\n"));
        }
        for (place, answer) in self.intervals.iter().enumerate() {
            if let Some(explanation) = answer.explanation() {
                text.push_str(&format!("\ninterval {}:\n", place + 1));
                text.push_str(&render(&explanation, options));
            }
        }
        text
    }
}

fn cut(line: &str) -> String {
    let mut kept: String = line.chars().take(WIDTH).collect();
    kept.push('\n');
    kept
}
