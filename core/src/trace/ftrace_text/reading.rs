//! The first walk over a text: its classes, names, losses and pieces, and the lines that are not events.

use std::borrow::Cow;
use std::collections::HashMap;

use super::cut::Cut;
use super::fields::{FieldValue, Fields};
use super::filtered::Filtered;
use super::foreign;
use super::line::{self, EventLine, Line};
use super::lines::Lines;
use super::pieces::{fields_of, Cutter};
use super::shapes::Shapes;
use super::{FtraceText, LossLine, Release};
use crate::numbers::counted;
use crate::printable;
use crate::time::{Mono, Tid};
use crate::trace::item::Damage;
use crate::trace::kallsyms::Symbols;
use crate::trace::source::{About, Clock, OpenError};
use crate::trace::syscall_names::{SyscallTable, NOT_X86};

/// Number of lines read before a text is rejected.
const LINES_TO_RECOGNISE: usize = 2000;

/// Whether the first lines have events.
pub(super) fn recognise(text: &[u8]) -> Result<(), OpenError> {
    let mut lines = Lines::within(text, 0, text.len());
    let mut is_without_cpu = false;
    for _ in 0..LINES_TO_RECOGNISE {
        let Some((_, line)) = lines.next() else { break };
        match line::parse(&line) {
            Some(Line::Event(_)) if foreign::is_context_switch(&line) => {
                return Err(OpenError::Unsupported(foreign::OLD_SWITCHES.into()));
            }
            Some(Line::Event(first)) if first.at == 0 && is_of_perf(&line, &first) && goes_back(lines) => {
                let what = "text of perf script --deltatime, whose times are differences: print it without that option, or name the perf.data itself";
                return Err(OpenError::Unsupported(what.into()));
            }
            Some(Line::Event(_)) => return Ok(()),
            Some(Line::Timeless) => {
                let what = "its times are not seconds (clock x86-tsc, counter or uptime): record with `trace-cmd record -C mono`, or `echo mono > trace_clock`";
                return Err(OpenError::Unsupported(what.into()));
            }
            _ => is_without_cpu |= line::is_without_cpu(&line),
        }
    }
    if is_without_cpu {
        let what = "text of perf script without CPUs: print them with `perf script -F +cpu`, or name the perf.data itself";
        return Err(OpenError::Unsupported(what.into()));
    }
    let what = "not a text of ftrace: no line of an event among the first";
    Err(OpenError::Foreign(what.into()))
}

/// Whether `perf script` printed it: a blank is between name and id of the thread.
fn is_of_perf(line: &str, event: &EventLine<'_>) -> bool {
    !line.contains(&format!("-{} ", event.tid))
}

/// Whether the time of one of the next events is before that of the one above it. `perf script` prints events in the order of
/// time.
fn goes_back(mut lines: Lines<'_>) -> bool {
    let mut last = 0;
    for _ in 0..LINES_TO_RECOGNISE {
        let Some((_, line)) = lines.next() else { break };
        if let Some(Line::Event(event)) = line::parse(&line) {
            if event.at < last {
                return true;
            }
            last = event.at;
        }
    }
    false
}

/// Whether it is a scheduler event without the threads that it is about: its text has an unknown form.
fn lacks_its_thread(name: &str, fields: &Fields<'_>) -> bool {
    let needed: &[&str] = match name {
        "sched_switch" => &["prev_pid", "next_pid"],
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" | "sched_migrate_task" => &["pid"],
        _ => return false,
    };
    let has = |name: &str| {
        fields.iter().any(|(known, value)| known == name && matches!(value, FieldValue::Number(_)))
    };
    !needed.iter().all(|name| has(name))
}

/// Events of a CPU.
struct Reach {
    /// Time of the first.
    first: u64,
    /// Time of the last.
    last: u64,
    /// Number of gaps before the last.
    gaps: u64,
}

/// Facts of the lines read so far.
#[derive(Default)]
pub(super) struct Reading {
    about: About,
    shapes: Shapes,
    cutter: Cutter,
    losses: Vec<LossLine>,
    /// Losses of each CPU behind which no event was seen yet.
    open_losses: HashMap<u32, Vec<usize>>,
    /// Number of places where lines were left out, or another recording follows, and the offset of the last one.
    gaps: (u64, usize),
    /// Places at which lines were left out, and the first of them if an event followed.
    omissions: u64,
    last_omission: Option<usize>,
    first_omission: Option<usize>,
    kallsyms: String,
    cut: Cut,
    filtered: Filtered,
    not_understood: u64,
    /// The damage that reports the first of them.
    first_foreign: Option<usize>,
    overwritten: u64,
    /// Number of events in the heading, and of lines that may be events.
    announced: u64,
    lines: u64,
    /// Offset of the last heading, and whether a CPU has events before and after one.
    restart: Option<usize>,
    has_restarted: bool,
    /// The CPU whose buffer starts last.
    started: Option<u32>,
    last: u64,
    /// Events of each CPU.
    reach: HashMap<u32, Reach>,
    first_cpu: Option<u32>,
    backwards: bool,
    /// Thread and number of the last raw event of a system call.
    raw_call: Option<(i32, i32)>,
    /// System calls whose number has another name on x86-64, and their name with the numbers of aarch64.
    generic_calls: u64,
    /// Numbers of system calls are in the text.
    has_numbers: bool,
    /// Ends of system calls are, too.
    has_exits: bool,
    /// An event or a call shows whether the machine is an x86.
    is_x86: Option<bool>,
}

