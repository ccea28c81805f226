//! Finds the intervals of a trace: between two markers, wake-ups, system calls, from an interrupt to its thread.
//!
//! One walk over the whole trace, with a few words of memory per interval. Start and end are paired by thread, or by a
//! value: then an interval may start in one thread and end in another, which is the thread of the interval.

mod fed;
#[cfg(test)]
mod fed_tests;
mod kept;
mod losses;
#[cfg(test)]
mod losses_tests;
mod named;
#[cfg(test)]
mod named_tests;
mod paired;
mod question;
mod scheduled;
mod unanswerable;
#[cfg(test)]
mod unanswerable_tests;
mod wakeups;

use std::collections::BTreeSet;

use super::mappings::Mappings;
use super::markers::Matcher;
use super::silence::Silences;
use super::turns::Turns;
use super::waking;
use crate::hash::HashMap;
use crate::time::{Cpu, Mono, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Sym};
use crate::trace::item::{Item, Span};
use crate::trace::normalize::{is_text, Normalizer};
use crate::trace::source::Source;
use crate::trace::syscall_names::SyscallTable;

use fed::Feeding;
pub use kept::MOST;
use losses::Gaps;
use named::Called;
pub use question::{Found, FoundInterval, Question, Whose};
use unanswerable::{is_call, unanswerable};

/// Maximum number of losses kept.
const MOST_LOSSES: usize = 10_000;
/// Maximum number of events with a lasting effect.
const MOST_LASTING: usize = 10_000;

/// Finds the intervals of `question` in `source`.
#[must_use]
pub fn find(source: &dyn Source, question: &Question, whose: &Whose) -> Found {
    search(source, Search::new(source, question, whose))
}

/// Finds the wake-ups of real-time threads in `source` ([`Question::Wakeups`] finds those of all threads).
#[must_use]
pub fn find_realtime_wakeups(source: &dyn Source, whose: &Whose) -> Found {
    let question = Question::Wakeups;
    search(source, Search { realtime: true, ..Search::new(source, &question, whose) })
}

fn search(source: &dyn Source, mut search: Search<'_>) -> Found {
    let mut walk = source.events(Span::ALL);
    while let Some(item) = walk.next() {
        search.item(&item);
    }
    search.finish()
}

/// A start without an end yet.
struct Begun {
    at: Mono,
    tid: Tid,
    key: Option<String>,
    /// A waking came while the thread still ran, and then it blocked: without another waking, it ended that sleep.
    leaving: bool,
}

/// State of a thread from context switches.
#[derive(Default)]
struct Switched {
    /// Its last name.
    comm: Option<Sym>,
    /// It is not on a CPU, according to the recorded switches.
    is_off: bool,
    /// It occurred in a switch.
    was_switched: bool,
    /// It was created in the trace.
    is_new: bool,
    /// When it fell asleep, until it is woken.
    asleep_since: Option<Mono>,
}

impl Switched {
    fn name(&mut self, comm: Option<Sym>) {
        self.comm = comm.or(self.comm);
    }
}

impl Begun {
    fn new(at: Mono, tid: Tid, key: Option<String>) -> Begun {
        Begun { at, tid, key, leaving: false }
    }
}

struct Search<'s> {
    source: &'s dyn Source,
    question: &'s Question,
    whose: &'s Whose,
    normalizer: Normalizer<'s>,
    matchers: Option<(Matcher<'s>, Matcher<'s>)>,
    /// Classes that must always be read.
    needed: Vec<bool>,
    by_thread: HashMap<Tid, Begun>,
    by_key: HashMap<String, Begun>,
    turns: Turns,
    /// CPUs with events.
    cpus: BTreeSet<Cpu>,
    /// Target CPU of the last waking of each thread.
    aimed_at: HashMap<Tid, Cpu>,
    /// Only wake-ups of real-time threads.
    realtime: bool,
    /// The thread of this switch-in was not in a switch before.
    is_first_switch: bool,
    switched: HashMap<Tid, Switched>,
    /// Names, if threads are selected by name.
    called: HashMap<Tid, Called>,
    /// The number of sched_setaffinity.
    sets_affinity: Option<i32>,
    feeding: Option<Feeding>,
    /// The interrupt of the last switch-in of its thread.
    fed_since: Option<Mono>,
    /// Interrupts and the next switch-in of the thread, in case no event links them.
    in_order: Vec<(Mono, Event)>,
    mappings: Mappings,
    /// Latest time before which events are missing.
    lost_until: Mono,
    gaps: Gaps,
    silences: Silences,
    /// The last end of an interval, by thread.
    ended: HashMap<Tid, Mono>,
    /// The trace has a wake-up.
    has_wakeup: bool,
    /// The trace has the start of a thread.
    has_start: bool,
    found: Found,
}

