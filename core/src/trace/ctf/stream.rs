//! The events of one stream, packet by packet.

use super::super::item::{Damage, Item, Loss, Record, Span};
use super::super::merge;
use super::metadata::{Event, Stream as StreamClass};
use super::packet::Packet;
use super::{Ctf, TraceOf};
use crate::time::{Cpu, Mono};

#[derive(Debug)]
enum Head {
    Event { class: u32, first_bit: u64 },
    // Rare variants are boxed: a head is replaced for every event.
    Lost(Box<Loss>),
    Damage(Box<Damage>),
    End,
}

impl Head {
    fn damage(offset: u64, what: String) -> Head {
        Head::Damage(Box::new(Damage::new(offset, what)))
    }
}

/// Why the rest of a packet is unreadable.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum Wrong {
    #[error("an event header that is cut off")]
    Header,
    #[error("an event of unknown id {0}")]
    Unknown(u64),
    #[error("an event that reaches past the end of its packet")]
    Event,
    #[error("an event at {0}, which no clock shows")]
    Time(Mono),
    #[error("events of no size")]
    Empty,
}

/// A walk over one stream.
#[derive(Debug)]
pub(super) struct Stream<'t> {
    ctf: &'t Ctf<'t>,
    packets: &'t [Packet],
    /// The current packet, or the next to open.
    index: usize,
    open: Option<Open<'t>>,
    head: Head,
    queued: Option<Head>,
    at: u64,
    /// Cycles.
    clock: u64,
    last: Option<u64>,
    backwards: bool,
    /// Events lost in the open packet, not reported yet.
    loss: Option<Loss>,
    cpu: Cpu,
    origin: u16,
}

/// The current packet.
#[derive(Clone, Copy, Debug)]
struct Open<'t> {
    data: &'t [u8],
    bit: u64,
    class: &'t StreamClass,
    trace: &'t TraceOf,
    offset: u64,
}

impl<'t> Stream<'t> {
    pub fn begin(ctf: &'t Ctf<'t>, packets: &'t [Packet], span: Span) -> Self {
        let mut stream = Stream {
            ctf,
            packets,
            index: 0,
            open: None,
            head: Head::End,
            queued: None,
            at: 0,
            clock: 0,
            last: None,
            backwards: false,
            loss: None,
            cpu: Cpu(0),
            origin: 0,
        };
        if span.from.0 > 0 {
            // The last packet that starts before.
            let late = packets.partition_point(|packet| {
                packet
                    .begin
                    .is_none_or(|begin| ctf.ns(&ctf.traces[usize::from(packet.trace)], begin) < span.from.0)
            });
            stream.index = late.saturating_sub(1);
        }
        stream.head = stream.find();
        while !matches!(stream.head, Head::End) && stream.at < span.from.0 {
            merge::Stream::advance(&mut stream);
        }
        stream
    }

    /// Opens packet `self.index`; returns the item before its first event, if any.
    fn open_packet(&mut self) -> Option<Head> {
        let Some(packet) = self.packets.get(self.index) else { return Some(Head::End) };
        let trace = &self.ctf.traces[usize::from(packet.trace)];
        let class = trace.metadata.streams.get(&packet.stream)?;
        let file = self.ctf.files[packet.file as usize].1;
        let data = &file[packet.offset as usize..(packet.offset + packet.content) as usize];
        self.open = Some(Open { data, bit: packet.first_bit, class, trace, offset: packet.offset });
        self.cpu = Cpu(packet.cpu.unwrap_or(0));
        self.origin = packet.trace;
        if let Some(begin) = packet.begin {
            self.clock = begin;
        }
        let before = self.index.checked_sub(1).and_then(|index| self.packets.get(index));
        if let Some(count) = loss(packet, before) {
            self.loss = Some(self.place_loss(packet, before, trace, count));
        }
        // babeltrace 2 rejects such traces; the packets can still be read.
        let (begin, end) = (packet.begin?, before?.end?);
        if begin >= end || self.backwards {
            return None;
        }
        self.backwards = true;
        let (begin, end) = (Mono(self.ctf.ns(trace, begin)), Mono(self.ctf.ns(trace, end)));
        let what = format!(
            "CPU {}: time goes back: a packet begins at {begin}, the one before ended at {end}",
            self.cpu
        );
        Some(Head::damage(packet.offset, what))
    }