impl Reading {
    /// The next line, and the bytes that it takes.
    pub(super) fn line(&mut self, text: &str, begin: usize, end: usize) {
        self.lines += u64::from(!text.starts_with('#') && !text.trim_ascii().is_empty());
        self.cut.line(text);
        match line::parse(text) {
            Some(Line::Event(event)) if event.at <= Mono::LATEST.0 => self.event(text, &event, begin, end),
            Some(Line::Lost { cpu, count }) => {
                // Printed before the first event behind the gap: it takes that event's time.
                self.open_losses.entry(cpu).or_default().push(self.losses.len());
                self.losses.push(LossLine { at: self.last, line: begin, cpu, count });
                self.first_cpu.get_or_insert(cpu);
            }
            Some(Line::Heading { printed, overwritten }) => {
                self.announced = self.announced.saturating_add(printed);
                self.overwritten = self.overwritten.saturating_add(overwritten);
            }
            Some(Line::Started(cpu)) => self.started = Some(cpu),
            Some(Line::Restart) => {
                self.gap(begin);
                self.restart = Some(begin);
            }
            Some(Line::Omission) => {
                self.gap(begin);
                self.last_omission = Some(begin);
            }
            Some(Line::Comment) => {}
            Some(Line::Event(_) | Line::Timeless) | None => self.foreign(text, begin),
        }
    }

    /// The events before and after this place do not follow one another, on any CPU.
    fn gap(&mut self, begin: usize) {
        self.gaps = (self.gaps.0 + 1, begin);
        self.filtered.gap();
    }

    pub(super) fn foreign(&mut self, text: &str, begin: usize) {
        self.not_understood += 1;
        if self.not_understood == 1 {
            let shown: String = text.chars().take(60).collect();
            let what = format!("a line that is not an event: '{shown}'");
            self.first_foreign = Some(self.about.info.damage.len());
            self.about.info.damage.push(Damage::new(begin as u64, what));
        }
    }

    fn event(&mut self, text: &str, event: &EventLine<'_>, begin: usize, end: usize) {
        let (tid, comms) = (Tid(event.tid), &mut self.about.info.comms);
        let is_named = !event.comm.is_empty() && event.comm != "<...>";
        if is_named && comms.get(&tid).is_none_or(|known| known != event.comm) {
            comms.insert(tid, printable::line(event.comm).into_owned());
        }
        let (name, fields) = fields_of(event);
        self.shapes.learn(&mut self.about.catalogue, &mut self.kallsyms, &name, &fields);
        if lacks_its_thread(&name, &fields) {
            self.foreign(text, begin);
        }
        self.filtered.event(event.cpu, &name, &fields);
        self.call(event);
        self.cutter.event(begin, end, event.at);
        self.last = event.at;
        self.first_cpu.get_or_insert(event.cpu);
        if !self.open_losses.is_empty() {
            let losses = self.open_losses.remove(&event.cpu).unwrap_or_default();
            losses.into_iter().for_each(|loss| self.losses[loss].at = event.at);
        }
        if let Some(omission) = self.last_omission.take().filter(|_| !self.reach.is_empty()) {
            self.omissions += 1;
            self.first_omission.get_or_insert(omission);
        }
        let gaps = self.gaps.0;
        let reach = self.reach.entry(event.cpu).or_insert(Reach { first: event.at, last: event.at, gaps });
        let before = std::mem::replace(&mut reach.last, event.at);
        if std::mem::replace(&mut reach.gaps, gaps) < gaps {
            self.has_restarted |= self.restart == Some(self.gaps.1);
            self.about.info.left_out += 1;
            self.losses.push(LossLine { at: event.at, line: self.gaps.1, cpu: event.cpu, count: None });
        }
        if event.at < before && !self.backwards {
            self.backwards = true;
            let (cpu, before, now) = (event.cpu, Mono(before), Mono(event.at));
            let what = format!(
                "CPU {cpu}: time goes back from {before} to {now}: the lines were sorted or are of two recordings"
            );
            self.about.info.damage.push(Damage::new(begin as u64, what));
        }
    }

