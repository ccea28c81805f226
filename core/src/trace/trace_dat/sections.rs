//! Version 7: a chain of option sections, which refer to all others.

use std::borrow::Cow;

use super::super::bytes::Reader;
use super::super::compression::{unpack_once, Compression};
use super::super::item::Damage;
use super::super::source::OpenError;
use super::metadata::{Buffer, CpuData, Metadata, MOST_CPUS};
use super::options::{self, id, Options};

const COMPRESSED: u16 = 1;
/// Maximum number of option sections; trace-cmd writes one, and one more for each buffer.
const MOST_OPTION_SECTIONS: usize = 4096;
/// Maximum number of sections that options refer to; trace-cmd writes one of each of six kinds.
const MOST_SECTIONS: usize = 64;

struct Section<'a> {
    id: u16,
    flags: u16,
    /// Offset of the body.
    offset: u64,
    body: Cow<'a, [u8]>,
}

pub(super) fn read_v7(
    metadata: &mut Metadata,
    reader: &mut Reader<'_>,
    file: &[u8],
) -> Result<(), OpenError> {
    let name = reader.text("name of the compression")?.to_owned();
    let version = reader.text("version of the compression")?;
    metadata.compression = Compression::named(&name).ok_or_else(|| {
        OpenError::Unsupported(format!(
            "trace.dat compressed with '{name}' {version}: zstd, zlib and none are read"
        ))
    })?;
    let mut options = Options::default();
    let first = reader.u64("offset of the options")?;
    let is_whole = read_options(metadata, &mut options, first, file)?;
    metadata.apply(&options)?;
    if let Some((_, offset)) = options.sections.get(MOST_SECTIONS) {
        let what = format!(
            "{} sections, no trace has more than {MOST_SECTIONS}: the rest is not read",
            options.sections.len()
        );
        metadata.info.damage.push(Damage::new(*offset, what));
    }
    for &(section_id, offset) in options.sections.iter().take(MOST_SECTIONS) {
        let read =
            open(metadata, file, offset).and_then(|section| read_section(metadata, section_id, &section));
        if let Err(damage) = read {
            metadata.info.damage.push(damage);
        }
    }
    let mut cpus = 0;
    if !is_whole {
        recover(metadata, &options, reader.offset(), file);
    }
    for (offset, mut buffer) in options.v7_buffers {
        cpus += buffer.cpus.len();
        if cpus > MOST_CPUS {
            let what = format!("buffers of more than {MOST_CPUS} CPUs in all: the rest is not read");
            metadata.info.damage.push(Damage::new(offset, what));
            break;
        }
        match header(metadata, file, offset) {
            Ok((section_id, flags, ..)) if section_id == id::BUFFER => {
                buffer.compressed = flags & COMPRESSED != 0;
                metadata.buffers.push(buffer);
            }
            Ok(_) => {
                metadata.info.damage.push(Damage::new(offset, "no buffer where an option points at one"))
            }
            Err(damage) => metadata.info.damage.push(damage),
        }
    }
    let texts = options.text_buffers.first().filter(|_| metadata.cpus() == 0);
    if let Some(&offset) = texts {
        metadata.text = Some(text(metadata, file, offset)?);
    }
    Ok(())
}

/// The text of a latency tracer: plain, or in independently compressed chunks.
fn text(metadata: &mut Metadata, file: &[u8], at: u64) -> Result<Vec<u8>, Damage> {
    let (section_id, flags, offset, size) = header(metadata, file, at)?;
    if section_id != id::BUFFER_TEXT {
        return Err(Damage::new(at, format!("section {section_id} where a tracer's text should be")));
    }
    let mut reader = Reader::new(&file[offset as usize..], offset, metadata.order);
    let stored = reader.take(size, "text of a tracer")?;
    if flags & COMPRESSED == 0 {
        return Ok(stored.to_vec());
    }
    let mut reader = Reader::new(stored, offset, metadata.order);
    let mut text = Vec::new();
    for _ in 0..reader.u32("number of compressed chunks")? {
        let packed_size = reader.u32("size of a compressed chunk")?;
        let unpacked_size = reader.u32("size of a chunk")?;
        metadata.charge(unpacked_size.into(), reader.offset())?;
        let packed = reader.take(packed_size.into(), "compressed chunk")?;
        let chunk = unpack_once(metadata.compression, packed, unpacked_size.into());
        text.extend_from_slice(&chunk.map_err(|what| Damage::new(offset, what))?);
    }
    Ok(text)
}