    /// Places the loss in the longest gap between events, from the end of the previous packet to the end of this one.
    fn place_loss(
        &mut self,
        packet: &Packet,
        before: Option<&Packet>,
        trace: &TraceOf,
        count: Option<u64>,
    ) -> Loss {
        let ns = |cycles| Some(self.ctf.ns(trace, cycles)).filter(|at| *at <= Mono::LATEST.0);
        let begin = packet.begin.and_then(ns).unwrap_or(0);
        let from = before.and_then(|before| before.end).and_then(ns).unwrap_or(begin);
        let end = packet.end.and_then(ns);
        let saved = (self.open, self.clock, self.at, self.last, self.backwards);
        let mut longest = (0, from, begin.max(from));
        let mut at = from;
        while let Some(open) = self.open {
            match self.event(open) {
                Ok(Some(Head::Event { .. })) if self.at.saturating_sub(at) > longest.0 => {
                    longest = (self.at - at, at, self.at);
                    at = self.at;
                }
                Ok(Some(_)) => at = self.at,
                Ok(None) | Err(_) => break,
            }
        }
        // In a truncated packet, the end is missing.
        if let Some(end) = end.filter(|end| end.saturating_sub(at) > longest.0 || !packet.is_whole) {
            longest = (end.saturating_sub(at), at, end.max(at));
        }
        (self.open, self.clock, self.at, self.last, self.backwards) = saved;
        self.queued = None;
        let to = end.unwrap_or(longest.2);
        Loss {
            cpu: self.cpu,
            after: Some(Mono(longest.1)),
            before: Mono(longest.2),
            count,
            origin: self.origin,
            inferred_within: Some(Span { from: Mono(from), to: Mono(to) }),
        }
    }

    fn find(&mut self) -> Head {
        loop {
            let Some(open) = self.open else {
                // A loss after the last event of its packet.
                if let Some(loss) = self.loss.take() {
                    self.at = loss.before.0.max(self.last.unwrap_or(0));
                    return Head::Lost(Box::new(loss));
                }
                match self.open_packet() {
                    Some(head) => return head,
                    None if self.open.is_none() => self.index += 1,
                    None => {}
                }
                continue;
            };
            match self.event(open) {
                Ok(Some(head)) if self.loss.is_none() => return head,
                Ok(Some(head)) => return self.after_loss(head),
                Ok(None) => self.close(),
                Err(what) => {
                    self.close();
                    let what = format!("{what}; the rest of the packet is skipped");
                    return Head::damage(open.offset + open.bit / 8, what);
                }
            }
        }
    }

    /// Reports a loss before the event that ends its gap.
    fn after_loss(&mut self, head: Head) -> Head {
        match self.loss {
            Some(loss) if matches!(head, Head::Event { .. }) && self.at >= loss.before.0 => {
                self.loss = None;
                self.queued = Some(head);
                Head::Lost(Box::new(loss))
            }
            _ => head,
        }
    }

    fn close(&mut self) {
        self.open = None;
        self.index += 1;
    }

