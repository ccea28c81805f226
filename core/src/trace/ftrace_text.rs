//! Text of ftrace: `trace-cmd report`, `/sys/kernel/tracing/trace`, and the latency format, also pasted from mail.
//!
//! Each line becomes a record with fields under the kernel's names, so that everything behind this sees no difference
//! to a binary trace. Forms differ by tool and kernel (four to seven flag columns, thread groups, microseconds or
//! nanoseconds); what is not understood is left out and counted, never guessed. The text is read once when it is opened,
//! for its classes, names and losses, and again by each walk: nothing is kept of its events, so that memory does not
//! grow with it.
//!
//! Text has function names instead of addresses: names get artificial addresses, which [`Symbols`] resolves.

mod fields;
pub mod foreign;
pub(crate) mod line;
mod lines;
mod ordered;
mod pieces;
mod shapes;
pub mod tidy;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use super::item::{Damage, Span};
use super::kallsyms::Symbols;
use super::merge::Stream;
use super::source::{About, Clock, OpenError, Pieces, Source};
use crate::printable;
use crate::time::{Mono, Tid};
use line::{EventLine, Line};
use lines::Lines;
use pieces::{fields_of, Cutter, Ground, Piece, Walk};
use shapes::Shapes;

/// Releases memory that holds bytes of a file; the next access reads them from the file again.
pub trait Release: Sync {
    /// `bytes` are not needed for now.
    fn release(&self, bytes: &[u8]);
}

/// An opened text.
pub struct FtraceText<'t> {
    text: Cow<'t, [u8]>,
    /// Owner of the memory of the text.
    release: Option<&'t dyn Release>,
    about: About,
    shapes: Shapes,
    pieces: Vec<Piece>,
    losses: Vec<LossLine>,
}

/// A line that reports lost events.
#[derive(Clone, Copy, Debug)]
struct LossLine {
    /// Time of the next event of the CPU.
    at: u64,
    line: usize,
    cpu: u32,
    count: Option<u64>,
}

impl LossLine {
    /// Sort key, as for events.
    fn key(&self) -> (u64, usize) {
        (self.at, self.line)
    }
}

const NO_EVENT: &str = "a line that is no event";

/// Number of lines read before a text is rejected.
const LINES_TO_RECOGNISE: usize = 2000;

/// Number of bytes after which memory is released.
const AT_ONCE: usize = 1 << 20;

impl<'t> FtraceText<'t> {
    /// Reads a whole text.
    ///
    /// # Errors
    /// No line in it looks like an event.
    pub fn open(text: &'t [u8]) -> Result<Self, OpenError> {
        FtraceText::of(text, None)
    }

    /// As [`FtraceText::open`], for a mapped file, whose memory `release` releases.
    ///
    /// # Errors
    /// No line in it looks like an event.
    pub fn open_releasing(text: &'t [u8], release: &'t dyn Release) -> Result<Self, OpenError> {
        FtraceText::of(text, Some(release))
    }

    fn of(text: &'t [u8], release: Option<&'t dyn Release>) -> Result<Self, OpenError> {
        let (text, release) = match tidy::bytes(text) {
            Cow::Borrowed(text) => (Cow::Borrowed(text), release),
            Cow::Owned(text) => (Cow::Owned(text), None),
        };
        recognise(&text)?;
        let mut reading = Reading::default();
        let mut lines = Lines::within(&text, 0, text.len());
        let mut released = 0;
        while let Some((begin, line)) = lines.next() {
            let (end, is_last) = (lines.at(), lines.at() == text.len());
            // Cut off at any place, it may end within a number.
            let is_cut = is_last && !text.ends_with(b"\n") && reading.lines + 1 < reading.announced;
            if !is_cut {
                reading.line(&line, begin, end);
            }
            if end - released >= AT_ONCE || is_last {
                release.iter().for_each(|release| release.release(&text[released..end]));
                released = end;
            }
        }
        Ok(reading.finish(text, release))
    }

    fn ground(&self) -> Ground<'_> {
        Ground { text: &self.text, about: &self.about, shapes: &self.shapes, release: self.release }
    }
}