/// Recovers the buffers of a truncated file, which lacks the options with the location of each CPU's data: sections are
/// contiguous from `first`, with the data of the CPUs in order, each page-aligned.
fn recover(metadata: &mut Metadata, options: &Options, first: u64, file: &[u8]) {
    let mut at = first;
    while let Ok((section_id, flags, body, size)) = header(metadata, file, at) {
        let next = body.saturating_add(size);
        let is_known = options.v7_buffers.iter().any(|(known, _)| *known == at);
        if section_id == id::BUFFER && size > 0 && !is_known {
            let data = &file[..file.len().min(next as usize)];
            let compressed = flags & COMPRESSED != 0;
            let cpus = if compressed {
                regions(metadata, data, body)
            } else {
                plain_regions(metadata, data, body, next)
            };
            let (found, known) = (cpus.len() as u32, metadata.info.cpus.unwrap_or(u32::MAX));
            if found < known || !compressed {
                let how = if compressed { "" } else { ", each from where time goes back" };
                let what = format!(
                    "the table of the CPUs is cut off: data of {found} are found, taken for those of the first ones{how}"
                );
                metadata.info.damage.push(Damage::new(at, what));
            }
            let page_size = metadata.page_size;
            metadata.buffers.push(Buffer { name: String::new(), page_size, compressed, cpus });
        }
        at = next;
    }
}

/// Regions of compressed CPU data from `from` to the end of `file`; the last may be truncated.
fn regions(metadata: &Metadata, file: &[u8], from: u64) -> Vec<CpuData> {
    let page = u64::from(metadata.page_size.max(1));
    let mut cpus = Vec::new();
    let mut offset = from.next_multiple_of(page);
    for cpu in 0..MOST_CPUS as u32 {
        let Some(bytes) = file.get(offset as usize..).filter(|bytes| bytes.len() > 4) else { break };
        let mut reader = Reader::new(bytes, offset, metadata.order);
        let chunks = reader.u32("number of compressed chunks").unwrap_or(0);
        let mut chunk = || -> Result<(), Damage> {
            let packed = reader.u32("size of a compressed chunk")?;
            reader.u32("size of a chunk")?;
            reader.take(packed.into(), "compressed chunk").map(drop)
        };
        let is_whole = (0..chunks).all(|_| chunk().is_ok());
        let end = if is_whole { reader.offset() } else { file.len() as u64 };
        // The word before it, the number of chunks, is not included.
        cpus.push(CpuData { cpu, offset, size: end - offset - 4 });
        offset = end.next_multiple_of(page);
    }
    cpus.retain(|cpu| cpu.size > 0);
    cpus
}

/// Regions of uncompressed data, contiguous pages: the first page of a CPU is earlier than the last of the previous
/// CPU. The section ends at `end`, which may be beyond the end of the file.
fn plain_regions(metadata: &Metadata, file: &[u8], from: u64, end: u64) -> Vec<CpuData> {
    let page = u64::from(metadata.page_size.max(64));
    let mut cpus: Vec<CpuData> = Vec::new();
    let (mut offset, mut last) = (from.next_multiple_of(page), u64::MAX);
    while let Some(bytes) = file.get(offset as usize..).filter(|bytes| bytes.len() >= 16) {
        let bytes = &bytes[..bytes.len().min(page as usize)];
        let stamp = metadata.order.u64_at(bytes, 0).unwrap_or(0);
        let found = cpus.len();
        match cpus.last_mut() {
            Some(cpu) if stamp >= last => cpu.size += bytes.len() as u64,
            _ if found >= MOST_CPUS => break,
            _ => cpus.push(CpuData { cpu: cpus.len() as u32, offset, size: bytes.len() as u64 }),
        }
        (last, offset) = (stamp, offset + page);
    }
    // The section is longer than the file: the data of the last CPU are truncated.
    if let Some(cpu) = cpus.last_mut() {
        cpu.size = cpu.size.max(end.saturating_sub(cpu.offset));
    }
    cpus
}

