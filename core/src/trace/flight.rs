//! The flight recorder: events of a CPU up to the time its ring was frozen.
//!
//! Bytes in, [`Window`] out. The bytes are those of the BPF ring with a header before them. `flight.bin` in a run
//! directory is a sequence of such *chunks*, of one or several CPUs. Chunks of one CPU with consecutive ids have no gap
//! between them. All numbers are little endian (so are all supported machines); times are `CLOCK_MONOTONIC` in ns.
//!
//! | chunk | bytes | meaning |
//! |---|---|---|
//! | header | 128 | see [`Header`], fields in its order: magic, version, header bytes, cpu, trigger, id, begin, frozen, first sequence number, records, stacks, overwritten, victim's total, switch, tid, prio, comm, record bytes, stack bytes, reserved |
//! | records | 48 each | in the order of their sequence numbers |
//! | stacks | 256 each | kernel stacks taken meanwhile |
//!
//! | record | offset | type |
//! |---|---|---|
//! | at | 0 | u64 |
//! | stamp | 8 | u32, low half of the sequence number + 1; anything else: the record is torn |
//! | kind, flag, aux | 12, 13, 14 | u8, u8, u16 |
//! | current, tid | 16, 20 | i32 |
//! | prio_a, prio_b, word | 24, 26, 28 | i16, i16, u32; or `expires` u64 at 24 |
//! | comm | 32 | 16 bytes; or two u64 |
//!
//! | stack | offset | type |
//! |---|---|---|
//! | at | 0 | u64 |
//! | tid | 8 | i32 |
//! | why, code, depth | 12, 13, 14 | u8 (1: a late timer, 2: a late switch), u8 (see [`note_code`]), u16 |
//! | addresses | 16 | 30 × u64, innermost first |
//!
//! A waking (kinds 2 and 3) has the priorities of the waker, since version 2, and of the task that is woken. A system call (kinds 21 and 22) has its number in `tid`, its first three arguments in the two u64 and `expires`, its result
//! in the first u64. A thread that takes another name (kind 23) has its id in `tid` and the name in `comm`.
//!
//! Losses are reported: torn, damaged and missing records become [`Kind::Lost`] before the next event. So do a
//! switch-out of another task than the one switched in last, and the time in which a lean recorder skipped switches
//! between SCHED_OTHER tasks. Records overwritten before the first one move [`Window::complete_from`]. Not here: names
//! of threads without an event, interrupt lines and idle states (`host` adds them).

mod header;
mod layout;
pub mod source;

use std::collections::HashMap;
use std::num::NonZeroU32;

use super::event::{Event, Faulted, Kind, LeftAs, Level, Strings, TaskRef, Vector};
use super::window::{StackSample, Window};
use crate::printable;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};

pub use header::{
    headers, Header, NotAChunk, Victim, HEADER_BYTES, MAGIC, RECORD_BYTES, STACK_BYTES, TRIGGER_KERNEL,
    TRIGGER_USER, VERSION,
};
use header::{i32_at, u16_at, u32_at, u64_at};

/// Kind of a record that names a task and is not an event.
const COMM: u8 = 19;
/// Bit of the flag of a switch: a lean recorder skipped switches before it.
const SKIPPED: u8 = 2;
/// Reason for a stack: only one taken in an interrupt shows the interrupted code.
const LATE_TIMER: u8 = 1;
const ENABLED_THERE: u8 = 1;
const ENABLED_BEFORE: u8 = 2;
/// Maximum number of frames per stack.
const STACK_DEPTH: usize = 30;

/// All events of all chunks, in time order. `symbol` resolves a kernel address.
///
/// # Errors
/// If the first header cannot be read. Later damage is a [`Kind::Lost`].
pub fn decode(bytes: &[u8], symbol: impl FnMut(u64) -> Option<String>) -> Result<Window, NotAChunk> {
    let mut header = Header::parse(bytes)?;
    let mut decoder = Decoder {
        window: Window::default(),
        symbol,
        known: HashMap::new(),
        running: HashMap::new(),
        switched: HashMap::new(),
    };
    let mut last: HashMap<Cpu, u64> = HashMap::new();
    let mut at = 0;
    loop {
        let follows =
            last.insert(header.cpu, header.id).is_some_and(|id| id.checked_add(1) == Some(header.id));
        let whole = decoder.chunk(&header, &bytes[at + HEADER_BYTES..], follows);
        at = at.saturating_add(header.chunk_bytes());
        if at >= bytes.len() || !whole {
            break;
        }
        match Header::parse(&bytes[at..]) {
            Ok(next) => header = next,
            Err(_) => {
                decoder.lost(header.frozen, header.cpu, None);
                break;
            }
        }
    }
    // Stable sort: records of a CPU with equal times stay in sequence order.
    decoder.window.events.sort_by_key(|event| event.at);
    decoder.window.stacks.sort_by_key(|stack| stack.at);
    decoder.window.is_selective = true;
    Ok(decoder.window)
}

