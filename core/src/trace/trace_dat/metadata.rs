//! A trace.dat without the CPU data: versions 6 (one sequence) and 7 (sections) into the same [`Metadata`].

use std::collections::HashMap;

use super::super::bytes::{Order, Reader};
use super::super::compression::{Compression, MOST_METADATA};
use super::super::item::Damage;
use super::super::kallsyms::Symbols;
use super::super::ring_page::PageLayout;
use super::super::source::{Info, OpenError};
use super::super::tracepoint_format::{self, Format};
use super::options::{self, Options};
use super::{sections, TimeScale, MAGIC};
use crate::printable;
use crate::time::Tid;

/// Maximum number of event formats: their ids have 16 bits.
const MOST_FORMATS: usize = 1 << 16;
/// Maximum number of fields of all formats; a kernel with every event has 40,000.
const MOST_FIELDS: usize = 1 << 19;
/// Maximum number of thread names, and of trace_printk formats: `saved_cmdlines_size` is at most 32,768.
const MOST_NAMES: usize = 1 << 18;
/// Maximum characters of a thread name, which has 15 in the kernel.
const LONGEST_NAME: usize = 64;
/// Maximum number of CPUs with data in all buffers: Linux has at most 8192.
pub(super) const MOST_CPUS: usize = 1 << 16;

/// Contents of the file except its CPU data.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub order: Order,
    pub layout: PageLayout,
    pub page_size: u32,
    pub compression: Compression,
    pub formats: Vec<Format>,
    /// The text of a latency tracer, instead of events.
    pub text: Option<Vec<u8>>,
    pub symbols: Symbols,
    pub(super) buffers: Vec<Buffer>,
    pub(super) time: TimeScale,
    pub info: Info,
    /// Bytes of descriptions that may still be read.
    pub(super) bytes_left: u64,
    fields: usize,
}

/// One trace buffer: the top one or an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffer {
    pub name: String,
    pub page_size: u32,
    pub compressed: bool,
    pub cpus: Vec<CpuData>,
}

/// Location of the data of one CPU in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuData {
    pub cpu: u32,
    pub offset: u64,
    pub size: u64,
}

impl Metadata {
    pub fn read(file: &[u8]) -> Result<Self, OpenError> {
        let mut reader = Reader::new(file, 0, Order::Little);
        if reader.expect(MAGIC, "the beginning of a trace.dat").is_err() {
            return Err(OpenError::Foreign(
                "not a trace.dat: it does not begin with 17 08 44 \"tracing\"".into(),
            ));
        }
        let version = reader.text("version")?.to_owned();
        reader.order = match reader.u8("byte order")? {
            0 => Order::Little,
            1 => Order::Big,
            other => {
                let what = format!("byte order {other}, expected 0 (little) or 1 (big)");
                return Err(Damage::new(reader.offset() - 1, what).into());
            }
        };
        let _user_long_size = reader.u8("size of long")?;
        let page_size = reader.u32("page size")?;
        let mut metadata = Metadata::empty(reader.order, page_size, &format!("trace.dat v{version}"));
        match version.as_str() {
            "6" => metadata.read_v6(&mut reader, file)?,
            "7" => sections::read_v7(&mut metadata, &mut reader, file)?,
            other => {
                let text = format!("trace.dat version {other}: this program reads 6 and 7");
                return Err(OpenError::Unsupported(text));
            }
        }
        Ok(metadata)
    }

    /// The tracing data of a perf.data: a version 6 file up to its kallsyms and printk formats
    /// (tools/perf/util/trace-event-info.c). Damage in it is noted.
    pub fn read_perf(section: &[u8], offset: u64) -> Result<Self, Damage> {
        let mut reader = Reader::new(section, offset, Order::Little);
        reader.expect(MAGIC, "the beginning of tracing data")?;
        reader.text("version")?;
        reader.order = if reader.u8("byte order")? == 1 { Order::Big } else { Order::Little };
        reader.u8("size of long")?;
        let page_size = reader.u32("page size")?;
        let mut metadata = Metadata::empty(reader.order, page_size, "perf.data");
        let read = metadata
            .read_header_info(&mut reader)
            .and_then(|()| metadata.read_ftrace_formats(&mut reader))
            .and_then(|()| metadata.read_event_formats(&mut reader))
            .and_then(|()| metadata.read_kallsyms(&mut reader))
            .and_then(|()| metadata.read_printk(&mut reader));
        metadata.info.damage.extend(read.err());
        Ok(metadata)
    }

    fn empty(order: Order, page_size: u32, format: &str) -> Self {
        Metadata {
            order,
            layout: PageLayout::usual(order),
            page_size,
            compression: Compression::None,
            formats: Vec::new(),
            symbols: Symbols::default(),
            text: None,
            buffers: Vec::new(),
            time: TimeScale::default(),
            info: Info { format: format.to_owned(), ..Info::default() },
            bytes_left: MOST_METADATA,
            fields: 0,
        }
    }

