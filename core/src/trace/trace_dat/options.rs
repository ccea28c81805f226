//! Options of a trace.dat.

use std::collections::BTreeSet;

use super::super::bytes::Reader;
use super::super::item::Damage;
use super::metadata::{Buffer, CpuData};
use super::TimeScale;

/// Ids of options and, in version 7, of the sections they refer to.
pub mod id {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const OFFSET: u16 = 7;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const PROCMAPS: u16 = 10;
    pub const TIME_SHIFT: u16 = 12;
    pub const TSC2NSEC: u16 = 14;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

/// Contents of the options.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub cpus: u32,
    pub uname: String,
    pub clock: String,
    pub date_offset_ns: Option<i64>,
    pub time: TimeScale,
    pub guest_sync: bool,
    pub proc_maps: String,
    pub notes: Vec<String>,
    /// Version 6: offset of the table, name.
    pub v6_buffers: Vec<(u64, String)>,
    /// Version 7: offset of the section, and the buffer in it.
    pub v7_buffers: Vec<(u64, Buffer)>,
    /// Version 7: the clocks of buffers with data.
    pub buffer_clocks: BTreeSet<String>,
    /// Version 7: id and offset of sections.
    pub sections: Vec<(u16, u64)>,
    /// Version 7: offsets of buffers with text.
    pub text_buffers: Vec<u64>,
}

/// Options of version 6, up to their end mark.
pub(super) fn read_v6(options: &mut Options, reader: &mut Reader<'_>) -> Result<(), Damage> {
    loop {
        let option = reader.u16("option")?;
        if option == id::DONE {
            return Ok(());
        }
        let mut body = body(reader)?;
        if option == id::BUFFER {
            let offset = body.u64("offset of a buffer")?;
            options.v6_buffers.push((offset, body.text("name of a buffer")?.to_owned()));
        } else {
            options.take(option, &mut body)?;
        }
    }
}

fn body<'a>(reader: &mut Reader<'a>) -> Result<Reader<'a>, Damage> {
    let len = reader.u32("size of an option")?;
    let offset = reader.offset();
    Ok(Reader::new(reader.take(len.into(), "option")?, offset, reader.order))
}

/// Options of one section of version 7; returns the offset of the next section, 0 for none.
pub(super) fn read_v7(options: &mut Options, reader: &mut Reader<'_>) -> Result<u64, Damage> {
    while reader.left() > 0 {
        let option = reader.u16("option")?;
        let mut body = body(reader)?;
        match option {
            id::DONE => return body.u64("offset of the next options"),
            id::BUFFER => {
                let (offset, clock, buffer) = v7_buffer(&mut body)?;
                if !(buffer.cpus.is_empty() || clock.is_empty()) {
                    options.buffer_clocks.insert(clock);
                }
                options.v7_buffers.push((offset, buffer));
            }
            id::BUFFER_TEXT => {
                options.text_buffers.push(body.u64("offset of a text buffer")?);
            }
            id::HEADER_INFO..=id::CMDLINES => {
                options.sections.push((option, body.u64("offset of a section")?))
            }
            _ => options.take(option, &mut body)?,
        }
    }
    Err(Damage::new(reader.offset(), "options end without their end mark"))
}

fn v7_buffer(body: &mut Reader<'_>) -> Result<(u64, String, Buffer), Damage> {
    let offset = body.u64("offset of a buffer")?;
    let name = body.text("name of a buffer")?.to_owned();
    let clock = chosen_clock(body.text("clock of a buffer")?).to_owned();
    let page_size = body.u32("page size of a buffer")?;
    let cpus = body.u32("number of CPUs of a buffer")?;
    let mut buffer = Buffer { name, page_size, compressed: false, cpus: Vec::new() };
    for _ in 0..cpus {
        let cpu = body.u32("CPU of a buffer")?;
        let offset = body.u64("offset of CPU data")?;
        let size = body.u64("size of CPU data")?;
        if size > 0 {
            buffer.cpus.push(CpuData { cpu, offset, size });
        }
    }
    Ok((offset, clock, buffer))
}

impl Options {
    /// Why the times of its buffers cannot be compared.
    pub fn different_clocks(&self) -> Option<String> {
        let clocks: Vec<&str> = self.buffer_clocks.iter().map(String::as_str).collect();
        (clocks.len() > 1).then(|| {
            let clocks = clocks.join(" and ");
            format!("its buffers have the clocks {clocks}, whose times cannot be compared: record all with -C mono")
        })
    }

