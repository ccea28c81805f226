//! What memory it was that a thread had page faults in: a file, the heap, a stack. Asked once for a page, while the
//! process lives; a recording that ends after it still knows.

use std::collections::HashMap;

use lathunt_core::time::Tid;
use lathunt_core::trace::activation::Activation;
use procfs::process::{MMapPath, MemoryMap, Process};

/// Pages asked for: the maps of a large process take some 0.1 ms.
const LIMIT: usize = 256;
const PAGE: u64 = 4096;

/// Pages by process; `None`: it could not be told.
#[derive(Default)]
pub(super) struct Memory {
    known: HashMap<(Tid, u64), Option<String>>,
}

impl Memory {
    /// Looks at the last page fault of an activation.
    pub fn see(&mut self, a: &Activation) {
        let key = (a.tgid, a.fault_address / PAGE);
        if a.faults == 0 || self.known.len() >= LIMIT || self.known.contains_key(&key) {
            return;
        }
        self.known.insert(key, mapped(a.tgid, a.fault_address));
    }

    /// What lies at `address` of `process`, where that is known.
    pub fn of(&self, process: Tid, address: u64) -> Option<String> {
        self.known.get(&(process, address / PAGE))?.clone()
    }
}

fn mapped(process: Tid, address: u64) -> Option<String> {
    let maps = Process::new(process.0).and_then(|process| process.maps()).ok()?;
    maps.into_iter().find(|map| (map.address.0..map.address.1).contains(&address)).map(|map| name(&map))
}

fn name(map: &MemoryMap) -> String {
    match &map.pathname {
        MMapPath::Path(path) => path.display().to_string(),
        MMapPath::Heap => "heap".to_owned(),
        MMapPath::Stack | MMapPath::TStack(_) => "stack".to_owned(),
        MMapPath::Anonymous => "anonymous memory".to_owned(),
        MMapPath::Vsys(_) => "shared memory".to_owned(),
        MMapPath::Vdso => "vdso".to_owned(),
        MMapPath::Vvar => "vvar".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_is_told_by_its_maps() {
        let own = Tid(std::process::id() as i32);
        let text = mapped(own, memory_of_this_process_is_told_by_its_maps as *const () as u64);
        assert_eq!(text, std::env::current_exe().ok().map(|path| path.display().to_string()));
        let boxed = Box::new(1u8);
        let heap = mapped(own, std::ptr::from_ref(&*boxed) as u64);
        assert!(heap.is_some_and(|name| name == "heap" || name == "anonymous memory"));
        assert_eq!(mapped(own, 0), None, "never mapped");
    }
}