/// Follows the chain; returns whether it is complete. Damage in the first link is an error, because nothing can be
/// found then; later damage is noted.
fn read_options(
    metadata: &mut Metadata,
    options: &mut Options,
    first: u64,
    file: &[u8],
) -> Result<bool, OpenError> {
    let mut next = first;
    if first >= file.len() as u64 {
        let what = format!(
            "the file ends here, before its options (at {first}) and its events: copy the whole of it, or if its recorder was \
             killed, put the trace.dat.cpu files together with `trace-cmd restore`"
        );
        return Err(Damage::new(file.len() as u64, what).into());
    }
    for link in 0..MOST_OPTION_SECTIONS {
        let read = open(metadata, file, next).and_then(|section| {
            if section.id != id::DONE {
                return Err(Damage::new(next, format!("section {} where options should be", section.id)));
            }
            options::read_v7(options, &mut Reader::new(&section.body, section.offset, metadata.order))
        });
        match read {
            Ok(0) => return Ok(true),
            Ok(offset) => next = offset,
            Err(damage) if link == 0 && options.sections.is_empty() => return Err(damage.into()),
            Err(damage) => {
                metadata.info.damage.push(damage);
                return Ok(false);
            }
        }
    }
    metadata.info.damage.push(Damage::new(next, "the chain of options does not end"));
    Ok(true)
}

fn header(metadata: &Metadata, file: &[u8], offset: u64) -> Result<(u16, u16, u64, u64), Damage> {
    let start = usize::try_from(offset).ok().filter(|&start| start < file.len());
    let start = start.ok_or_else(|| Damage::new(offset, "a section begins behind the end of the file"))?;
    let mut reader = Reader::new(&file[start..], offset, metadata.order);
    let section_id = reader.u16("section")?;
    let flags = reader.u16("section flags")?;
    reader.u32("section name")?;
    let size = reader.u64("section size")?;
    Ok((section_id, flags, reader.offset(), size))
}

fn open<'a>(metadata: &mut Metadata, file: &'a [u8], at: u64) -> Result<Section<'a>, Damage> {
    let (section_id, flags, offset, size) = header(metadata, file, at)?;
    let mut reader = Reader::new(&file[offset as usize..], offset, metadata.order);
    let stored = reader.take(size, "section")?;
    let body = if flags & COMPRESSED == 0 {
        metadata.charge(stored.len() as u64, offset)?;
        Cow::Borrowed(stored)
    } else {
        let mut reader = Reader::new(stored, offset, metadata.order);
        let packed_size = reader.u32("compressed size")?;
        let unpacked_size = reader.u32("uncompressed size")?;
        let packed = reader.take(packed_size.into(), "compressed section")?;
        metadata.charge(unpacked_size.into(), offset)?;
        unpack_once(metadata.compression, packed, unpacked_size.into())
            .map_err(|what| Damage::new(offset, what))?
    };
    Ok(Section { id: section_id, flags, offset, body })
}

fn read_section(metadata: &mut Metadata, expected: u16, section: &Section<'_>) -> Result<(), Damage> {
    if section.id != expected {
        let what = format!("section {} where an option points at section {expected}", section.id);
        return Err(Damage::new(section.offset, what));
    }
    // Inside a compressed section, offsets count from its start in the file.
    let base = if section.flags & COMPRESSED == 0 { section.offset } else { section.offset + 8 };
    let mut reader = Reader::new(&section.body, base, metadata.order);
    match expected {
        id::HEADER_INFO => metadata.read_header_info(&mut reader),
        id::FTRACE_EVENTS => metadata.read_ftrace_formats(&mut reader),
        id::EVENT_FORMATS => metadata.read_event_formats(&mut reader),
        id::KALLSYMS => metadata.read_kallsyms(&mut reader),
        id::PRINTK => metadata.read_printk(&mut reader),
        id::CMDLINES => metadata.read_cmdlines(&mut reader),
        _ => Ok(()),
    }
}