    /// The text does not name the machine: an event with the number of a system call, followed by one with its name,
    /// shows whose numbers they are, and events of one kind of machine only show which it is.
    fn call(&mut self, event: &EventLine<'_>) {
        match event.name {
            "ipi_raise" | "ipi_entry" | "ipi_exit" => self.is_x86 = Some(false),
            "irq_handler_entry" if event.fields.contains("name=arch_timer") => self.is_x86 = Some(false),
            "local_timer_entry" | "reschedule_entry" | "call_function_single_entry" => {
                self.is_x86 = Some(true)
            }
            _ => {}
        }
        if matches!(event.name, "sys_enter" | "sys_exit") {
            self.has_numbers = true;
            self.has_exits |= event.name == "sys_exit";
            let number = event.fields.strip_prefix("NR ").and_then(|fields| fields.split(' ').next());
            self.raw_call = number.and_then(|number| Some((event.tid, number.parse().ok()?)));
        } else if let Some((tid, number)) = self.raw_call.take()
            && let Some(name) = event.name.strip_prefix("sys_").filter(|_| tid == event.tid)
        {
            let is = |table: SyscallTable| table.number(name) == Some(number);
            self.generic_calls += u64::from(is(SyscallTable::Generic) && !is(SyscallTable::X86_64));
            if is(SyscallTable::X86_64) && !is(SyscallTable::Generic) {
                self.is_x86 = Some(true);
            }
        }
    }

    /// The heading announces more than one event beyond the lines read so far.
    pub(super) fn lacks_more_than_one(&self) -> bool {
        self.lines + 1 < self.announced
    }

    pub(super) fn finish<'t>(
        mut self,
        text: Cow<'t, [u8]>,
        release: Option<&'t dyn Release>,
        starts_within: bool,
    ) -> FtraceText<'t> {
        let info = &mut self.about.info;
        let first = self.first_foreign.and_then(|index| info.damage.get_mut(index));
        if let (Some(first), 2..) = (first, self.not_understood) {
            let more = match self.not_understood - 1 {
                1 => "1 more such line".to_owned(),
                more => format!("{more} more such lines"),
            };
            first.what.push_str(&format!("; {more}: events are missing"));
        }
        if let Some(begin) = self.first_omission {
            let places = counted(self.omissions, "place");
            let what = format!("lines were left out of the text, at {places}: events are missing");
            info.damage.push(Damage::new(begin as u64, what));
        }
        if self.has_restarted {
            let what = "another recording follows in the text: the time between two recordings counts as lost events";
            info.limits.push(what.to_owned());
        }
        if self.lines < self.announced {
            let (lines, announced) = (self.lines, self.announced);
            let what = format!("the heading announces {announced} events, but there are {lines} lines: the text was cut or filtered");
            info.damage.push(Damage::new(0, what));
        }
        let seen = |cpu: u32| self.reach.contains_key(&cpu);
        let start =
            starts_within.then(|| "the text starts within a line: events before it are missing".to_owned());
        let doubts = self
            .cut
            .found()
            .into_iter()
            .chain(start)
            .chain(self.filtered.found(seen, !self.losses.is_empty()));
        info.damage.extend(doubts.map(|what| Damage::new(0, what)));
        // Until the last CPU's first event the record has gaps.
        let begins = self.started.or(self.first_cpu).filter(|_| self.overwritten > 0);
        if let Some((cpu, at)) = begins.and_then(|cpu| Some((cpu, self.reach.get(&cpu)?.first))) {
            self.losses.push(LossLine { at, line: 0, cpu, count: Some(self.overwritten) });
        }
        self.losses.sort_unstable_by_key(LossLine::key);
        info.format = "ftrace text".into();
        info.clock = Clock::default();
        if self.has_numbers && !self.has_exits {
            let what =
                "the text has no sys_exit: each thread counts as in the last system call that it entered";
            info.limits.push(what.to_owned());
        }
        match self.is_x86 {
            _ if self.generic_calls > 0 => info.machine = "aarch64".to_owned(),
            Some(false) if self.has_numbers => {
                info.machine = NOT_X86.to_owned();
                let what = "its machine is not x86, and which one the text does not say: system calls have numbers only";
                info.limits.push(what.to_owned());
            }
            None if self.has_numbers => {
                let what = "the text does not say its machine: system calls are named as those of x86-64";
                info.limits.push(what.to_owned());
            }
            _ => {}
        }
        let cpus = self.reach.keys().copied().chain(self.losses.iter().map(|loss| loss.cpu));
        info.cpus = cpus.map(|cpu| cpu.saturating_add(1)).max();
        info.origins = vec![String::new()];
        self.about.symbols = Symbols::new(self.kallsyms.into_bytes());
        let (about, shapes, pieces) = (self.about, self.shapes, self.cutter.finish());
        FtraceText { text, release, about, shapes, pieces, losses: self.losses }
    }
}
