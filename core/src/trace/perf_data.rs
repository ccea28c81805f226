//! perf.data of `perf sched record` and `perf record -e sched:*`: tracepoint samples with their raw data.
//!
//! Not the linux-perf-data crate, because that copies every record and sorts it in memory, allocates as much as a
//! damaged header requests, and stops at the first error; this reads slices of the mapped file, in bounded memory, past
//! damage. The layout is that of tools/perf/Documentation/perf.data-file-format.txt and
//! include/uapi/linux/perf_event.h.
//!
//! Order: perf writes the ring buffers of the CPUs one after the other, in rounds. A first pass finds the ascending
//! runs in the file and chains them into lanes, about one per CPU; the lanes are merged.
//!
//! Pipe mode and compressed files (`perf record -z`) are first converted in memory, by [`plain`].

mod header;
mod lanes;
mod plain;
mod sample;

use super::catalogue::Catalogue;
use super::item::{Damage, Events, Span};
use super::merge::{Merged, Stream};
use super::source::{About, OpenError, Source};
use header::Header;
use lanes::{Lane, Lanes};
use sample::Samples;

pub use plain::{plain, Plain};

/// An opened perf.data.
#[derive(Debug)]
pub struct PerfData<'a> {
    about: About,
    /// Class of each `common_type`; `u32::MAX` for unknown ones.
    class_of_id: Vec<u32>,
    samples: Samples<'a>,
    lanes: Vec<Vec<lanes::Run>>,
}

impl<'a> PerfData<'a> {
    /// Opens the bytes of a whole file.
    ///
    /// # Errors
    /// The file has another format or form, or no description of tracepoints.
    pub fn open(file: &'a [u8]) -> Result<Self, OpenError> {
        let mut header = Header::read(file)?;
        let mut catalogue = Catalogue::default();
        let mut class_of_id = vec![u32::MAX; 1 << 16];
        for format in std::mem::take(&mut header.tracing.formats) {
            let class = catalogue.add(format.class);
            if let Some(slot) = class_of_id.get_mut(format.id as usize) {
                *slot = class;
            }
        }
        let mut info = header.tracing.info;
        let samples = header.samples;
        let Lanes { lanes, comms, damage, cpus, .. } = Lanes::find(&samples);
        info.damage.extend(damage);
        info.comms = comms;
        info.cpus = info.cpus.or(cpus);
        info.origins = vec![String::new()];
        let about = About { info, catalogue, symbols: header.tracing.symbols };
        Ok(PerfData { about, class_of_id, samples, lanes })
    }
}

impl PerfData<'_> {
    /// Adds the damage found by [`plain`].
    #[must_use]
    pub fn with(mut self, damage: Option<Damage>) -> Self {
        self.about.info.damage.extend(damage);
        self
    }
}

impl Source for PerfData<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn events(&self, span: Span) -> Box<dyn Events + '_> {
        let lanes = self.lanes.iter().map(|runs| Lane::begin(self, runs, span)).collect();
        Box::new(Merged::new(lanes, span))
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        self.lanes.iter().map(|runs| Box::new(Lane::begin(self, runs, span)) as _).collect()
    }
}
