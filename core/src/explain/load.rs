//! Loads the window around an interval from a recorded trace: its events, and earlier ones that led to them.
//!
//! Events before an interval matter too: they show the holder of a lock, the arming of a timer, the use of the
//! real-time bandwidth. They are kept up to a limit, and beyond it those that still hold; [`Window::complete_from`] shows
//! how far.

mod earlier;

use std::collections::VecDeque;

use self::earlier::Earlier;
use super::intervals::Found;
use crate::hash::{HashMap, HashSet};
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, Level, Strings};
use crate::trace::item::{Loss, Span};
use crate::trace::normalize::Normalizer;
use crate::trace::source::Source;
use crate::trace::syscall_names::SyscallTable;
use crate::trace::window::Window;

/// Time loaded before an interval: the period of real-time throttling and some more.
const BACK: Ns = Ns::from_ms(1_200);
/// Time loaded after the end: the next switch-out shows the task on the CPU, and a later wake who held a lock until then.
const ON: Ns = Ns::from_ms(20);
/// Maximum time from the event of a switch to the switch itself, where nothing else shows that the CPU is still at it.
const SWITCHING: Ns = Ns::from_us(100);
/// Maximum number of events before the interval.
const MOST_BEFORE: usize = 200_000;
/// Maximum number of events; a longer interval is truncated.
const MOST: usize = 1_500_000;

/// The events around `[begin, end]`.
#[must_use]
pub fn window(source: &dyn Source, found: &Found, begin: Mono, end: Mono) -> Window {
    let (first, _) = found.reach.unwrap_or((begin, end));
    let from = Mono(begin.0.saturating_sub(BACK.0)).max(first);
    let span = Span { from, to: end + ON };
    let mut normalizer = Normalizer::new(source);
    let mut earlier = Earlier::new(MOST_BEFORE);
    let mut later: Vec<Event> = Vec::new();
    let mut walk = source.events(span);
    while let Some(item) = walk.next() {
        let Some(event) = normalizer.item(&item) else { continue };
        match event.at < begin {
            true => earlier.add(event),
            false => later.push(event),
        }
        if later.len() >= MOST {
            break;
        }
    }
    drop(walk);
    let (mut events, cut) = earlier.into_events();
    let complete_from = cut.unwrap_or(from);
    events.extend(later);
    at_switches(&mut events, normalizer.strings());
    events.extend(reaching_out(found, begin, end, span.to));
    let mut window = Window {
        comms: source.info().comms.clone(),
        strings: normalizer.into_strings(),
        events: events.into(),
        pinned: pinned(found, end),
        hotplug: hotplug(found, end),
        mappings: found.mappings.iter().filter(|mapping| mapping.at < end).cloned().collect(),
        syscalls: SyscallTable::of_machine(&source.info().machine),
        other_clock: !source.info().clock.is_monotonic(),
        hides_interrupts: hides_interrupts(source),
        ..Window::default()
    };
    let cpus: HashSet<Cpu> = window.events.iter().map(|event| event.cpu).collect();
    window.complete_from = cpus.into_iter().map(|cpu| (cpu, complete_from)).collect();
    source.enrich(&mut window);
    window
}

/// A switch that may not be complete.
struct Switching {
    from: Tid,
    to: Tid,
    at: Mono,
    /// A flush long after its event, in the name of the thread that leaves.
    flush: Option<usize>,
}

/// Removes the current thread from events between `sched_switch` and the switch itself (flushes, registers): they name
/// the thread that leaves, which no longer runs. A flush may come any time later: it is of that switch if the next event
/// shows the thread that comes.
fn at_switches(events: &mut VecDeque<Event>, strings: &Strings) {
    let mut open: HashMap<Cpu, Switching> = HashMap::default();
    for index in 0..events.len() {
        let event = events[index];
        if let Some(flush) =
            open.get(&event.cpu).and_then(|switch| switch.flush.filter(|_| switch.is_by(&event)))
        {
            events[flush].current = None;
        }
        match event.kind {
            Kind::Switch { prev, next, .. } => {
                let switch = Switching { from: prev.tid, to: next.tid, at: event.at, flush: None };
                open.insert(event.cpu, switch);
            }
            Kind::Other { name } => {
                let of_leaving =
                    |switch: &&mut Switching| event.current == Some(switch.from) && switch.flush.is_none();
                match open.get_mut(&event.cpu).filter(of_leaving) {
                    Some(switch) if event.at.since(switch.at) < SWITCHING => events[index].current = None,
                    Some(switch) if strings.get(name) == "tlb_flush" => switch.flush = Some(index),
                    _ => _ = open.remove(&event.cpu),
                }
            }
            _ => _ = open.remove(&event.cpu),
        }
    }
}

impl Switching {
    /// Whether the thread that comes runs at `event`.
    fn is_by(&self, event: &Event) -> bool {
        match event.kind {
            Kind::Switch { prev, .. } => prev.tid == self.to,
            _ => event.current == Some(self.to),
        }
    }
}

/// Losses that end after the window: in the window they end with the interval, or with the window if they start after
/// the interval.
fn reaching_out(found: &Found, begin: Mono, end: Mono, to: Mono) -> impl Iterator<Item = Event> + '_ {
    let open = move |loss: &&Loss| loss.before >= to && loss.after.is_some_and(|after| after < to);
    found.losses.iter().filter(open).map(move |loss| {
        let at = if loss.after.unwrap_or(begin) < end { end } else { to };
        let kind = Kind::Lost { count: loss.count, after: loss.after };
        Event { at, cpu: loss.cpu, current: None, level: Level::Unsaid, kind }
    })
}

/// Whether no event shows timer interrupts: a vector on x86, elsewhere an interrupt line.
fn hides_interrupts(source: &dyn Source) -> bool {
    let tells = ["local_timer_entry", "hrtimer_expire_entry", "irq_handler_entry"];
    let x86 = SyscallTable::of_machine(&source.info().machine) == SyscallTable::X86_64;
    let tells = &tells[..if x86 { 2 } else { 3 }];
    let classes = source.catalogue().classes();
    !classes.iter().any(|class| tells.iter().any(|name| class.name.ends_with(name)))
}

/// The first step of each CPU going offline or online.
fn hotplug(found: &Found, end: Mono) -> Vec<Event> {
    let mut ways: HashMap<Cpu, bool> = HashMap::default();
    let steps = found.lasting.iter().filter(|event| event.at < end);
    let turns = steps.filter(|event| match event.kind {
        Kind::Hotplug { cpu, down } => ways.insert(cpu, down).unwrap_or(false) != down,
        _ => false,
    });
    turns.copied().collect()
}

fn pinned(found: &Found, end: Mono) -> std::collections::HashMap<Tid, Mono> {
    let mut pinned = std::collections::HashMap::new();
    for event in found.lasting.iter().filter(|event| event.at < end) {
        let (Kind::SysEnter { args, .. }, Some(caller)) = (event.kind, event.current) else { continue };
        pinned.insert(if args[0] == 0 { caller } else { Tid(args[0] as i32) }, event.at);
    }
    pinned
}
