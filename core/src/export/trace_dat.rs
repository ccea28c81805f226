//! trace.dat version 6, as trace-cmd 2 and 3 read it: everything before the pages of the ring buffer.
//!
//! The pages are the kernel's bytes, up to gigabytes: the caller writes those of each CPU at its offset in [`Head`].
//! Version 6 rather than 7: every trace-cmd, KernelShark and Trace Compass reads it. Specification: trace-cmd,
//! Documentation/trace-cmd/trace-cmd.dat.v6.5.txt. Reading is [`crate::trace::trace_dat`].

use crate::trace::trace_dat::{option, MAGIC};

/// Metadata of a recording; texts are from tracefs.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Bytes of a page of memory.
    pub page_size: u32,
    /// `events/header_page`.
    pub header_page: Vec<u8>,
    /// `events/header_event`.
    pub header_event: Vec<u8>,
    /// Formats of the ftrace system.
    pub ftrace_formats: Vec<Vec<u8>>,
    /// Name of each other system, with the formats of its events.
    pub systems: Vec<(String, Vec<Vec<u8>>)>,
    /// `/proc/kallsyms`.
    pub kallsyms: Vec<u8>,
    /// `printk_formats`.
    pub printk_formats: Vec<u8>,
    /// Lines `TID COMM`.
    pub cmdlines: Vec<u8>,
    /// `trace_clock`: all clocks, the chosen one in brackets.
    pub clock: String,
    /// Kernel name, host, release and machine.
    pub uname: String,
    /// `per_cpu/cpuN/stats` of each CPU.
    pub statistics: Vec<String>,
}

/// The bytes before the pages, and the offset of each CPU's pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The beginning of the file.
    pub bytes: Vec<u8>,
    /// Offset in the file of the pages of each CPU.
    pub offsets: Vec<u64>,
}

/// The head of a file whose CPU n has `sizes[n]` bytes of pages. Numbers are in the byte order of this machine, as the
/// pages are.
#[must_use]
pub fn head(description: &Description, sizes: &[u64]) -> Head {
    let mut bytes = Vec::with_capacity(description.kallsyms.len() + (1 << 20));
    bytes.extend(MAGIC);
    bytes.extend(b"6\0");
    bytes.push(u8::from(cfg!(target_endian = "big")));
    bytes.push(size_of::<usize>() as u8);
    bytes.extend(description.page_size.to_ne_bytes());
    for (name, text) in
        [("header_page", &description.header_page), ("header_event", &description.header_event)]
    {
        text_of(&mut bytes, name);
        sized(&mut bytes, text);
    }
    formats(&mut bytes, &description.ftrace_formats);
    bytes.extend((description.systems.len() as u32).to_ne_bytes());
    for (name, events) in &description.systems {
        text_of(&mut bytes, name);
        formats(&mut bytes, events);
    }
    for text in [&description.kallsyms, &description.printk_formats] {
        bytes.extend((text.len() as u32).to_ne_bytes());
        bytes.extend(text);
    }
    sized(&mut bytes, &description.cmdlines);
    bytes.extend((sizes.len() as u32).to_ne_bytes());
    options(&mut bytes, description, sizes.len() as u32);
    bytes.extend(b"flyrecord\0");
    let offsets = table(&mut bytes, description, sizes);
    Head { bytes, offsets }
}

fn options(bytes: &mut Vec<u8>, description: &Description, cpus: u32) {
    bytes.extend(b"options  \0");
    let mut put = |id: u16, body: &[u8]| {
        bytes.extend(id.to_ne_bytes());
        bytes.extend((body.len() as u32).to_ne_bytes());
        bytes.extend(body);
    };
    let text = |text: &str| [text.as_bytes(), b"\0"].concat();
    for statistics in &description.statistics {
        put(option::CPUSTAT, &text(statistics));
    }
    put(option::TRACECLOCK, &text(&description.clock));
    put(option::UNAME, &text(&description.uname));
    put(option::CPUCOUNT, &cpus.to_ne_bytes());
    bytes.extend(option::DONE.to_ne_bytes());
}

