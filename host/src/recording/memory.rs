//! The kind of memory in which a thread had page faults: a file, the heap, a stack. Looked up once per page, while
//! the process lives; a recording that ends after it still knows.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;

use lathunt_core::time::{Mono, Tid};
use lathunt_core::trace::activation::Activation;
use lathunt_core::trace::window::{Mapped, Mapping};
use procfs::process::{MMapPath, MemoryMap, Process};

/// Maximum number of lookups: the maps of a large process take some 0.1 ms.
const LIMIT: usize = 1_024;
const PAGE: u64 = 4096;

/// Pages by process; `None`: unknown.
#[derive(Default)]
pub(super) struct Memory {
    known: HashMap<(Tid, u64), Option<Mapping>>,
}

impl Memory {
    /// Looks up the last page fault of an activation.
    pub fn see(&mut self, a: &Activation) {
        let key = (a.tgid, a.fault_address / PAGE);
        if a.faults == 0 || self.known.len() >= LIMIT || self.known.contains_key(&key) {
            return;
        }
        self.known.insert(key, mapped(a.tgid, a.fault_address));
    }

    /// The mapping at `address` of `process`, if known.
    pub fn of(&self, process: Tid, address: u64) -> Option<String> {
        self.page(process, address).map(|page| page.of.to_string())
    }

    /// The same with the place of its page in the file.
    pub fn page(&self, process: Tid, address: u64) -> Option<&Mapping> {
        self.known.get(&(process, address / PAGE))?.as_ref()
    }
}

fn mapped(process: Tid, address: u64) -> Option<Mapping> {
    let maps = Process::new(process.0).and_then(|process| process.maps()).ok()?;
    let map = maps.into_iter().find(|map| (map.address.0..map.address.1).contains(&address))?;
    let begin = address / PAGE * PAGE;
    let is_anonymous = matches!(map.pathname, MMapPath::Anonymous | MMapPath::Heap);
    let of = match is_anonymous && is_huge(process, begin) == Some(true) {
        true => Mapped::Huge,
        false => object(&map),
    };
    let offset = map.offset + begin.saturating_sub(map.address.0);
    Some(Mapping { at: Mono(0), begin, end: begin + PAGE, offset, of })
}

/// Whether the page at `begin` is part of a huge page. `None`: not known (before Linux 6.7), or the page is not there.
fn is_huge(process: Tid, begin: u64) -> Option<bool> {
    /// `PAGEMAP_SCAN`, `PAGE_IS_HUGE` (include/uapi/linux/fs.h).
    const SCAN: libc::c_ulong = 0xc060_6610;
    const HUGE: u64 = 1 << 6;
    /// `struct pm_scan_arg`.
    #[repr(C)]
    struct Scan {
        size: u64,
        flags: u64,
        begin: u64,
        end: u64,
        walked_to: u64,
        regions: u64,
        regions_len: u64,
        max_pages: u64,
        inverted: u64,
        all_of: u64,
        any_of: u64,
        returned: u64,
    }
    const _: () = assert!(size_of::<Scan>() == 96);
    let pagemap = File::open(format!("/proc/{}/pagemap", process.0)).ok()?;
    let mut region = [0_u64; 3]; // its begin, end and categories
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        flags: 0,
        begin,
        end: begin + PAGE,
        walked_to: 0,
        regions: region.as_mut_ptr() as u64,
        regions_len: 1,
        max_pages: 0,
        inverted: 0,
        all_of: 0,
        any_of: HUGE,
        returned: HUGE,
    };
    // SAFETY: `scan` is what the request reads and writes; it writes at most one region, and there is room for one.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), SCAN as _, &raw mut scan) };
    (found >= 0).then_some(found == 1 && region[2] & HUGE != 0)
}

fn object(map: &MemoryMap) -> Mapped {
    let name = match &map.pathname {
        MMapPath::Path(path) => return Mapped::File(path.display().to_string()),
        MMapPath::Heap => "heap".to_owned(),
        MMapPath::Stack | MMapPath::TStack(_) => "stack".to_owned(),
        MMapPath::Anonymous => "anonymous memory".to_owned(),
        MMapPath::Vsys(_) => "shared memory".to_owned(),
        MMapPath::Vdso => "vdso".to_owned(),
        MMapPath::Vvar => "vvar".to_owned(),
        other => format!("{other:?}"),
    };
    Mapped::Memory(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_is_told_by_its_maps() {
        let own = Tid(std::process::id() as i32);
        let mapped = |own, address| mapped(own, address).map(|page| page.of.to_string());
        let text = mapped(own, memory_of_this_process_is_told_by_its_maps as *const () as u64);
        assert_eq!(text, std::env::current_exe().ok().map(|path| path.display().to_string()));
        let boxed = Box::new(1u8);
        let heap = mapped(own, std::ptr::from_ref(&*boxed) as u64);
        assert!(heap.is_some_and(|name| name == "heap" || name.starts_with("anonymous memory")));
        assert_eq!(mapped(own, 0), None, "never mapped");
    }
}
