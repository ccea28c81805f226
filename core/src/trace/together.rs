//! Recordings of one machine by one clock, read as one: the kernel's and those of instrumented programs.
//!
//! The first source gives what there is only once: symbols, priorities' bias, the machine. Event classes of all stand
//! in one catalogue. Nothing is shifted: sources whose clocks differ are refused, for a guess of a few µs between two
//! clocks would turn causes into effects.

use super::catalogue::Catalogue;
use super::event::Window;
use super::kallsyms::Symbols;
use super::merge::{Merged, Stream};
use super::source::{Events, Info, Item, Loss, OpenError, Record, Source, Span};

/// Several sources as one.
pub struct Together<'s> {
    parts: Vec<Part<'s>>,
    info: Info,
    catalogue: Catalogue,
}

struct Part<'s> {
    source: Box<dyn Source + 's>,
    first_class: u32,
    first_origin: u16,
}

impl<'s> Together<'s> {
    /// `first`, which has the kernel's events, and `others`.
    ///
    /// # Errors
    /// A source is not by `CLOCK_MONOTONIC`, or cannot be merged.
    pub fn new(first: Box<dyn Source + 's>, others: Vec<Box<dyn Source + 's>>) -> Result<Self, OpenError> {
        let mut together =
            Together { parts: Vec::new(), info: first.info().clone(), catalogue: Catalogue::default() };
        together.info.origins.clear();
        for (index, source) in std::iter::once(first).chain(others).enumerate() {
            let info = source.info();
            if !info.clock.is_monotonic() {
                return Err(OpenError::Unsupported(format!(
                    "{} by the clock '{}' beside others by 'mono': give them to explain one at a time",
                    info.format, info.clock.name
                )));
            }
            if index > 0 {
                together.info.format = format!("{} and {}", together.info.format, info.format);
                together.info.cpus = together.info.cpus.max(info.cpus);
                together.info.damage.extend(info.damage.iter().cloned());
                together.info.notes.extend(info.notes.iter().cloned());
                for (tid, comm) in &info.comms {
                    together.info.comms.entry(*tid).or_insert_with(|| comm.clone());
                }
            }
            let first_class = together.catalogue.classes().len() as u32;
            let first_origin = together.info.origins.len() as u16;
            source.catalogue().classes().iter().for_each(|class| {
                together.catalogue.add(class.clone());
            });
            together.info.origins.extend(info.origins.iter().cloned());
            together.parts.push(Part { source, first_class, first_origin });
        }
        Ok(together)
    }
}

impl Source for Together<'_> {
    fn info(&self) -> &Info {
        &self.info
    }

    fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    fn symbols(&self) -> &Symbols {
        static NONE: std::sync::OnceLock<Symbols> = std::sync::OnceLock::new();
        let first = self.parts.first().map(|part| part.source.symbols());
        first.unwrap_or_else(|| NONE.get_or_init(Symbols::default))
    }

    fn events(&self, span: Span) -> Box<dyn Events + '_> {
        Box::new(Merged::new(self.streams(span), span))
    }

    fn enrich(&self, window: &mut Window) {
        self.parts.iter().for_each(|part| part.source.enrich(window));
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        let of_part = |part| Part::streams(part, span);
        self.parts.iter().flat_map(of_part).collect()
    }
}

impl Part<'_> {
    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        let Part { source, first_class, first_origin } = self;
        let shifted = |stream| Shifted { stream, class: *first_class, origin: *first_origin };
        source.streams(span).into_iter().map(|stream| Box::new(shifted(stream)) as _).collect()
    }
}

/// A stream whose classes and origins stand behind those of the sources before it.
struct Shifted<'s> {
    stream: Box<dyn Stream + 's>,
    class: u32,
    origin: u16,
}

impl Stream for Shifted<'_> {
    fn time(&self) -> Option<u64> {
        self.stream.time()
    }

    fn item(&self) -> Item<'_> {
        match self.stream.item() {
            Item::Event(record) => Item::Event(Record {
                class: record.class + self.class,
                origin: record.origin + self.origin,
                ..record
            }),
            Item::Lost(loss) => Item::Lost(Loss { origin: loss.origin + self.origin, ..loss }),
            damage @ Item::Damage(_) => damage,
        }
    }

    fn advance(&mut self) {
        self.stream.advance();
    }
}
