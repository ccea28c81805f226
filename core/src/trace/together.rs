//! Merges recordings of one machine with one clock: that of the kernel and those of instrumented programs.
//!
//! The first source provides symbols, bias of priorities and machine. The event classes of all are in one catalogue.
//! Times are not shifted: sources with different clocks are refused, because an error of a few µs would swap causes and
//! effects.

use super::item::{Item, Loss, Record, Span};
use super::kallsyms::Symbols;
use super::merge::Stream;
use super::source::{About, OpenError, Pieces, Source};
use super::window::Window;
use crate::time::Mono;

/// Several sources as one.
pub struct Together<'s> {
    parts: Vec<Part<'s>>,
    about: About,
}

struct Part<'s> {
    source: Box<dyn Source + 's>,
    first_class: u32,
    first_origin: u16,
}

impl<'s> Together<'s> {
    /// Merges `first`, which has the kernel's events, with `others`.
    ///
    /// # Errors
    /// A source does not use `CLOCK_MONOTONIC`, or cannot be merged.
    pub fn new(first: Box<dyn Source + 's>, others: Vec<Box<dyn Source + 's>>) -> Result<Self, OpenError> {
        let about = About { info: first.info().clone(), ..About::default() };
        let mut together = Together { parts: Vec::new(), about };
        together.about.info.origins.clear();
        for (index, source) in std::iter::once(first).chain(others).enumerate() {
            let info = source.info();
            if !info.clock.is_monotonic() {
                return Err(OpenError::Unsupported(format!(
                    "{} by the clock '{}' beside others by 'mono': give them to explain one at a time",
                    info.format, info.clock.name
                )));
            }
            if index > 0 {
                together.about.info.format = format!("{} and {}", together.about.info.format, info.format);
                together.about.info.cpus = together.about.info.cpus.max(info.cpus);
                together.about.info.damage.extend(info.damage.iter().cloned());
                together.about.info.notes.extend(info.notes.iter().cloned());
                together.about.info.limits.extend(info.limits.iter().cloned());
                for (tid, comm) in &info.comms {
                    together.about.info.comms.entry(*tid).or_insert_with(|| comm.clone());
                }
            }
            let first_class = together.about.catalogue.classes().len() as u32;
            let first_origin = together.about.info.origins.len() as u16;
            source.catalogue().classes().iter().for_each(|class| {
                together.about.catalogue.add(class.clone());
            });
            together.about.info.origins.extend(info.origins.iter().cloned());
            together.parts.push(Part { source, first_class, first_origin });
        }
        Ok(together)
    }
}

impl Source for Together<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn symbols(&self) -> &Symbols {
        self.parts.first().map_or(&self.about.symbols, |part| part.source.symbols())
    }

    fn complete_from(&self) -> Option<Mono> {
        self.parts.iter().filter_map(|part| part.source.complete_from()).max()
    }

    fn enrich(&self, window: &mut Window) {
        self.parts.iter().for_each(|part| part.source.enrich(window));
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        let of_part = |part| Part::streams(part, span);
        self.parts.iter().flat_map(of_part).collect()
    }

    fn pieces(&self) -> Vec<Pieces<'_>> {
        self.parts.iter().flat_map(Part::pieces).collect()
    }
}

impl Part<'_> {
    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        self.source.streams(span).into_iter().map(|stream| self.shifted(stream)).collect()
    }

    fn pieces(&self) -> Vec<Pieces<'_>> {
        self.source.pieces().into_iter().map(|pieces| self.all_shifted(pieces)).collect()
    }

    fn all_shifted<'s>(&'s self, pieces: Pieces<'s>) -> Pieces<'s> {
        Box::new(pieces.map(|stream| self.shifted(stream)))
    }

    fn shifted<'s>(&self, stream: Box<dyn Stream + 's>) -> Box<dyn Stream + 's> {
        Box::new(Shifted { stream, class: self.first_class, origin: self.first_origin })
    }
}

/// A stream whose class and origin indices are offset by those of the previous sources.
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
