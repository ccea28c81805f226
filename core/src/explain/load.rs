//! From a recorded trace to the window around an interval: what happened in it, and what led to it.
//!
//! The record behind an interval matters too: who holds the lock, who armed the timer, who used up the real-time
//! bandwidth. As much of it is kept as memory allows; what that limits is seen from [`Window::complete_from`].

use std::collections::{HashMap, VecDeque};

use super::intervals::Found;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, Level};
use crate::trace::item::{Loss, Span};
use crate::trace::normalize::Normalizer;
use crate::trace::source::Source;
use crate::trace::syscall_names::SyscallTable;
use crate::trace::window::Window;

/// How far back the record goes behind an interval: the period of real-time throttling and a little more.
const BACK: Ns = Ns::from_ms(1_200);
/// How far it goes on behind the end: who left the CPU then tells who had it.
const ON: Ns = Ns::from_ms(5);
/// The switch itself is done within this time of its event.
const SWITCHING: Ns = Ns::from_us(100);
/// Events kept from before the interval.
const MOST_BEFORE: usize = 200_000;
/// Events kept in all; a longer interval is cut.
const MOST: usize = 1_500_000;

/// The events around `[begin, end]`.
#[must_use]
pub fn window(source: &dyn Source, found: &Found, begin: Mono, end: Mono) -> Window {
    let (first, _) = found.reach.unwrap_or((begin, end));
    let from = Mono(begin.0.saturating_sub(BACK.0)).max(first);
    let span = Span { from, to: end + ON };
    let mut normalizer = Normalizer::new(source);
    let mut events: VecDeque<Event> = VecDeque::new();
    let mut complete_from = from;
    let mut walk = source.events(span);
    while let Some(item) = walk.next() {
        let Some(event) = normalizer.item(&item) else { continue };
        let before = event.at < begin;
        events.push_back(event);
        if before && events.len() > MOST_BEFORE {
            events.pop_front();
            complete_from = events.front().map_or(complete_from, |event| event.at);
        }
        if events.len() >= MOST {
            break;
        }
    }
    drop(walk);
    at_switches(&mut events);
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
    for event in &window.events {
        window.complete_from.insert(event.cpu, complete_from);
    }
    source.enrich(&mut window);
    window
}

/// Between `sched_switch` and the switch itself the kernel does more (flushes, registers), in the name of the thread that
/// leaves: it does not run any more, and nobody is named there.
fn at_switches(events: &mut VecDeque<Event>) {
    let mut leaving: HashMap<Cpu, (Tid, Mono)> = HashMap::new();
    for event in events {
        match event.kind {
            Kind::Switch { prev, .. } => _ = leaving.insert(event.cpu, (prev.tid, event.at)),
            Kind::Other { .. } => {
                let left = leaving.get(&event.cpu).filter(|(_, at)| event.at.since(*at) < SWITCHING);
                match left.filter(|(tid, _)| event.current == Some(*tid)) {
                    Some(_) => event.current = None,
                    None => _ = leaving.remove(&event.cpu),
                }
            }
            _ => _ = leaving.remove(&event.cpu),
        }
    }
}

/// Losses that are not over when the window is: in it they end with the interval, or with the window where they begin
/// behind that.
fn reaching_out(found: &Found, begin: Mono, end: Mono, to: Mono) -> impl Iterator<Item = Event> + '_ {
    let open = move |loss: &&Loss| loss.before >= to && loss.after.is_some_and(|after| after < to);
    found.losses.iter().filter(open).map(move |loss| {
        let at = if loss.after.unwrap_or(begin) < end { end } else { to };
        let kind = Kind::Lost { count: loss.count, after: loss.after };
        Event { at, cpu: loss.cpu, current: None, level: Level::Unsaid, kind }
    })
}

/// Timers interrupt by a vector of x86, elsewhere by a line.
fn hides_interrupts(source: &dyn Source) -> bool {
    let tells = ["local_timer_entry", "hrtimer_expire_entry", "irq_handler_entry"];
    let x86 = SyscallTable::of_machine(&source.info().machine) == SyscallTable::X86_64;
    let tells = &tells[..if x86 { 2 } else { 3 }];
    let classes = source.catalogue().classes();
    !classes.iter().any(|class| tells.iter().any(|name| class.name.ends_with(name)))
}

/// Of the steps of a CPU on its way only the first.
fn hotplug(found: &Found, end: Mono) -> Vec<Event> {
    let mut ways: HashMap<Cpu, bool> = HashMap::new();
    let steps = found.lasting.iter().filter(|event| event.at < end);
    let turns = steps.filter(|event| match event.kind {
        Kind::Hotplug { cpu, down } => ways.insert(cpu, down).unwrap_or(false) != down,
        _ => false,
    });
    turns.copied().collect()
}

fn pinned(found: &Found, end: Mono) -> HashMap<Tid, Mono> {
    let mut pinned = HashMap::new();
    for event in found.lasting.iter().filter(|event| event.at < end) {
        let (Kind::SysEnter { args, .. }, Some(caller)) = (event.kind, event.current) else { continue };
        pinned.insert(if args[0] == 0 { caller } else { Tid(args[0] as i32) }, event.at);
    }
    pinned
}