impl<'s> Search<'s> {
    fn new(source: &'s dyn Source, question: &'s Question, whose: &'s Whose) -> Self {
        let (is_damaged, left_out) = (!source.info().damage.is_empty(), source.info().left_out);
        let mut found = Found { is_damaged, left_out, ..Found::default() };
        let matchers = paired::matchers(source, question, &mut found);
        let feeding = match question {
            Question::IrqToThread(line, _) => {
                let is_raise = |name: &str| matches!(name, "softirq_raise" | "irq_softirq_raise");
                let classes = source.catalogue().classes();
                Some(Feeding::new(*line, classes.iter().any(|class| is_raise(&class.name))))
            }
            _ => None,
        };
        found.from_wakeup = matches!(question, Question::Wakeups) && waking::is_missing(source);
        found.is_call_unseen = matches!(question, Question::Syscall(_));
        let needs = |name: &str| match name {
            _ if feeding.is_some() => true,
            "sched_switch" | "sched_process_exit" | "sched_process_fork" | "sched_migrate_task" => true,
            "cpuhp_enter" | "cpuhp_multi_enter" => true,
            "sys_enter" => true,
            "task_rename" => whose.comm.is_some(),
            "sys_exit" => matches!(question, Question::Syscall(_)),
            "sched_wakeup" | "sched_waking" | "sched_wakeup_new" => matches!(question, Question::Wakeups),
            name => is_call(name) && matches!(question, Question::Syscall(_)),
        };
        let threshold = matches!(question, Question::Threshold);
        let classes = source.catalogue().classes();
        let needed = classes.iter().map(|class| needs(&class.name) || threshold && is_text(class)).collect();
        found.unanswerable = unanswerable(source, question);
        Search {
            source,
            question,
            whose,
            normalizer: Normalizer::new(source),
            matchers,
            needed,
            by_thread: HashMap::default(),
            by_key: HashMap::default(),
            turns: Turns::default(),
            cpus: BTreeSet::new(),
            aimed_at: HashMap::default(),
            realtime: false,
            is_first_switch: false,
            switched: HashMap::default(),
            called: HashMap::default(),
            sets_affinity: SyscallTable::of_machine(&source.info().machine).number("sched_setaffinity"),
            feeding,
            fed_since: None,
            in_order: Vec::new(),
            mappings: Mappings::new(source),
            lost_until: source.complete_from().unwrap_or_default(),
            gaps: Gaps::default(),
            ended: HashMap::default(),
            silences: Silences::default(),
            has_wakeup: false,
            has_start: false,
            found,
        }
    }

    fn item(&mut self, item: &Item<'_>) {
        let record = match item {
            Item::Event(record) => record,
            Item::Lost(loss) => {
                self.turns.lost(loss.cpu);
                // If only switches are missing, no start or end of an interval is.
                if loss.count != Some(0) {
                    self.found.count_loss(loss.count);
                    self.lost_until = self.lost_until.max(loss.before);
                    self.gaps.add(loss);
                }
                if loss.after.is_some() && self.found.losses.len() < MOST_LOSSES {
                    self.found.losses.push(*loss);
                }
                if let Some(feeding) = &mut self.feeding {
                    feeding.lost(loss.cpu);
                }
                let _ = self.normalizer.item(item);
                return;
            }
            Item::Damage(damage) => {
                self.found.is_damaged = true;
                if self.found.damage.len() < 100 {
                    self.found.damage.push(damage.to_string());
                }
                return;
            }
        };
        self.found.events += 1;
        let first = self.found.reach.map_or(record.at, |(first, _)| first.min(record.at));
        self.found.reach = Some((first, self.found.reach.map_or(record.at, |(_, last)| last.max(record.at))));
        self.silences.event(record.cpu, record.at);
        if !self.cpus.contains(&record.cpu) {
            self.cpus.insert(record.cpu);
        }
        let index = record.class as usize;
        let marked = self
            .matchers
            .as_ref()
            .is_some_and(|(from, to)| from.concerns(record.class) || to.concerns(record.class));
        let maps = self.mappings.concerns(record.class);
        if !marked && !maps && !self.needed.get(index).copied().unwrap_or(false) {
            return;
        }
        let event = self.normalizer.event(record);
        if let Some(class) = self.source.class(record).filter(|_| maps) {
            self.mappings.take(record, class, &event);
        }
        if let Kind::Switch { next, .. } = event.kind {
            self.is_first_switch = !self.switched.get(&next.tid).is_some_and(|known| known.was_switched);
        }
        self.lasting(&event);
        if self.whose.comm.is_some() {
            self.see_names(&event);
        }
        if !self.marked(record, &event) {
            self.fed(&event);
            self.scheduled(&event);
        }
        match event.kind {
            Kind::Migrate { task, to, .. } if to != event.cpu => self.silences.moved(task.tid, to, event.at),
            Kind::TaskExit { task } => self.over(task.tid, event.at),
            Kind::Fork { child, .. } => {
                self.over(child.tid, event.at);
                self.switched.entry(child.tid).or_default().is_new = true;
                self.has_start = true;
            }
            Kind::Switch { prev, left_as: LeftAs::Dead, .. } => self.over(prev.tid, event.at),
            _ => {}
        }
    }

