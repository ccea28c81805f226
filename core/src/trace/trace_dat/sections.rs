//! Version 7: a chain of option sections, which point at all others.

use std::borrow::Cow;

use super::super::bytes::Reader;
use super::super::compression::{unpack_once, Compression};
use super::super::source::{Damage, OpenError};
use super::metadata::Metadata;
use super::options::{self, id, Options};

const COMPRESSED: u16 = 1;
/// Sections of options in one file; trace-cmd writes one, and one more for each buffer.
const MOST_OPTION_SECTIONS: usize = 4096;

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
    read_options(metadata, &mut options, reader.u64("offset of the options")?, file)?;
    metadata.apply(&options)?;
    for &(section_id, offset) in &options.sections {
        let read =
            open(metadata, file, offset).and_then(|section| read_section(metadata, section_id, &section));
        if let Err(damage) = read {
            metadata.info.damage.push(damage);
        }
    }
    for (offset, mut buffer) in options.v7_buffers {
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
    if metadata.buffers.iter().all(|buffer| buffer.cpus.is_empty()) && !options.text_buffers.is_empty() {
        let text =
            "a trace.dat that holds text of a latency tracer: give that text instead (trace-cmd report)";
        return Err(OpenError::Unsupported(text.into()));
    }
    Ok(())
}

/// Follows the chain. Damage in the first link is an error, for nothing can be found then; later it is noted.
fn read_options(
    metadata: &mut Metadata,
    options: &mut Options,
    first: u64,
    file: &[u8],
) -> Result<(), OpenError> {
    let mut next = first;
    for link in 0..MOST_OPTION_SECTIONS {
        let read = open(metadata, file, next).and_then(|section| {
            if section.id != id::DONE {
                return Err(Damage::new(next, format!("section {} where options should be", section.id)));
            }
            options::read_v7(options, &mut Reader::new(&section.body, section.offset, metadata.order))
        });
        match read {
            Ok(0) => return Ok(()),
            Ok(offset) => next = offset,
            Err(damage) if link == 0 && options.sections.is_empty() => return Err(damage.into()),
            Err(damage) => {
                metadata.info.damage.push(damage);
                return Ok(());
            }
        }
    }
    metadata.info.damage.push(Damage::new(next, "the chain of options does not end"));
    Ok(())
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

fn open<'a>(metadata: &Metadata, file: &'a [u8], at: u64) -> Result<Section<'a>, Damage> {
    let (section_id, flags, offset, size) = header(metadata, file, at)?;
    let mut reader = Reader::new(&file[offset as usize..], offset, metadata.order);
    let stored = reader.take(size, "section")?;
    let body = if flags & COMPRESSED == 0 {
        Cow::Borrowed(stored)
    } else {
        let mut reader = Reader::new(stored, offset, metadata.order);
        let packed_size = reader.u32("compressed size")?;
        let unpacked_size = reader.u32("uncompressed size")?;
        let packed = reader.take(packed_size.into(), "compressed section")?;
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
    // Inside a compressed section offsets count from where it begins in the file.
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
