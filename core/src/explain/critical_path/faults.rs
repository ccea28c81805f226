//! Kinds of page faults while a thread ran, and their memory: each kind has its own remedy.
//!
//! A recorder that only counts (the flight ring) has the number of each kind and the last address; `Window::mappings` has the
//! object there. A huge page is cleared as a whole: such faults are few and long.

use super::Walk;
use crate::explain::mappings::mapped_at;
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::Ns;
use crate::trace::event::{Faulted, Kind as What};
use crate::trace::window::Mapped;

/// Minimum cost of a page fault that does not wait, and of one that clears a huge page.
const COST: Ns = Ns(1_500);
const HUGE_COST: Ns = Ns(50_000);
/// Fewer are not reported.
const MANY: u32 = 20;

/// Page faults of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::explain) struct Faults {
    /// Number.
    pub count: u32,
    /// By kind, if that is recorded.
    how: Faulted,
    /// The memory of the last one, if it is known.
    memory: Option<Mapped>,
}

impl Faults {
    /// Faults of unknown kind.
    pub fn of(count: u32) -> Faults {
        Faults { count, ..Faults::default() }
    }

    /// Adds the faults of another span.
    pub fn add(&mut self, more: Faults) {
        self.count = self.count.saturating_add(more.count);
        self.how.read = self.how.read.saturating_add(more.how.read);
        self.how.written = self.how.written.saturating_add(more.how.written);
        self.how.copied = self.how.copied.saturating_add(more.how.copied);
        self.memory = more.memory.or(self.memory.take());
    }

    /// Whether they take a large part of `own` time.
    pub fn are_much_of(&self, own: Ns) -> bool {
        let (many, cost) = if self.are_huge() { (1, HUGE_COST) } else { (MANY, COST) };
        self.count >= many && cost.0 * u64::from(self.count) * 20 > own.0
    }

    /// Whether they cost more than this number of interrupts.
    pub fn outweigh(&self, interrupts: u32) -> bool {
        self.are_huge() || self.count >= interrupts
    }

    fn are_huge(&self) -> bool {
        self.memory == Some(Mapped::Huge)
    }

    fn are_most(&self, of: u32) -> bool {
        u64::from(of) * 2 > u64::from(self.count)
    }

    /// Text, short name for rankings, and advice.
    pub fn said(&self) -> (String, &'static str, &'static str) {
        let memory = self.memory.as_ref().map_or("memory".to_owned(), Mapped::to_string);
        if self.are_most(self.how.copied) {
            return (
                format!(": copies of shared pages (copy on write: after a fork, or where a page was only read before), the last in {memory}"),
                "page faults: copy on write",
                "write to each page once before it is needed; a fork makes all pages shared again: vfork or posix_spawn, or let another \
                 process fork",
            );
        }
        if let Some(Mapped::File(name)) = &self.memory {
            return (
                format!(": the last on the file {name}"),
                "page faults: a mapped file",
                "lock and touch the mapped file before it is needed (MAP_POPULATE, mlock), and keep it mapped",
            );
        }
        if self.are_huge() {
            return (
                ": huge pages of anonymous memory, which the kernel clears at the first access".to_owned(),
                "page faults: huge pages",
                "lock and touch memory before it is needed (mlockall and a first write), or disable huge pages there (madvise \
                 MADV_NOHUGEPAGE): one takes 100 µs and more to clear",
            );
        }
        if self.are_most(self.how.written) {
            return (
                format!(": first writes, the last to {memory}"),
                "page faults: first writes to memory",
                "lock and touch memory before it is needed (mlockall with MCL_FUTURE, MAP_POPULATE), and keep it: memory that is given \
                 back (munmap, free of large blocks, see mallopt M_TRIM_THRESHOLD and M_MMAP_MAX) comes back with faults",
            );
        }
        if self.are_most(self.how.read) {
            return (
                format!(": first reads, the last of {memory}"),
                "page faults: first reads of memory",
                "lock and touch memory before it is needed (mlockall with MCL_FUTURE, MAP_POPULATE)",
            );
        }
        (
            String::new(),
            "page faults",
            "lock and touch memory before it is needed (mlockall, MAP_POPULATE), and do not fork meanwhile: each page that is touched \
             first costs a fault, and each that is written first after a fork",
        )
    }
}

impl Walk<'_, '_> {
    /// The `count` page faults of a span in which `thread` ran, with kind and memory if recorded.
    pub(super) fn faults_of(&self, thread: &Thread, stretch: &Stretch, count: u32) -> Faults {
        let mut faults = Faults::of(count);
        if count == 0 {
            return faults;
        }
        let events = &self.record.window.events;
        let first = events.partition_point(|event| event.at < stretch.begin);
        let within = events[first..].iter().take_while(|event| event.at <= stretch.end);
        for event in within.filter(|event| event.current == Some(thread.tid)) {
            let What::PageFault { address, how, .. } = event.kind else { continue };
            let memory = mapped_at(&self.record.window.mappings, address, self.record.until());
            faults.add(Faults { count: 0, how, memory: memory.map(|(memory, _)| memory.clone()) });
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_fault_has_a_name_and_a_remedy_of_its_own() {
        let of = |read, written, copied, memory: Option<&Mapped>| {
            let faults =
                Faults { count: 100, how: Faulted { read, written, copied }, memory: memory.cloned() };
            faults.said()
        };
        let (map, heap) = (Mapped::File("/data/map".to_owned()), Mapped::Memory("heap".to_owned()));
        let file = of(100, 0, 0, Some(&map));
        assert_eq!(
            (file.0.as_str(), file.1),
            (": the last on the file /data/map", "page faults: a mapped file")
        );
        assert_eq!(of(1, 2, 97, Some(&map)).1, "page faults: copy on write");
        assert_eq!(of(0, 99, 1, Some(&Mapped::Huge)).1, "page faults: huge pages");
        assert_eq!(of(0, 99, 1, Some(&heap)).0, ": first writes, the last to heap");
        assert_eq!(of(100, 0, 0, None).0, ": first reads, the last of memory");
        assert_eq!(of(0, 0, 0, None).1, "page faults", "a recorder that only counts them");
        let remedies =
            [file.2, of(0, 0, 99, None).2, of(0, 99, 1, Some(&Mapped::Huge)).2, of(0, 99, 1, None).2];
        assert!(remedies.iter().enumerate().all(|(n, one)| !remedies[..n].contains(one)));
    }

    #[test]
    fn few_faults_are_much_only_where_they_clear_huge_pages() {
        let huge = |count| Faults { count, how: Faulted::default(), memory: Some(Mapped::Huge) };
        assert!(huge(20).are_much_of(Ns::from_ms(10)) && !huge(20).are_much_of(Ns::from_ms(100)));
        assert!(!Faults::of(19).are_much_of(Ns(1_000)) && Faults::of(1_000).are_much_of(Ns::from_ms(10)));
    }
}
