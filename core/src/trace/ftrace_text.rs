//! Text of ftrace, as people paste it: `trace-cmd report`, `/sys/kernel/tracing/trace`, and the latency format.
//!
//! Each line becomes a record with fields under the kernel's names, so that everything behind this sees no difference
//! to a binary trace. Forms differ by tool and kernel (four to seven flag columns, thread groups, microseconds or
//! nanoseconds); what is not understood is left out and counted, never guessed. Text is for small traces: it is kept
//! in memory as a whole.
//!
//! Functions appear by name, not by address: names get addresses of their own, which [`Symbols`] turns back.

mod fields;
pub(crate) mod line;
mod ordered;
pub mod tidy;

use std::collections::HashMap;

use super::bytes::Order;
use super::catalogue::{Catalogue, EventClass, Field, Place};
use super::item::{Damage, Item, Loss, Record, Span};
use super::kallsyms::Symbols;
use super::merge::Stream;
use super::source::{About, Clock, Info, OpenError, Source};
use super::value::Element;
use crate::printable;
use crate::time::{Cpu, Mono, Tid};
use fields::FieldValue;
use line::Line;

/// An opened text.
#[derive(Debug)]
pub struct FtraceText {
    about: About,
    entries: Vec<Entry>,
    data: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    cpu: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Event { class: u32, begin: usize, end: usize },
    Lost { count: Option<u64> },
}

const NO_EVENT: &str = "a line that is no event";

/// Lines that are looked at before a text is called foreign.
const LINES_TO_RECOGNISE: usize = 2000;

impl FtraceText {
    /// Reads a whole text.
    ///
    /// # Errors
    /// No line in it looks like an event.
    pub fn open(text: &[u8]) -> Result<Self, OpenError> {
        let text = tidy::text(text);
        let mut first = text.lines().take(LINES_TO_RECOGNISE).filter_map(line::parse);
        match first.find(|line| matches!(line, Line::Event(_) | Line::Timeless)) {
            Some(Line::Event(_)) => {}
            Some(_) => {
                let what = "its times are not seconds (clock x86-tsc, counter or uptime): record with `trace-cmd record -C mono`, or `echo mono > trace_clock`";
                return Err(OpenError::Unsupported(what.into()));
            }
            None if text.lines().take(LINES_TO_RECOGNISE).any(line::is_without_cpu) => {
                let what = "text of perf script without CPUs: print them with `perf script -F +cpu`, or name the perf.data itself";
                return Err(OpenError::Unsupported(what.into()));
            }
            None => {
                let what = "not a text of ftrace: no line of an event among the first";
                return Err(OpenError::Foreign(what.into()));
            }
        }
        let mut reading = Reading::default();
        let mut offset = 0u64;
        let mut rest = text.split_inclusive('\n').peekable();
        while let Some(line) = rest.next() {
            // Cut off at any place, it may end within a number.
            let is_cut =
                !line.ends_with('\n') && rest.peek().is_none() && reading.lines + 1 < reading.announced;
            if !is_cut {
                reading.line(line.trim_end_matches(['\n', '\r']), offset);
            }
            offset += line.len() as u64;
        }
        Ok(reading.finish())
    }
}

/// Field names and whether each is a text: what makes two lines of one event the same class.
type Shape = (String, Vec<(String, bool)>);

#[derive(Default)]
struct Reading {
    info: Info,
    catalogue: Catalogue,
    classes: HashMap<Shape, u32>,
    entries: Vec<Entry>,
    data: Vec<u8>,
    functions: HashMap<String, u64>,
    kallsyms: String,
    not_understood: u64,
    overwritten: u64,
    /// Events that the heading tells of, and lines that may be one.
    announced: u64,
    lines: u64,
    /// The CPU whose buffer begins last.
    started: Option<u32>,
    last: u64,
    /// Time of the last event of each CPU.
    last_of: HashMap<u32, u64>,
    backwards: bool,
}