struct Decoder<F> {
    window: Window,
    symbol: F,
    known: HashMap<u64, Option<String>>,
    switched: HashMap<Cpu, Mono>, // time of the last recorded switch
    running: HashMap<Cpu, Tid>,   // last task switched in, if no event was lost since
}

impl<F: FnMut(u64) -> Option<String>> Decoder<F> {
    /// False if the chunk is truncated. `follows`: this chunk continues the previous one.
    fn chunk(&mut self, header: &Header, body: &[u8], follows: bool) -> bool {
        let cpu = header.cpu;
        let present = (body.len() / RECORD_BYTES).min(header.records as usize);
        self.window.events.reserve(present);
        let (mut torn, mut latest, mut oldest) = (0u64, header.begin, None);
        for (i, record) in body.chunks_exact(RECORD_BYTES).take(present).enumerate() {
            let at = Mono(u64_at(record, 0));
            let stamp = header.first_seq.wrapping_add(i as u64 + 1) as u32;
            let whole = u32_at(record, 8) == stamp && at <= Mono::LATEST;
            if whole && record[12] == COMM {
                self.named(at, record);
                continue;
            }
            let kind = if whole { self.kind(header, record) } else { None };
            let Some(kind) = kind else {
                torn += 1;
                continue;
            };
            if torn > 0 {
                self.lost(at, cpu, Some(torn));
                torn = 0;
            }
            // An NMI may be recorded after later events.
            if !matches!(kind, Kind::Nmi { .. }) {
                oldest.get_or_insert(at);
            }
            latest = latest.max(at);
            if let Kind::Switch { prev, next, .. } = kind {
                if record[13] & SKIPPED != 0 {
                    // Before this switch the running task is known only from `prev` or from events that name it.
                    let since = self.switched.get(&cpu).map_or(header.begin, |last| Mono(last.0 + 1));
                    self.lost(since, cpu, None);
                }
                // At least one switch in between was not reported.
                if self.running.get(&cpu).is_some_and(|running| *running != prev.tid) {
                    self.lost(at, cpu, None);
                }
                self.running.insert(cpu, next.tid);
                self.switched.insert(cpu, at);
            }
            let current = Some(Tid(i32_at(record, 16)));
            self.window.events.push(Event { at, cpu, current, level: Level::Unsaid, kind });
        }
        let missing = u64::from(header.records) - present as u64 + torn;
        if missing > 0 {
            self.lost(latest, cpu, Some(missing));
        }
        let gapless = follows && header.overwritten == 0;
        if !gapless {
            let from = if header.overwritten == 0 { header.begin } else { oldest.unwrap_or(header.frozen) };
            if self.window.complete_from.insert(cpu, from).is_some() {
                self.lost(from, cpu, None);
            }
        }
        let stacks = body.get(header.records as usize * RECORD_BYTES..).unwrap_or_default();
        for stack in stacks.chunks_exact(STACK_BYTES).take(header.stacks as usize) {
            self.stack(cpu, stack);
        }
        present == header.records as usize && stacks.len() / STACK_BYTES >= header.stacks as usize
    }

    /// Adds the name of a task to its switch-out, which is the last event except for NMIs.
    fn named(&mut self, departure: Mono, r: &[u8]) {
        let (tid, name) = (Tid(i32_at(r, 20)), &r[32..48]);
        let mut last = self.window.events.iter_mut().rev();
        let left = last.find(|event| !matches!(event.kind, Kind::Nmi { .. }));
        if let Some(Event { at, kind: Kind::Switch { prev, .. }, .. }) = left
            && *at == departure
            && prev.tid == tid
        {
            prev.comm = comm(&mut self.window.strings, name);
        }
        let name = name.split(|&b| b == 0).next().unwrap_or_default();
        let name = printable::line(&String::from_utf8_lossy(name)).into_owned();
        self.window.comms.insert(tid, name);
    }

    fn lost(&mut self, at: Mono, cpu: Cpu, count: Option<u64>) {
        self.running.remove(&cpu);
        let kind = Kind::Lost { count, after: None };
        self.window.events.push(Event { at, cpu, current: None, level: Level::Unsaid, kind });
    }