    /// Options that are the same in both versions; unknown ones are skipped, as the format requires.
    fn take(&mut self, option: u16, body: &mut Reader<'_>) -> Result<(), Damage> {
        match option {
            id::CPUCOUNT => self.cpus = body.u32("number of CPUs")?,
            id::TIME_SHIFT => self.guest_sync = true,
            id::TSC2NSEC => {
                self.time.mult = body.u32("TSC multiplier")?;
                self.time.shift = body.u32("TSC shift")?;
            }
            id::DATE => {
                let micros = integer(&text(body));
                self.date_offset_ns =
                    Some(self.date_offset_ns.unwrap_or(0).wrapping_add(micros.wrapping_mul(1000)));
            }
            id::OFFSET => self.time.offset_ns = self.time.offset_ns.wrapping_add(integer(&text(body))),
            id::UNAME => self.uname = text(body),
            id::TRACECLOCK => {
                let clocks = text(body);
                chosen_clock(&clocks).clone_into(&mut self.clock);
            }
            id::CPUSTAT => self.notes.push(text(body)),
            id::VERSION => self.notes.push(format!("recorded by trace-cmd {}", text(body))),
            id::PROCMAPS => self.proc_maps.push_str(&text(body)),
            _ => {}
        }
        Ok(())
    }
}

fn text(body: &mut Reader<'_>) -> String {
    let bytes = body.take(body.left() as u64, "text").unwrap_or_default();
    String::from_utf8_lossy(bytes).trim_end_matches(['\0', '\n']).trim_start().to_owned()
}

/// As `strtoll` with base 0 reads it.
fn integer(text: &str) -> i64 {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let magnitude = match digits.strip_prefix("0x") {
        // A negative clock offset is often written as its two's complement.
        Some(hex) => u64::from_str_radix(hex, 16).unwrap_or(0) as i64,
        None => digits.parse().unwrap_or(0),
    };
    if negative {
        magnitude.wrapping_neg()
    } else {
        magnitude
    }
}

/// The clock in brackets of `local global [mono] boot`, or the only word.
pub(super) fn chosen_clock(text: &str) -> &str {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(clock, _)| clock);
    chosen.unwrap_or_else(|| text.split(char::is_whitespace).next().unwrap_or("")).trim_matches('\0')
}

#[cfg(test)]
mod tests {
    use super::super::super::bytes::Order;
    use super::*;

    #[test]
    fn the_clock_is_the_one_in_brackets() {
        assert_eq!(chosen_clock("local global [mono] mono_raw boot\n\0"), "mono");
        assert_eq!(chosen_clock("tsc2nsec"), "tsc2nsec");
        assert_eq!(chosen_clock(""), "");
    }

    #[test]
    fn buffers_with_data_have_one_clock() {
        let told = |clocks: [&str; 2], cpus: u32| {
            let mut bytes = Vec::new();
            for clock in clocks {
                let cpu = [&0u32.to_le_bytes()[..], &64u64.to_le_bytes(), &32u64.to_le_bytes()].concat();
                let head =
                    [&9u64.to_le_bytes()[..], b"name\0", clock.as_bytes(), b"\0", &4096u32.to_le_bytes()]
                        .concat();
                let body = [head, cpus.to_le_bytes().to_vec(), cpu.repeat(cpus as usize)].concat();
                bytes.extend(
                    [&id::BUFFER.to_le_bytes()[..], &(body.len() as u32).to_le_bytes(), &body].concat(),
                );
            }
            bytes.extend([&id::DONE.to_le_bytes()[..], &8u32.to_le_bytes(), &0u64.to_le_bytes()].concat());
            let (mut options, mut reader) = (Options::default(), Reader::new(&bytes, 0, Order::Little));
            assert_eq!(read_v7(&mut options, &mut reader), Ok(0));
            options.different_clocks()
        };
        assert_eq!(told(["mono", "mono"], 1), None);
        assert_eq!(told(["mono", "boot"], 0), None);
        assert!(told(["mono", "boot"], 1).unwrap().contains("clocks boot and mono"));
    }

    #[test]
    fn offsets_are_read_as_strtoll_reads_them() {
        assert_eq!(integer("0x10"), 16);
        assert_eq!(integer("-25"), -25);
        assert_eq!(integer("0xffffffffffffffff"), -1);
        assert_eq!(integer("junk"), 0);
    }
}