impl Reading {
    fn line(&mut self, text: &str, offset: u64) {
        self.lines += u64::from(!text.starts_with('#') && !text.trim().is_empty());
        match line::parse(text) {
            Some(Line::Event(event)) if event.at <= Mono::LATEST.0 => {
                if !event.comm.is_empty() && event.comm != "<...>" {
                    self.info.comms.insert(Tid(event.tid), printable::line(event.comm).into_owned());
                }
                let mut fields = vec![("common_pid".to_owned(), FieldValue::Number(event.tid.into()))];
                let flags = event.flags.map(|flags| FieldValue::Number(flags.into()));
                fields.extend(flags.map(|flags| ("common_flags".to_owned(), flags)));
                let (name, own) = fields::parse(event.name, event.fields);
                fields.extend(own);
                let (begin, class) = self.record(&name, &fields);
                self.last = event.at;
                let before = self.last_of.insert(event.cpu, event.at).unwrap_or(0);
                if event.at < before && !self.backwards {
                    self.backwards = true;
                    let (cpu, before, now) = (event.cpu, Mono(before), Mono(event.at));
                    let what = format!(
                        "CPU {cpu}: time goes back from {before} to {now}: the lines were sorted or are of two recordings"
                    );
                    self.info.damage.push(Damage::new(offset, what));
                }
                let what = What::Event { class, begin, end: self.data.len() };
                self.entries.push(Entry { at: event.at, cpu: event.cpu, what });
            }
            Some(Line::Lost { cpu, count }) => {
                // Printed before the first event behind the gap.
                self.entries.push(Entry { at: self.last, cpu, what: What::Lost { count } });
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
                    self.info.damage.push(Damage::new(offset, format!("{NO_EVENT}: '{shown}'")));
                }
            }
        }
    }

    /// Lays fields out as a binary record: eight bytes for each, texts behind.
    fn record(&mut self, name: &str, fields: &[(String, FieldValue)]) -> (usize, u32) {
        let begin = self.data.len();
        let mut texts: Vec<u8> = Vec::new();
        for (_, value) in fields {
            let word = match value {
                FieldValue::Number(number) => *number as u64,
                FieldValue::Function(function) => self.address(function),
                FieldValue::Text(text) => {
                    let len = text.len().min(0xffff);
                    let at = (8 * fields.len() + texts.len()).min(0xffff);
                    texts.extend_from_slice(&text.as_bytes()[..len]);
                    (len as u64) << 16 | at as u64
                }
            };
            self.data.extend_from_slice(&word.to_le_bytes());
        }
        self.data.extend_from_slice(&texts);
        let shape: Shape = (
            name.to_owned(),
            fields.iter().map(|(name, value)| (name.clone(), matches!(value, FieldValue::Text(_)))).collect(),
        );
        if let Some(&class) = self.classes.get(&shape) {
            return (begin, class);
        }
        let place = |(index, (name, text)): (usize, &(String, bool))| {
            let offset = 8 * index as u32;
            let element = Element { size: 1, signed: false, text: true };
            let place = match text {
                true => Place::DataLoc { offset, relative: false, element },
                false => Place::Int { offset, size: 8, signed: true },
            };
            Field { name: name.clone(), place }
        };
        let fields = shape.1.iter().enumerate().map(place).collect();
        let class = EventClass {
            system: String::new(),
            name: name.to_owned(),
            fields,
            order: Order::Little,
            dynamic: None,
        };
        let class = self.catalogue.add(class);
        self.classes.insert(shape, class);
        (begin, class)
    }

    fn address(&mut self, function: &str) -> u64 {
        let next = 0x1000 + 16 * self.functions.len() as u64;
        match self.functions.get(function) {
            Some(&known) => known,
            None => {
                self.kallsyms.push_str(&format!("{next:016x} T {function}\n"));
                self.functions.insert(function.to_owned(), next);
                next
            }
        }
    }

    fn finish(mut self) -> FtraceText {
        let foreign = |damage: &&mut Damage| damage.what.starts_with(NO_EVENT);
        if let (Some(first), 2..) = (self.info.damage.iter_mut().find(foreign), self.not_understood) {
            let more = self.not_understood - 1;
            let were = if more == 1 { "1 more line is" } else { &format!("{more} more lines are") };
            first.what.push_str(&format!("; {were} none: events are missing"));
        }
        if self.lines < self.announced {
            let (lines, announced) = (self.lines, self.announced);
            let what = format!("the heading tells of {announced} events, and {lines} lines are here: the text was cut or filtered");
            self.info.damage.push(Damage::new(0, what));
        }
        if self.overwritten > 0 {
            // Until the last CPU's first event the record has gaps.
            let begins = |entry: &&Entry| self.started.is_none_or(|cpu| entry.cpu == cpu);
            if let Some(first) = self.entries.iter().find(begins).copied() {
                let what = What::Lost { count: Some(self.overwritten) };
                self.entries.insert(0, Entry { what, ..first });
            }
        }
        // A loss is printed before the event behind it: it takes that event's time.
        let mut behind: HashMap<u32, u64> = HashMap::new();
        for entry in self.entries.iter_mut().rev() {
            match entry.what {
                What::Event { .. } => drop(behind.insert(entry.cpu, entry.at)),
                What::Lost { .. } => entry.at = behind.get(&entry.cpu).copied().unwrap_or(entry.at),
            }
        }
        self.entries.sort_by_key(|entry| entry.at);
        self.info.format = "ftrace text".into();
        self.info.clock = Clock::default();
        self.info.cpus = self.entries.iter().map(|entry| entry.cpu.saturating_add(1)).max();
        self.info.origins = vec![String::new()];
        let symbols = Symbols::new(self.kallsyms.into_bytes());
        let about = About { info: self.info, catalogue: self.catalogue, symbols };
        FtraceText { about, entries: self.entries, data: self.data }
    }
}

/// A walk over the lines.
struct Walk<'t> {
    text: &'t FtraceText,
    next: usize,
}

impl Stream for Walk<'_> {
    fn time(&self) -> Option<u64> {
        self.text.entries.get(self.next).map(|entry| entry.at)
    }

    fn item(&self) -> Item<'_> {
        let Some(entry) = self.text.entries.get(self.next) else {
            return Item::Damage(Damage::new(0, "the walk is over"));
        };
        let (at, cpu) = (Mono(entry.at), Cpu(entry.cpu));
        match entry.what {
            What::Event { class, begin, end } => {
                let data = self.text.data.get(begin..end).unwrap_or(&[]);
                Item::Event(Record { at, cpu, class, origin: 0, data, first_bit: 0 })
            }
            What::Lost { count } => {
                Item::Lost(Loss { cpu, after: None, before: at, count, origin: 0, inferred_within: None })
            }
        }
    }

    fn advance(&mut self) {
        self.next = (self.next + 1).min(self.text.entries.len());
    }
}

impl Source for FtraceText {
    fn about(&self) -> &About {
        &self.about
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        let next = self.entries.partition_point(|entry| entry.at < span.from.0);
        vec![Box::new(Walk { text: self, next })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let within =
            |text: &str| FtraceText::open(&text.as_bytes()[..text.len() - 17]).unwrap().entries.len();
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
}