    /// `None`: not a kind of this version.
    fn kind(&mut self, header: &Header, r: &[u8]) -> Option<Kind> {
        let (current, tid) = (Tid(i32_at(r, 16)), Tid(i32_at(r, 20)));
        let prio = |offset| Prio(i32::from(u16_at(r, offset) as i16));
        let word = u32_at(r, 28);
        let (first, second) = (u64_at(r, 32), u64_at(r, 40));
        let strings = &mut self.window.strings;
        let mut task = || TaskRef { tid, prio: Some(prio(26)), comm: comm(strings, &r[32..48]) };
        Some(match r[12] {
            1 => {
                let prev = TaskRef { tid: current, prio: Some(prio(24)), comm: None };
                Kind::Switch { prev, left_as: left_as(r[13] & 1 != 0, word), next: task() }
            }
            2 | 3 => Kind::Waking {
                task: task(),
                target_cpu: Some(Cpu(word)),
                new: r[12] == 3,
                waker_prio: header.has_wakers.then(|| prio(24)),
            },
            4 => Kind::Migrate { task: task(), from: Cpu(u32::from(u16_at(r, 14))), to: Cpu(word) },
            5 => Kind::PiSetprio { task: TaskRef { prio: None, ..task() }, old: prio(24), new: prio(26) },
            6 => Kind::IrqEntry { irq: word, name: None },
            7 => Kind::IrqExit { irq: word },
            8 => Kind::VectorEntry(vector(word)?),
            9 => Kind::VectorExit(vector(word)?),
            10 => Kind::SoftirqEntry { vec: u8::try_from(word).ok()? },
            11 => Kind::SoftirqExit { vec: u8::try_from(word).ok()? },
            12 => Kind::Nmi { duration: Ns(first) },
            13 => {
                let expires = u64_at(r, 24);
                let expires = (expires > 0).then_some(Mono(expires));
                let slack = NonZeroU32::new(tid.0.max(0).unsigned_abs());
                let function = self.function(second);
                Kind::TimerExpireEntry { timer: first, function, expires, now: None, slack }
            }
            14 => Kind::TimerExpireExit { timer: first },
            15 if word == u32::MAX => Kind::IdleExit,
            15 => Kind::IdleEnter { state: word },
            16 => Kind::CsdEntry { function: self.function(second), csd: first },
            17 => Kind::CsdExit { csd: first },
            18 => {
                let how = Faulted { read: word, written: (second >> 32) as u32, copied: tid.0 as u32 };
                Kind::PageFault { address: first, count: second as u32, how }
            }
            20 => Kind::HostSteal { taken: Ns(first), since: Mono(second) },
            21 => Kind::SysEnter { id: tid.0, args: [first, second, u64_at(r, 24), 0, 0, 0] },
            22 => Kind::SysExit { id: tid.0, ret: first as i64 },
            24 => Kind::CsdQueue { target_cpu: Cpu(word), function: self.function(second), csd: first },
            25 => {
                let sig = i32::try_from(word).ok()?;
                let task = TaskRef { prio: None, ..task() };
                Kind::SignalGenerate { sig, task, code: 0, result: 0 }
            }
            26 => Kind::SignalDeliver { sig: i32::try_from(word).ok()?, code: 0 },
            27 => Kind::found_in(word as i32),
            23 => Kind::Rename { tid, comm: task().comm },
            _ => return None,
        })
    }

    fn name(&mut self, address: u64) -> Option<String> {
        let symbol = &mut self.symbol;
        self.known.entry(address).or_insert_with(|| symbol(address)).clone()
    }

    /// The function at `address`, without an offset of zero; the address itself without a symbol.
    fn function(&mut self, address: u64) -> Option<super::event::Sym> {
        if address == 0 {
            return None;
        }
        let name = self.name(address).unwrap_or_else(|| format!("{address:#x}"));
        Some(self.window.strings.intern(name.strip_suffix("+0x0").unwrap_or(&name)))
    }

    fn stack(&mut self, cpu: Cpu, s: &[u8]) {
        let (depth, addresses) = addresses(s);
        let mut frames: Vec<String> = Vec::with_capacity(addresses.len());
        for address in addresses {
            let frame = self.name(address).unwrap_or_else(|| format!("{address:#x}"));
            // The innermost frames are those of the recorder itself.
            if !(frames.is_empty() && is_recorder(&frame)) {
                frames.push(frame);
            }
        }
        let in_user =
            if s[12] == LATE_TIMER && depth < STACK_DEPTH { interrupted_user(&frames) } else { None };
        let (at, tid) = (Mono(u64_at(s, 0)), Tid(i32_at(s, 8)));
        let enabled_there = match s[13] {
            ENABLED_THERE => Some(true),
            ENABLED_BEFORE => Some(false),
            _ => None,
        };
        self.window.stacks.push(StackSample { at, cpu, tid, frames, in_user, enabled_there });
    }
}