    /// Counts `bytes` of descriptions at `offset` against the limit per file.
    ///
    /// # Errors
    /// The limit is exceeded: no kernel has that many.
    pub(super) fn charge(&mut self, bytes: u64, offset: u64) -> Result<(), Damage> {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or_else(|| {
            let most = MOST_METADATA >> 20;
            Damage::new(offset, format!("{bytes} bytes more of descriptions: no trace has over {most} MiB of them, the rest is not read"))
        })?;
        Ok(())
    }

    pub(super) fn cpus(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.cpus.len()).sum()
    }

    fn read_v6(&mut self, reader: &mut Reader<'_>, file: &[u8]) -> Result<(), OpenError> {
        self.read_header_info(reader)?;
        self.read_ftrace_formats(reader)?;
        self.read_event_formats(reader)?;
        // From here, damage is not fatal.
        if let Err(damage) = self.read_v6_rest(reader, file)? {
            self.info.damage.push(damage);
        }
        Ok(())
    }

    fn read_v6_rest(
        &mut self,
        reader: &mut Reader<'_>,
        file: &[u8],
    ) -> Result<Result<(), Damage>, OpenError> {
        let mut options = Options::default();
        let read = (|| {
            self.read_kallsyms(reader)?;
            self.read_printk(reader)?;
            self.read_cmdlines(reader)?;
            options.cpus = reader.u32("number of CPUs")?;
            let mut kind = reader.take(10, "kind of data")?;
            if kind == b"options  \0" {
                options::read_v6(&mut options, reader)?;
                kind = reader.take(10, "kind of data")?;
            }
            Ok(kind)
        })();
        let kind = match read {
            Ok(kind) => kind,
            Err(damage) => return Ok(Err(damage)),
        };
        self.apply(&options)?;
        if kind == b"latency  \0" {
            self.text = reader.take(reader.left() as u64, "text of a tracer").ok().map(<[u8]>::to_vec);
            return Ok(Ok(()));
        }
        if kind != b"flyrecord\0" {
            return Ok(Err(Damage::new(
                reader.offset() - 10,
                "kind of data is neither flyrecord nor latency",
            )));
        }
        let result = self.read_v6_tables(reader, file, &options);
        Ok(result)
    }

    fn read_v6_tables(
        &mut self,
        reader: &mut Reader<'_>,
        file: &[u8],
        options: &Options,
    ) -> Result<(), Damage> {
        let top = cpu_table(reader, options.cpus, MOST_CPUS)?;
        self.buffers.push(Buffer { page_size: self.page_size, cpus: top, ..Buffer::default() });
        // The trace clock follows the table, in files since 2012.
        if let Some(text) =
            reader.u64("clock").and_then(|len| reader.take(len, "clock")).ok().and_then(text_of)
            && self.info.clock.name.is_empty()
        {
            self.info.clock.name = options::chosen_clock(text).to_owned();
        }
        for (offset, name) in &options.v6_buffers {
            let start = usize::try_from(*offset).ok().filter(|&start| start <= file.len());
            let Some(start) = start else {
                self.info.damage.push(Damage::new(*offset, format!("buffer '{name}' begins behind the end")));
                continue;
            };
            let mut reader = Reader::new(&file[start..], *offset, self.order);
            self.charge(16 * u64::from(options.cpus), *offset)?;
            let table = reader
                .expect(b"flyrecord\0", "table of a named buffer")
                .and_then(|()| cpu_table(&mut reader, options.cpus, MOST_CPUS - self.cpus()));
            match table {
                Ok(cpus) => {
                    let name = name.clone();
                    self.buffers.push(Buffer { name, page_size: self.page_size, cpus, compressed: false });
                }
                Err(damage) => self.info.damage.push(damage),
            }
        }
        Ok(())
    }

    /// Applies the options.
    pub(super) fn apply(&mut self, options: &Options) -> Result<(), OpenError> {
        if options.guest_sync {
            let text = "a guest's trace.dat synchronised with its host (TIME_SHIFT): its times cannot be read alone; \
                        record the guest without --host synchronisation";
            return Err(OpenError::Unsupported(text.into()));
        }
        if let Some(text) = options.different_clocks() {
            return Err(OpenError::Unsupported(text));
        }
        self.time = options.time;
        self.info.machine.clone_from(&options.uname);
        self.info.clock.name.clone_from(&options.clock);
        self.info.clock.epoch_offset_ns = options.date_offset_ns;
        self.info.cpus = (options.cpus > 0).then_some(options.cpus);
        self.info.notes.extend(options.notes.iter().cloned());
        self.info.proc_maps.clone_from(&options.proc_maps);
        Ok(())
    }

    /// Refuses clocks that do not give a time.
    ///
    /// # Errors
    /// The stamps count another unit, and the file does not have its length.
    pub fn tells_time(&self) -> Result<(), OpenError> {
        let counts = match self.info.clock.name.as_str() {
            "x86-tsc" | "ppc-tb" if self.time.mult == 0 => {
                "cycles, and the file does not say how many are a second"
            }
            "uptime" => "jiffies",
            "counter" => "events",
            _ => return Ok(()),
        };
        let clock = &self.info.clock.name;
        let text = format!("its clock {clock} counts {counts}, no times can be told: record with -C mono");
        Err(OpenError::Unsupported(text))
    }

    pub fn read_header_info(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        reader.expect(b"header_page\0", "header_page")?;
        let len = reader.u64("size of header_page")?;
        let text = String::from_utf8_lossy(reader.take(len, "header_page")?);
        self.layout = PageLayout::parse(&text, self.order);
        reader.expect(b"header_event\0", "header_event")?;
        let len = reader.u64("size of header_event")?;
        reader.take(len, "header_event")?;
        Ok(())
    }

    pub fn read_ftrace_formats(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        let count = reader.u32("number of ftrace formats")?;
        (0..count).try_for_each(|_| self.read_format(reader, "ftrace"))
    }

    pub fn read_event_formats(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        let systems = reader.u32("number of event systems")?;
        for _ in 0..systems {
            let system = reader.text("name of an event system")?;
            let events = reader.u32("number of events")?;
            (0..events).try_for_each(|_| self.read_format(reader, system))?;
        }
        Ok(())
    }

    fn read_format(&mut self, reader: &mut Reader<'_>, system: &str) -> Result<(), Damage> {
        let offset = reader.offset();
        let len = reader.u64("size of an event format")?;
        let text = String::from_utf8_lossy(reader.take(len, "event format")?);
        if self.formats.len() >= MOST_FORMATS || self.fields >= MOST_FIELDS {
            let what = format!(
                "more than {MOST_FORMATS} event formats or {MOST_FIELDS} fields: the rest is not read"
            );
            return Err(Damage::new(offset, what));
        }
        match tracepoint_format::parse(&text, system, self.order) {
            Some(format) => {
                self.fields += format.class.fields.len();
                self.formats.push(format);
            }
            None => {
                let what =
                    format!("a format of system '{system}' without name or id: its events are unknown");
                self.info.damage.push(Damage::new(offset, what));
            }
        }
        Ok(())
    }

    pub fn read_kallsyms(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        let len = reader.u32("size of kallsyms")?;
        self.symbols = Symbols::new(reader.take(len.into(), "kallsyms")?);
        Ok(())
    }

    pub fn read_printk(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        let len = reader.u32("size of printk formats")?;
        let text = String::from_utf8_lossy(reader.take(len.into(), "printk formats")?);
        self.info.printk_formats = printk_formats(&text);
        Ok(())
    }

    pub fn read_cmdlines(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        let len = reader.u64("size of cmdlines")?;
        let text = String::from_utf8_lossy(reader.take(len, "cmdlines")?);
        for line in text.lines() {
            if let Some((tid, comm)) = line.trim_start().split_once(' ')
                && let Ok(tid) = tid.parse()
            {
                let comm = printable::cut(comm.trim_end_matches('\0'), LONGEST_NAME);
                self.info.comms.insert(Tid(tid), comm);
            }
            if self.info.comms.len() >= MOST_NAMES {
                let what = format!("more than {MOST_NAMES} names of threads: the rest is not read");
                return Err(Damage::new(reader.offset(), what));
            }
        }
        Ok(())
    }
}

/// Lines `0xffffffff81234567 : "text %d\n"`, from `printk_formats`.
fn printk_formats(text: &str) -> HashMap<u64, String> {
    let line_parts = |line: &str| {
        let (address, format) = line.split_once(':')?;
        let address = u64::from_str_radix(address.trim().trim_start_matches("0x"), 16).ok()?;
        let format = format.trim().trim_matches('"').replace("\\n", "");
        Some((address, format))
    };
    text.lines().filter_map(line_parts).take(MOST_NAMES).collect()
}

fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// At most `most` CPUs.
fn cpu_table(reader: &mut Reader<'_>, cpus: u32, most: usize) -> Result<Vec<CpuData>, Damage> {
    let mut table = Vec::new();
    if cpus as usize > most {
        return Err(Damage::new(
            reader.offset(),
            format!("tables of {cpus} CPUs: more than {MOST_CPUS} in all"),
        ));
    }
    for cpu in 0..cpus {
        let offset = reader.u64("table of CPU data")?;
        let size = reader.u64("table of CPU data")?;
        if size > 0 {
            table.push(CpuData { cpu, offset, size });
        }
    }
    Ok(table)
}
