//! The kernel's description of a tracepoint's binary record: `events/SYSTEM/EVENT/format`.
//!
//! ```text
//! name: sched_waking
//! ID: 374
//! format:
//!     field:unsigned short common_type;   offset:0;   size:2; signed:0;
//!     field:char comm[16];    offset:8;   size:16;    signed:0;
//!     field:__data_loc char[] name;   offset:12;  size:4; signed:1;
//!
//! print fmt: …
//! ```
//!
//! Only the field lines are used; offsets and sizes are taken from them, never from the C types, because the recording
//! kernel may have another word size. Source: kernel/trace/trace_events.c (`f_show`), `signed` since 2.6.33.

use super::bytes::Order;
use super::catalogue::{EventClass, Field, Place};
use super::value::Element;

/// A compiled `format` text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The number in `common_type` of its records.
    pub id: u32,
    /// Its class.
    pub class: EventClass,
}

/// Compiles one `format` text; `None` without an event name or id. Invalid field lines are skipped: their field is
/// unknown, the others remain.
#[must_use]
pub fn parse(text: &str, system: &str, order: Order) -> Option<Format> {
    let mut name = None;
    let mut id = None;
    let mut fields = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(value) = line.strip_prefix("name:") {
            name = Some(value.trim().to_owned());
        } else if let Some(value) = line.strip_prefix("ID:") {
            id = value.trim().parse().ok();
        } else if let Some(field) = line.strip_prefix("field:") {
            fields.extend(parse_field(field));
        } else if line.starts_with("print fmt:") {
            break;
        }
    }
    Some(Format {
        id: id?,
        class: EventClass { system: system.to_owned(), name: name?, fields, order, dynamic: None },
    })
}

/// `unsigned long args[6];  offset:16; size:48; signed:0;`
fn parse_field(line: &str) -> Option<Field> {
    let mut parts = line.split(';');
    let declaration = parts.next()?.trim();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.trim().split_once(':') {
            Some(("offset", value)) => offset = value.trim().parse::<u32>().ok(),
            Some(("size", value)) => size = value.trim().parse::<u32>().ok(),
            Some(("signed", value)) => signed = value.trim() == "1",
            _ => {}
        }
    }
    let (offset, size) = (offset?, size?);
    let dynamic = ["__data_loc", "__rel_loc"].into_iter().find(|word| declaration.starts_with(word));
    let (type_text, name, dimension) = split_declaration(declaration)?;
    let place = match (dynamic, dimension) {
        (Some(word), _) => Place::DataLoc {
            offset,
            relative: word == "__rel_loc",
            element: element(type_text.trim_start_matches(word), 0, None, signed),
        },
        (None, Some(count)) => {
            Place::Array { offset, size, element: element(type_text, size, count.parse().ok(), signed) }
        }
        (None, None) if matches!(size, 1 | 2 | 4 | 8) => Place::Int { offset, size: size as u8, signed },
        (None, None) => {
            Place::Array { offset, size, element: Element { size: 1, signed: false, text: false } }
        }
    };
    Some(Field { name: name.to_owned(), place })
}

/// Type, name, and the text between brackets: `char comm[16]`, `__data_loc char[] name`, `struct x * p`.
fn split_declaration(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let (head, dimension) = match text.strip_suffix(']') {
        Some(text) => {
            let (head, dimension) = text.rsplit_once('[')?;
            (head.trim_end(), Some(dimension.trim()))
        }
        None => (text, None),
    };
    let name = head.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    let type_text = head.strip_suffix(name)?.trim();
    (!name.is_empty()).then_some((type_text, name, dimension))
}

fn element(type_text: &str, all_bytes: u32, count: Option<u32>, signed: bool) -> Element {
    let base = type_text.trim().trim_end_matches("[]").trim();
    if matches!(base, "char" | "const char" | "signed char" | "unsigned char") && base.ends_with("char") {
        // `unsigned char` arrays are bytes (MAC addresses, SCSI commands), plain `char` ones are texts.
        let text = base != "unsigned char" && base != "signed char";
        return Element { size: 1, signed: false, text };
    }
    let by_count = count.filter(|&count| count > 0).map(|count| all_bytes / count);
    let size = by_count.filter(|size| matches!(size, 1 | 2 | 4 | 8)).unwrap_or_else(|| named_size(base));
    Element { size: size as u8, signed, text: false }
}

/// Bytes of an element, if no count determines them (dynamic arrays).
fn named_size(base: &str) -> u32 {
    match base {
        "u8" | "__u8" | "bool" | "s8" | "uint8_t" | "u_char" => 1,
        "u16" | "__u16" | "s16" | "short" | "unsigned short" | "uint16_t" => 2,
        "u32" | "__u32" | "s32" | "int" | "unsigned int" | "uint32_t" | "pid_t" | "gid_t" | "uid_t" => 4,
        _ if base.ends_with('*') => 8,
        "u64" | "__u64" | "s64" | "long" | "unsigned long" | "cpumask_t" | "uint64_t" => 8,
        "long long" | "unsigned long long" => 8,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Cpu, Mono};
    use crate::trace::item::Record;
    use crate::trace::value::Value;

    const WAKING: &str = "name: sample\nID: 77\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:struct napi_struct * napi;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned long args[2];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:char buf[];\toffset:56;\tsize:0;\tsigned:0;\n\n\
        print fmt: \"field:%d\", REC->x\n";

    fn record(data: &[u8]) -> Record<'_> {
        Record { at: Mono(0), cpu: Cpu(0), class: 0, origin: 0, data, first_bit: 0 }
    }

    #[test]
    fn every_form_of_field_is_read_by_name() {
        let format = parse(WAKING, "test", Order::Little).unwrap();
        assert_eq!((format.id, format.class.fields.len()), (77, 7));
        let mut data = vec![0u8; 56];
        data[4..8].copy_from_slice(&(-5i32).to_le_bytes());
        data[8..13].copy_from_slice(b"hog\0x");
        data[24..32].copy_from_slice(&0xffff_8880_0000_1234u64.to_le_bytes());
        data[32..36].copy_from_slice(&((4u32 << 16) | 56).to_le_bytes());
        data[48..56].copy_from_slice(&9u64.to_le_bytes());
        data.extend(b"eth0");
        let class = &format.class;
        let value = |name: &str| class.value(class.field(name).unwrap(), &record(&data)).unwrap();
        assert_eq!(value("common_pid"), Value::Signed(-5));
        assert_eq!(value("comm"), Value::Text(b"hog"));
        assert_eq!(value("napi"), Value::Unsigned(0xffff_8880_0000_1234));
        assert_eq!(value("name"), Value::Text(b"eth0"));
        assert_eq!(value("args[1]"), Value::Unsigned(9));
        assert_eq!(value("arg1"), Value::Unsigned(9));
        assert_eq!(value("buf"), Value::Text(b"eth0"));
        assert!(class.field("missing").is_none());
    }

    #[test]
    fn a_short_record_has_no_value_instead_of_a_wrong_one() {
        let format = parse(WAKING, "test", Order::Little).unwrap();
        let class = &format.class;
        let data = [0u8; 20];
        for name in ["comm", "napi", "name", "args"] {
            assert_eq!(class.value(class.field(name).unwrap(), &record(&data)), None, "{name}");
        }
    }

    #[test]
    fn a_text_without_id_is_no_format() {
        assert_eq!(parse("name: x\nformat:\n", "test", Order::Little), None);
    }
}