    /// Facts independent of the query: names, and calls with a lasting effect.
    fn lasting(&mut self, event: &Event) {
        match event.kind {
            Kind::Switch { next, prev, .. } => {
                for (task, is_off) in [(prev, true), (next, false)] {
                    let known = self.switched.entry(task.tid).or_default();
                    known.name(task.comm);
                    (known.is_off, known.was_switched) = (is_off, true);
                }
            }
            Kind::SysEnter { id, .. }
                if Some(id) == self.sets_affinity && self.found.lasting.len() < MOST_LASTING =>
            {
                self.found.lasting.push(*event);
            }
            Kind::Hotplug { .. } if self.found.lasting.len() < MOST_LASTING => {
                self.found.lasting.push(*event);
            }
            _ => {}
        }
    }

    fn name(&self, tid: Tid) -> String {
        format!("{}/{tid}", self.comm(tid))
    }

    fn comm(&self, tid: Tid) -> String {
        match self.switched.get(&tid).and_then(|known| known.comm) {
            Some(sym) => self.normalizer.strings().get(sym).to_owned(),
            None => self.source.info().comms.get(&tid).cloned().unwrap_or_default(),
        }
    }

    fn finish(mut self) -> Found {
        self.choose_all();
        if let (Question::IrqToThread(_, tid), 0) = (self.question, self.found.count) {
            let in_order = std::mem::take(&mut self.in_order);
            self.found.only_in_order = !in_order.is_empty();
            for (at, event) in in_order {
                self.keep(Begun::new(at, *tid, None), *tid, &event);
            }
        }
        match self.question {
            Question::IrqToThread(_, tid) => self.fed_unfinished(*tid),
            Question::At(moment) => self.cut_at_end(*moment),
            _ => {}
        }
        if *self.question == Question::Wakeups {
            self.unfinished();
            self.unrecorded();
        }
        self.choose_all();
        let end = self.found.reach.map_or(Mono(0), |(_, last)| last);
        let open: Vec<Begun> = self.by_thread.drain().map(|(_, begun)| begun).collect();
        let open: Vec<Begun> = open.into_iter().chain(self.by_key.drain().map(|(_, begun)| begun)).collect();
        open.iter().for_each(|begun| self.unended(begun, end));
        let open: Vec<Tid> = open.iter().map(|begun| begun.tid).collect();
        if !matches!(self.question, Question::Wakeups | Question::IrqToThread(..) | Question::At(_)) {
            self.found.unmatched_begins += open.len() as u64;
            let names: Vec<String> =
                open.into_iter().take(paired::MOST_NAMED).map(|tid| self.name(tid)).collect();
            self.found.begin_threads.extend(names);
        }
        let unrecorded = self.silences.unrecorded().map(|of| of.told(&self.comm(of.moved.0)));
        let silent = self.silences.found(end).map(|silence| silence.told(&self.comm(silence.moved.0)));
        self.found.silent = unrecorded.into_iter().chain(silent).collect();
        self.name_kept();
        self.drop_shortest();
        self.found.mappings = self.mappings.into_known();
        self.found
    }
}
