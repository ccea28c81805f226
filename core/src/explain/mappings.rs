//! Files mapped into memory, from the system calls that mapped them: they name the file behind a page fault.
//!
//! Only traces that record the names of opened files tell this (LTTng's `syscall_entry_openat`; the raw system calls
//! of ftrace have pointers). A process is not known from them, so that a file is named only where every mapping of an
//! address agrees. Where `mm_filemap_fault` is recorded, that is better and this is not needed.

use std::collections::HashMap;

use crate::time::{Mono, Tid};
use crate::trace::catalogue::{EventClass, FieldRef};
use crate::trace::event::{Event, Kind};
use crate::trace::item::Record;
use crate::trace::source::Source;
use crate::trace::window::Mapping;

/// Mappings and open files kept.
const MOST: usize = 100_000;

/// What a class of events says of files.
#[derive(Clone, Copy, Debug)]
enum Says {
    /// A file is to be opened; its name.
    Opening(FieldRef),
    /// It was.
    Opened,
    /// Memory is to be mapped.
    Mapping,
    /// It was.
    Mapped,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Mappings {
    says: Vec<Option<Says>>,
    opening: HashMap<Tid, String>,
    open: HashMap<(Tid, i32), String>,
    /// Length, offset and file of the mapping that a thread asks for.
    asked: HashMap<Tid, (u64, u64, String)>,
    known: Vec<Mapping>,
}

impl Mappings {
    /// None yet, of `source`.
    #[must_use]
    pub fn new(source: &dyn Source) -> Mappings {
        Mappings { says: source.catalogue().classes().iter().map(says).collect(), ..Mappings::default() }
    }

    /// Whether events of this class must be shown to [`Mappings::take`].
    #[must_use]
    #[inline]
    pub fn concerns(&self, class: u32) -> bool {
        matches!(self.says.get(class as usize), Some(Some(_)))
    }

    /// Takes in one event.
    pub fn take(&mut self, record: &Record<'_>, class: &EventClass, event: &Event) {
        let (Some(Some(says)), Some(tid)) = (self.says.get(record.class as usize), event.current) else {
            return;
        };
        if self.open.len() + self.opening.len() + self.known.len() > MOST {
            return;
        }
        match (*says, event.kind) {
            (Says::Opening(name), _) => {
                let name = class.text(name, record).map(|name| String::from_utf8_lossy(name).into_owned());
                self.opening.extend(name.map(|name| (tid, name)));
            }
            (Says::Opened, Kind::SysExit { ret, .. }) => {
                if let (Some(name), Ok(fd)) = (self.opening.remove(&tid), i32::try_from(ret)) {
                    self.open.insert((tid, fd), name);
                }
            }
            (Says::Mapping, Kind::SysEnter { args: [_, len, _, _, fd, offset], .. }) => {
                let file = self.open.get(&(tid, fd as i32)).cloned();
                self.asked.extend(file.map(|file| (tid, (len, offset, file))));
            }
            (Says::Mapped, Kind::SysExit { ret, .. }) => {
                if let Some((len, offset, file)) =
                    self.asked.remove(&tid).filter(|_| !(-4096..=0).contains(&ret))
                {
                    let begin = ret as u64;
                    let end = begin.saturating_add(len);
                    self.known.push(Mapping { at: event.at, begin, end, offset, file });
                }
            }
            _ => {}
        }
    }

    /// All of them, in the order of time.
    #[must_use]
    pub fn into_known(self) -> Vec<Mapping> {
        self.known
    }
}

fn says(class: &EventClass) -> Option<Says> {
    match class.name.as_str() {
        "syscall_entry_open" | "syscall_entry_openat" | "syscall_entry_openat2" => {
            class.field("filename").map(Says::Opening)
        }
        "syscall_exit_open" | "syscall_exit_openat" | "syscall_exit_openat2" => Some(Says::Opened),
        "syscall_entry_mmap" => Some(Says::Mapping),
        "syscall_exit_mmap" => Some(Says::Mapped),
        _ => None,
    }
}

/// The file and the offset in it that `address` was mapped to before `before`; `None` where that is not certain.
#[must_use]
pub fn file_at(known: &[Mapping], address: u64, before: Mono) -> Option<(&str, u64)> {
    let holds = |mapping: &&Mapping| {
        mapping.at <= before
            && mapping.begin <= address
            && address < mapping.end
            && mapping.begin < mapping.end
    };
    let mut found = known.iter().rev().filter(holds);
    let last = found.next()?;
    let same = found.all(|other| other.file == last.file);
    same.then(|| (last.file.as_str(), address - last.begin + last.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_where_all_mappings_of_the_address_agree() {
        let mapping = |at, begin, end, offset, file: &str| Mapping {
            at: Mono(at),
            begin,
            end,
            offset,
            file: file.to_owned(),
        };
        let mut known =
            vec![mapping(5, 0x1000, 0x3000, 0x4000, "/data/x"), mapping(6, 0x9000, 0xa000, 0, "/y")];
        assert_eq!(file_at(&known, 0x2010, Mono(9)), Some(("/data/x", 0x5010)));
        assert_eq!(file_at(&known, 0x2010, Mono(4)), None, "not yet");
        assert_eq!(file_at(&known, 0x3000, Mono(9)), None, "behind it");
        known.push(mapping(7, 0x2000, 0x4000, 0, "/other"));
        assert_eq!(file_at(&known, 0x2010, Mono(9)), None, "of two processes, or mapped anew");
        assert_eq!(file_at(&known, 0x1010, Mono(9)), Some(("/data/x", 0x4010)));
    }
}