fn addresses(stack: &[u8]) -> (usize, Vec<u64>) {
    let depth = (u16_at(stack, 14) as usize).min(STACK_DEPTH);
    (depth, (0..depth).map(|i| u64_at(stack, 16 + 8 * i)).take_while(|&a| a != 0).collect())
}

/// Notes in the stacks of late timers whether interrupts were re-enabled at the interrupted instruction (`Some(true)`)
/// or were on before, according to the machine code. Whole chunks only; [`decode`] reports damage.
pub fn note_code(
    bytes: &mut [u8],
    mut symbol: impl FnMut(u64) -> Option<String>,
    mut enabled_there: impl FnMut(u64) -> Option<bool>,
) {
    let mut at = 0;
    while let Some(header) = bytes.get(at..).and_then(|rest| Header::parse(rest).ok()) {
        let end = at.saturating_add(header.chunk_bytes());
        let stacks = at + HEADER_BYTES + header.records as usize * RECORD_BYTES;
        let Some(stacks) = bytes.get_mut(stacks..end) else { return };
        for stack in stacks.chunks_exact_mut(STACK_BYTES).filter(|stack| stack[12] == LATE_TIMER) {
            let mut frames = addresses(stack).1.into_iter();
            frames.find(|&address| symbol(address).is_some_and(|name| is_interrupt_entry(&name)));
            stack[13] = match frames.next().and_then(&mut enabled_there) {
                Some(true) => ENABLED_THERE,
                Some(false) => ENABLED_BEFORE,
                None => 0,
            };
        }
        at = end;
    }
}

/// Whether `frame` is the assembly entry of an interrupt (arch/x86/include/asm/idtentry.h; arch/arm64/kernel/entry.S;
/// not the `el1h_64_irq_handler` called by it).
#[must_use]
pub fn is_interrupt_entry(frame: &str) -> bool {
    const ENTRIES: [&str; 4] = ["asm_sysvec_", "asm_common_interrupt", "el1h_64_irq", "el0t_64_irq"];
    ENTRIES.iter().any(|entry| frame.starts_with(entry)) && !frame.contains("_handler")
}

/// Whether the interrupt came from user mode: then its entry is the outermost frame of the kernel stack (x86:
/// `asm_sysvec_*`, `asm_common_interrupt`; arm64: `el0t_64_irq`); else an earlier entry to the kernel is. `None`
/// without symbols.
fn interrupted_user(frames: &[String]) -> Option<bool> {
    let outermost = frames.last().filter(|frame| !frame.starts_with("0x"))?;
    let entry = |frame: &String| is_interrupt_entry(frame) && !frame.starts_with("el1h_");
    // The entry is also outermost if a softirq at the end of an earlier interrupt was interrupted.
    Some(entry(outermost) && frames.iter().filter(|frame| entry(frame)).count() == 1)
}

fn is_recorder(frame: &str) -> bool {
    ["bpf_", "__bpf_", "__traceiter_", "___bpf_", "trace_call_bpf", "perf_trace_"]
        .iter()
        .any(|p| frame.starts_with(p))
}

/// The state bits of `task_struct::__state` (include/linux/sched.h): 0x80 is `TASK_DEAD`, 0x10 and 0x20 exit states.
pub(super) fn left_as(preempted: bool, state: u32) -> LeftAs {
    match state {
        _ if preempted => LeftAs::Runnable,
        0 => LeftAs::Runnable,
        state if state & 0xb0 != 0 => LeftAs::Dead,
        state => LeftAs::Blocked(state),
    }
}

/// Numbers of `enum vector` in host/src/bpf/interference.h.
#[must_use]
pub fn vector(number: u32) -> Option<Vector> {
    Some(match number {
        1 => Vector::LocalTimer,
        2 => Vector::Reschedule,
        3 => Vector::CallFunction,
        4 => Vector::CallFunctionSingle,
        5 => Vector::IrqWork,
        6 => Vector::ThermalApic,
        7 => Vector::DeferredError,
        8 => Vector::ThresholdApic,
        9 => Vector::ErrorApic,
        10 => Vector::SpuriousApic,
        11 => Vector::PlatformIpi,
        12 => Vector::Other(0),
        _ => return None,
    })
}

fn comm(strings: &mut Strings, bytes: &[u8]) -> Option<super::event::Sym> {
    let text = bytes.split(|&b| b == 0).next().unwrap_or_default();
    (!text.is_empty()).then(|| strings.intern(&String::from_utf8_lossy(text)))
}

// Callers pass slices whose length they have checked: headers, records and stacks are cut to size first.

#[cfg(test)]
#[path = "flight_tests.rs"]
mod tests;