    /// Reads one event; `None` at the end of the packet.
    #[inline]
    fn event(&mut self, open: Open<'t>) -> Result<Option<Head>, Wrong> {
        if open.bit + 8 > open.data.len() as u64 * 8 {
            return Ok(None);
        }
        let header = open.class.event_header.read(open.data, open.bit);
        let header = header.map_err(|_| Wrong::Header)?;
        if let Some((value, bits)) = header.clock {
            self.clock = advance_clock(self.clock, value, bits);
        }
        let Some(Event { class, layout, fixed_bits, cpu_leaf }) = open.class.events.get(header.id) else {
            return Err(Wrong::Unknown(header.id));
        };
        let first_bit = header.end;
        if let Some(cpu) = cpu_leaf.and_then(|leaf| layout.value(leaf, open.data, first_bit)?.bits()) {
            self.cpu = Cpu(cpu as u32);
        }
        let end = match fixed_bits {
            Some(bits) if first_bit + bits <= open.data.len() as u64 * 8 => first_bit + bits,
            Some(_) => return Err(Wrong::Event),
            None => layout.end(open.data, first_bit).map_err(|_| Wrong::Event)?,
        };
        if end == open.bit {
            return Err(Wrong::Empty);
        }
        if let Some(open) = &mut self.open {
            open.bit = end;
        }
        let now = self.ctf.ns(open.trace, self.clock);
        if now > Mono::LATEST.0 {
            return Err(Wrong::Time(Mono(now)));
        }
        self.at = now;
        let event = Head::Event { class: *class, first_bit };
        if self.last.is_some_and(|last| self.at < last) && !self.backwards {
            self.backwards = true;
            let last = Mono(self.last.unwrap_or(0));
            let what = format!("CPU {}: time goes back from {last} to {}", self.cpu, Mono(self.at));
            self.queued = Some(event);
            self.last = Some(self.at);
            return Ok(Some(Head::damage(open.offset + open.bit / 8, what)));
        }
        self.last = Some(self.at);
        Ok(Some(event))
    }
}

/// Number of events lost between `before` and the end of `packet`; `None`: none, `Some(None)`: unknown number.
fn loss(packet: &Packet, before: Option<&Packet>) -> Option<Option<u64>> {
    let jumped = match (before.and_then(|before| before.sequence), packet.sequence) {
        (Some(before), Some(now)) => before.checked_add(1).is_some_and(|next| now > next),
        _ => false,
    };
    match (before, packet.discarded) {
        _ if jumped || !packet.is_whole => Some(None),
        (Some(before), Some(now)) => {
            let lost = now.wrapping_sub(before.discarded.unwrap_or(0));
            // A decreased counter was reset, or has 32 bits and wrapped.
            let lost = if now >= before.discarded.unwrap_or(0) { lost } else { lost & 0xffff_ffff };
            (lost > 0).then_some(Some(lost))
        }
        (None, Some(now)) if now > 0 && packet.sequence == Some(0) => Some(Some(now)),
        _ => None,
    }
}

/// Extends a clock value of `bits` bits with the upper bits of the previous time, plus one if it wrapped.
fn advance_clock(before: u64, value: u64, bits: u8) -> u64 {
    if bits >= 64 {
        return value;
    }
    let mask = (1u64 << bits) - 1;
    let same = (before & !mask) | value;
    if same < before {
        same.wrapping_add(mask + 1)
    } else {
        same
    }
}

impl merge::Stream for Stream<'_> {
    #[inline]
    fn time(&self) -> Option<u64> {
        match self.head {
            Head::End => None,
            _ => Some(self.at),
        }
    }

    #[inline]
    fn item(&self) -> Item<'_> {
        match &self.head {
            Head::Event { class, first_bit } => Item::Event(Record {
                at: Mono(self.at),
                cpu: self.cpu,
                class: *class,
                origin: self.origin,
                data: self.open.map_or(&[][..], |open| open.data),
                first_bit: *first_bit,
            }),
            Head::Lost(loss) => Item::Lost(**loss),
            Head::Damage(damage) => Item::Damage(Damage::clone(damage)),
            Head::End => Item::Damage(Damage::new(0, "the walk is over")),
        }
    }

    #[inline]
    fn advance(&mut self) {
        if matches!(self.head, Head::End) {
            return;
        }
        self.head = if self.queued.is_some() { self.queued.take().unwrap_or(Head::End) } else { self.find() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_stamps_wrap_forward() {
        assert_eq!(advance_clock(0x1_0000_0005, 0x9, 32), 0x1_0000_0009);
        assert_eq!(advance_clock(0x1_ffff_fff0, 0x3, 32), 0x2_0000_0003);
        assert_eq!(advance_clock(77, 5, 64), 5);
    }
}