impl fmt::Debug for FtraceText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FtraceText")
            .field("about", &self.about)
            .field("losses", &self.losses)
            .finish_non_exhaustive()
    }
}

/// Whether the first lines have events.
fn recognise(text: &[u8]) -> Result<(), OpenError> {
    let mut lines = Lines::within(text, 0, text.len());
    let mut is_without_cpu = false;
    for _ in 0..LINES_TO_RECOGNISE {
        let Some((_, line)) = lines.next() else { break };
        match line::parse(&line) {
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

#[derive(Default)]
struct Reading {
    about: About,
    shapes: Shapes,
    cutter: Cutter,
    losses: Vec<LossLine>,
    /// Losses of each CPU behind which no event was seen yet.
    open_losses: HashMap<u32, Vec<usize>>,
    kallsyms: String,
    not_understood: u64,
    overwritten: u64,
    /// Number of events in the heading, and of lines that may be events.
    announced: u64,
    lines: u64,
    /// The CPU whose buffer starts last.
    started: Option<u32>,
    last: u64,
    /// Time of the first and of the last event of each CPU.
    reach: HashMap<u32, (u64, u64)>,
    first_cpu: Option<u32>,
    backwards: bool,
}

impl Reading {
    fn line(&mut self, text: &str, begin: usize, end: usize) {
        self.lines += u64::from(!text.starts_with('#') && !text.trim_ascii().is_empty());
        match line::parse(text) {
            Some(Line::Event(event)) if event.at <= Mono::LATEST.0 => self.event(&event, begin, end),
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
            Some(Line::Comment) => {}
            Some(Line::Event(_) | Line::Timeless) | None => {
                self.not_understood += 1;
                if self.not_understood == 1 {
                    let shown: String = text.chars().take(60).collect();
                    let what = format!("{NO_EVENT}: '{shown}'");
                    self.about.info.damage.push(Damage::new(begin as u64, what));
                }
            }
        }
    }

    fn event(&mut self, event: &EventLine<'_>, begin: usize, end: usize) {
        let (tid, comms) = (Tid(event.tid), &mut self.about.info.comms);
        let is_named = !event.comm.is_empty() && event.comm != "<...>";
        if is_named && comms.get(&tid).is_none_or(|known| known != event.comm) {
            comms.insert(tid, printable::line(event.comm).into_owned());
        }
        let (name, fields) = fields_of(event);
        self.shapes.learn(&mut self.about.catalogue, &mut self.kallsyms, &name, &fields);
        self.cutter.event(begin, end, event.at);
        self.last = event.at;
        self.first_cpu.get_or_insert(event.cpu);
        if !self.open_losses.is_empty() {
            let losses = self.open_losses.remove(&event.cpu).unwrap_or_default();
            losses.into_iter().for_each(|loss| self.losses[loss].at = event.at);
        }
        let reach = self.reach.entry(event.cpu).or_insert((event.at, event.at));
        let before = std::mem::replace(&mut reach.1, event.at);
        if event.at < before && !self.backwards {
            self.backwards = true;
            let (cpu, before, now) = (event.cpu, Mono(before), Mono(event.at));
            let what = format!(
                "CPU {cpu}: time goes back from {before} to {now}: the lines were sorted or are of two recordings"
            );
            self.about.info.damage.push(Damage::new(begin as u64, what));
        }
    }

    fn finish<'t>(mut self, text: Cow<'t, [u8]>, release: Option<&'t dyn Release>) -> FtraceText<'t> {
        let info = &mut self.about.info;
        let foreign = |damage: &&mut Damage| damage.what.starts_with(NO_EVENT);
        if let (Some(first), 2..) = (info.damage.iter_mut().find(foreign), self.not_understood) {
            let more = self.not_understood - 1;
            let were = if more == 1 { "1 more line is" } else { &format!("{more} more lines are") };
            first.what.push_str(&format!("; {were} none: events are missing"));
        }
        if self.lines < self.announced {
            let (lines, announced) = (self.lines, self.announced);
            let what = format!("the heading tells of {announced} events, and {lines} lines are here: the text was cut or filtered");
            info.damage.push(Damage::new(0, what));
        }
        // Until the last CPU's first event the record has gaps.
        let begins = self.started.or(self.first_cpu).filter(|_| self.overwritten > 0);
        if let Some((cpu, (at, _))) = begins.and_then(|cpu| Some((cpu, *self.reach.get(&cpu)?))) {
            self.losses.push(LossLine { at, line: 0, cpu, count: Some(self.overwritten) });
        }
        self.losses.sort_unstable_by_key(LossLine::key);
        info.format = "ftrace text".into();
        info.clock = Clock::default();
        let cpus = self.reach.keys().copied().chain(self.losses.iter().map(|loss| loss.cpu));
        info.cpus = cpus.map(|cpu| cpu.saturating_add(1)).max();
        info.origins = vec![String::new()];
        self.about.symbols = Symbols::new(self.kallsyms.into_bytes());
        let (about, shapes, pieces) = (self.about, self.shapes, self.cutter.finish());
        FtraceText { text, release, about, shapes, pieces, losses: self.losses }
    }
}

impl Source for FtraceText<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        vec![Box::new(Walk::new(self.ground(), &self.pieces, &self.losses, span.from.0))]
    }

    fn pieces(&self) -> Vec<Pieces<'_>> {
        let follows = |pair: &[Piece]| pair[0].last <= pair[1].first && pair[0].begin < pair[1].begin;
        if self.pieces.is_empty() || !self.pieces.windows(2).all(follows) {
            return vec![Box::new(self.streams(Span::ALL).into_iter())];
        }
        let mut rest = &self.losses[..];
        let pieces = (0..self.pieces.len()).map(move |index| {
            let next = self.pieces.get(index + 1);
            let is_here = |next: &Piece| rest.partition_point(|loss| loss.key() <= next.key());
            let here = next.map_or(rest.len(), is_here);
            let (losses, behind) = rest.split_at(here);
            rest = behind;
            let walk = Walk::new(self.ground(), &self.pieces[index..=index], losses, 0);
            Box::new(walk) as Box<dyn Stream + '_>
        });
        vec![Box::new(pieces)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::item::Item;

    fn events(text: &FtraceText<'_>) -> usize {
        let mut walk = text.events(Span::ALL);
        let mut events = 0;
        while let Some(item) = walk.next() {
            events += usize::from(matches!(item, Item::Event(_)));
        }
        events
    }

    fn damage(text: &str) -> Vec<String> {
        FtraceText::open(text.as_bytes()).unwrap().info().damage.iter().map(ToString::to_string).collect()
    }

    /// `prio=12` of what was 120 would be a thread of RT 87.
    #[test]
    fn a_text_with_fewer_events_than_its_heading_tells_of_is_told_as_cut_and_so_is_its_last_line() {
        let line = "  a-1  [000]  1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
        let whole = format!("# entries-in-buffer/entries-written: 2/2   #P:2\n#\n{line}{line}");
        assert!(damage(&whole).is_empty(), "{:?}", damage(&whole));
        let less = whole.strip_suffix(line).unwrap();
        assert!(damage(less)[0].contains("tells of 2 events, and 1 lines are here"), "{:?}", damage(less));
        // Within a line it is no event, unless all others are there: pasted texts may lack the last end of a line.
        let within = |text: &str| events(&FtraceText::open(&text.as_bytes()[..text.len() - 17]).unwrap());
        let more = whole.replace("2/2", "4/4") + line;
        assert!(more[..more.len() - 17].ends_with("prio=12"));
        assert_eq!((within(&more), within(&whole)), (2, 2));
        assert!(damage(&more[..more.len() - 17])[0].contains("tells of 4 events, and 2 lines are here"));
        assert!(damage(whole.trim_end()).is_empty());
    }

    #[test]
    fn time_that_goes_back_on_a_cpu_is_damage_and_between_cpus_is_none() {
        let line = |cpu: u32, at: u32| {
            format!("  a-1  [00{cpu}]  1.00000{at}: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n")
        };
        let text = |of: &[(u32, u32)]| of.iter().map(|&(cpu, at)| line(cpu, at)).collect::<String>();
        assert_eq!(damage(&text(&[(0, 1), (1, 3), (0, 2), (1, 3)])), [""; 0]);
        let told = damage(&text(&[(0, 1), (1, 3), (0, 2), (1, 2), (1, 1)]));
        assert!(told.len() == 1 && told[0].contains("CPU 1: time goes back"), "{told:?}");
    }

    #[test]
    fn lines_that_are_no_events_are_counted_in_what_is_damaged() {
        let whole = "  a-1  [000]  1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
        let damage = |cut: &[&str]| damage(&(whole.to_owned() + &cut.join("\n") + "\n"));
        let told: Vec<String> = damage(&[]);
        assert!(told.is_empty());
        let told: Vec<String> = damage(&["  a-1  [00", "  b-2", "x"]);
        let [told] = &told[..] else { panic!("{told:?}") };
        assert!(
            told.ends_with(
                "a line that is no event: '  a-1  [00'; 2 more lines are none: events are missing"
            ),
            "{told}"
        );
    }

    /// Time, CPU and count (events have none) of what streams show.
    fn shown<'t>(streams: impl Iterator<Item = Box<dyn Stream + 't>>) -> Vec<(u64, u32, Option<u64>)> {
        let mut all = Vec::new();
        for mut stream in streams {
            while stream.time().is_some() {
                all.push(match stream.item() {
                    Item::Event(record) => (record.at.0, record.cpu.0, None),
                    Item::Lost(loss) => (loss.before.0, loss.cpu.0, loss.count),
                    Item::Damage(damage) => panic!("{damage}"),
                });
                stream.advance();
            }
        }
        all
    }

    proptest::proptest! {
        /// A stable sort of the lines, each loss at the time of the next event of its CPU.
        #[test]
        fn lines_in_any_order_are_walked_in_the_order_of_time(
            lines in proptest::collection::vec((0u32..3, 0u64..60, 0u8..6), 1..80),
            is_sorted: bool,
            from in 0u64..60,
        ) {
            let mut lines = lines;
            lines[0].2 = 1;
            if is_sorted {
                lines.sort_by_key(|line| line.1);
            }
            let (mut text, mut wanted, mut last) = (String::new(), Vec::new(), 0);
            for (place, &(cpu, at, kind)) in lines.iter().enumerate() {
                if kind == 0 {
                    text += &format!("CPU:{cpu} [LOST {} EVENTS]\n", place + 1);
                    let next = lines[place..].iter().find(|line| line.2 > 0 && line.0 == cpu);
                    wanted.push((next.map_or(last, |next| next.1) * 1000, cpu, Some(place as u64 + 1)));
                } else {
                    text += &format!("  a-1  [00{cpu}]  0.{at:06}: sched_waking: comm=b pid=2 prio=9 target_cpu=000\n");
                    wanted.push((at * 1000, cpu, None));
                    last = at;
                }
            }
            wanted.sort_by_key(|line| line.0);
            let source = FtraceText::open(text.as_bytes()).unwrap();
            proptest::prop_assert_eq!(shown(source.streams(Span::ALL).into_iter()), wanted.clone());
            proptest::prop_assert_eq!(shown(source.pieces().into_iter().flatten()), wanted.clone());
            let span = Span { from: Mono(from * 1000), ..Span::ALL };
            wanted.retain(|line| line.0 >= from * 1000);
            proptest::prop_assert_eq!(shown(source.streams(span).into_iter()), wanted);
        }
    }

    /// Bytes that are no UTF-8 stand in names of threads that were cut.
    #[test]
    fn a_line_that_is_no_utf8_is_read_in_its_place() {
        let line = |at: u32| {
            format!("  a-1  [000]  1.00000{at}: sched_waking: comm=X pid=2 prio=9 target_cpu=000\n")
        };
        let mut text = (1..5).map(line).collect::<String>().into_bytes();
        let place = text.iter().rposition(|byte| *byte == b'X').unwrap();
        text[place] = 0xc3;
        let source = FtraceText::open(&text).unwrap();
        assert_eq!(shown(source.streams(Span::ALL).into_iter()).len(), 4);
    }
}