/// Offsets and sizes, then the clock, and zeros up to the first page.
fn table(bytes: &mut Vec<u8>, description: &Description, sizes: &[u64]) -> Vec<u64> {
    let page = u64::from(description.page_size.max(1));
    let clock = description.clock.trim_end().as_bytes();
    let end = bytes.len() + 16 * sizes.len() + 8 + clock.len();
    let mut next = (end as u64).next_multiple_of(page);
    let begin = next as usize;
    let mut offsets = Vec::with_capacity(sizes.len());
    for size in sizes {
        offsets.push(next);
        bytes.extend(next.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        next = (next + size).next_multiple_of(page);
    }
    sized(bytes, clock);
    bytes.resize(begin, 0);
    offsets
}

fn formats(bytes: &mut Vec<u8>, formats: &[Vec<u8>]) {
    bytes.extend((formats.len() as u32).to_ne_bytes());
    formats.iter().for_each(|format| sized(bytes, format));
}

fn sized(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u64).to_ne_bytes());
    bytes.extend(text);
}

fn text_of(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(text.as_bytes());
    bytes.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Cpu, Mono, Tid};
    use crate::trace::item::{Item, Span};
    use crate::trace::source::Source;
    use crate::trace::trace_dat::TraceDat;

    const FORMAT: &str = "name: beat\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:int count;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";

    fn page(stamp: u64, counts: &[i32]) -> Vec<u8> {
        let mut page = stamp.to_le_bytes().to_vec();
        page.extend((16 * counts.len() as u64).to_le_bytes());
        for count in counts {
            page.extend((3u32 | 10 << 5).to_le_bytes()); // 12 bytes of payload, 10 ns later
            page.extend(7u32.to_le_bytes());
            page.extend(42i32.to_le_bytes());
            page.extend(count.to_le_bytes());
        }
        page.resize(4096, 0);
        page
    }

    #[test]
    fn what_is_written_is_read_again() {
        let description = Description {
            page_size: 4096,
            systems: vec![("heart".into(), vec![FORMAT.into()])],
            cmdlines: b"42 patient\n".to_vec(),
            clock: "local global [mono] boot\n".into(),
            uname: "Linux host 6.18 x86_64".into(),
            statistics: vec!["CPU: 0\noverrun: 3\n".into()],
            ..Description::default()
        };
        let pages = [page(100, &[1, 2]), Vec::new(), page(105, &[3])];
        let sizes: Vec<u64> = pages.iter().map(|page| page.len() as u64).collect();
        let Head { bytes: mut file, offsets } = head(&description, &sizes);
        assert_eq!(file.len() as u64, offsets[0]);
        for (page, offset) in pages.iter().zip(offsets) {
            file.resize(offset as usize, 0);
            file.extend(page);
        }
        let trace = TraceDat::open(&file).unwrap();
        assert_eq!(trace.info().damage, []);
        assert_eq!((trace.info().clock.name.as_str(), trace.info().cpus), ("mono", Some(3)));
        assert_eq!(trace.info().comms[&Tid(42)], "patient");
        assert!(trace.info().notes[0].contains("overrun: 3"), "{:?}", trace.info().notes);
        let (mut walk, mut seen) = (trace.events(Span::ALL), Vec::new());
        while let Some(Item::Event(record)) = walk.next() {
            let class = trace.class(&record).unwrap();
            let count = class.bits(class.field("count").unwrap(), &record);
            seen.push((record.at, record.cpu, class.full_name(), count));
        }
        let beat = || "heart:beat".to_owned();
        let expected = [(110, 0, Some(1)), (115, 2, Some(3)), (120, 0, Some(2))]
            .map(|(at, cpu, n)| (Mono(at), Cpu(cpu), beat(), n));
        assert_eq!(seen, expected);
    }
}
