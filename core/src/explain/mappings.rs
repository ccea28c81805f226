//! Files mapped into memory, from the system calls that mapped them: they give the file of a page fault.
//!
//! Needs the names of opened files (LTTng's `syscall_entry_openat`; the raw system calls of ftrace have pointers). The
//! process is not known, so a file is named only if all mappings of an address agree. `mm_filemap_fault`, if recorded,
//! is better and used instead.

use crate::hash::HashMap;
use crate::time::{Mono, Tid};
use crate::trace::catalogue::{EventClass, FieldRef};
use crate::trace::event::{Event, Kind};
use crate::trace::item::Record;
use crate::trace::source::Source;
use crate::trace::window::{Mapped, Mapping};

/// Maximum number of mappings and open files.
const MOST: usize = 100_000;

/// Meaning of a class of events for files.
#[derive(Clone, Copy, Debug)]
enum Says {
    /// Entry of open; the name of the file.
    Opening(FieldRef),
    /// Exit of open; the result is the descriptor.
    Opened,
    /// Entry of mmap.
    Mapping,
    /// Exit of mmap; the result is the address.
    Mapped,
}

/// State so far.
#[derive(Debug, Default)]
pub struct Mappings {
    says: Vec<Option<Says>>,
    opening: HashMap<Tid, String>,
    open: HashMap<(Tid, i32), String>,
    /// Length, offset and file of the mapping that a thread requests.
    asked: HashMap<Tid, (u64, u64, String)>,
    known: Vec<Mapping>,
}

impl Mappings {
    /// Prepares for `source`.
    #[must_use]
    pub fn new(source: &dyn Source) -> Mappings {
        Mappings { says: source.catalogue().classes().iter().map(says).collect(), ..Mappings::default() }
    }

    /// Whether events of this class must be passed to [`Mappings::take`].
    #[must_use]
    #[inline]
    pub fn concerns(&self, class: u32) -> bool {
        matches!(self.says.get(class as usize), Some(Some(_)))
    }

    /// Processes one event.
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
                    self.known.push(Mapping { at: event.at, begin, end, offset, of: Mapped::File(file) });
                }
            }
            _ => {}
        }
    }

    /// All mappings, in time order.
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

/// The object and the offset in it to which `address` was mapped before `before`; `None` if that is not certain.
#[must_use]
pub fn mapped_at(known: &[Mapping], address: u64, before: Mono) -> Option<(&Mapped, u64)> {
    let holds = |mapping: &&Mapping| {
        mapping.at <= before
            && mapping.begin <= address
            && address < mapping.end
            && mapping.begin < mapping.end
    };
    let mut found = known.iter().rev().filter(holds);
    let last = found.next()?;
    let same = found.all(|other| other.of == last.of);
    same.then(|| (&last.of, address - last.begin + last.offset))
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
            of: Mapped::File(file.to_owned()),
        };
        let x = Mapped::File("/data/x".to_owned());
        let mut known =
            vec![mapping(5, 0x1000, 0x3000, 0x4000, "/data/x"), mapping(6, 0x9000, 0xa000, 0, "/y")];
        assert_eq!(mapped_at(&known, 0x2010, Mono(9)), Some((&x, 0x5010)));
        assert_eq!(mapped_at(&known, 0x2010, Mono(4)), None, "not yet");
        assert_eq!(mapped_at(&known, 0x3000, Mono(9)), None, "behind it");
        known.push(mapping(7, 0x2000, 0x4000, 0, "/other"));
        assert_eq!(mapped_at(&known, 0x2010, Mono(9)), None, "of two processes, or mapped anew");
        assert_eq!(mapped_at(&known, 0x1010, Mono(9)), Some((&x, 0x4010)));
    }
}
