//! Names the variable behind a futex that a thread waited for: `m in loop` instead of an address.
//!
//! A separate thread reads the maps of the process while it lives, and the symbol table of the file that is mapped there,
//! which may be large, damaged, or on a file system that does not respond. It starts with the first futex, after the
//! recording dropped its privileges. If a file has no symbols, the name is `loop+0x4140`: file and address in it, as printed
//! by `nm`.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

use lathunt_core::application::{Class, Place};
use lathunt_core::elf::Elf;
use lathunt_core::explain::{Explanation, Segment};
use lathunt_core::peak::Peak;
use lathunt_core::printable;
use lathunt_core::time::Tid;
use lathunt_core::trace::activation::Activation;
use procfs::process::{MMapPath, MemoryMap, Process};

use crate::trusted::Access;
use crate::{recorder, threads, trusted};

/// Maximum number of futexes to look up.
const LIMIT: usize = 256;
/// Maximum bytes read of files for all of them.
const MOST_READ: u64 = 512 << 20;
/// How long to wait for results at the end.
const PATIENCE: Duration = Duration::from_millis(200);
/// Smaller values are not addresses.
const SMALLEST: u64 = 1 << 16;

type Address = (Tid, u64);
/// Requests to the thread, and its results.
type Looker = (Sender<Address>, Receiver<(Address, Option<String>)>);

/// Futexes by process; `None`: looked up, and unknown.
#[derive(Default)]
pub(super) struct Variables {
    known: HashMap<Address, Option<String>>,
    open: usize,
    looker: Option<Looker>,
}

impl Variables {
    /// Looks up the futex on which a thread blocked.
    pub fn see(&mut self, a: &Activation) {
        let key = (a.tgid, a.point.argument);
        let is_new = key.1 >= SMALLEST && self.known.len() < LIMIT && !self.known.contains_key(&key);
        if !is_new || a.point.syscall < 0 || Place::of(a.point, recorder::syscall_name).class != Class::Lock {
            return;
        }
        self.known.insert(key, None);
        if self.looker.is_none() {
            self.looker = start();
        }
        let asked = self.looker.as_ref().is_some_and(|(ask, _)| ask.send(key).is_ok());
        self.open += usize::from(asked);
    }

    /// Collects available results.
    pub fn collect(&mut self) {
        let Some((_, answers)) = &self.looker else { return };
        while let Ok((address, name)) = answers.try_recv() {
            self.open = self.open.saturating_sub(1);
            self.known.insert(address, name);
        }
    }

    /// The same, and waits a moment for missing ones.
    pub fn finish(&mut self) {
        let until = Instant::now() + PATIENCE;
        while self.open > 0 {
            let Some((_, answers)) = &self.looker else { return };
            let left = until.saturating_duration_since(Instant::now());
            let Ok((address, name)) = answers.recv_timeout(left) else { return };
            self.open -= 1;
            self.known.insert(address, name);
        }
    }

    /// `text` with names for the known addresses of `process`.
    pub fn named(&self, process: Tid, text: &str) -> String {
        let (mut named, mut rest) = (String::new(), text);
        while let Some(at) = rest.find("0x") {
            let digits =
                rest[at + 2..].find(|c: char| !c.is_ascii_hexdigit()).map_or(rest.len(), |n| at + 2 + n);
            let address = u64::from_str_radix(&rest[at + 2..digits], 16).ok();
            let name = address.and_then(|address| self.known.get(&(process, address))?.as_deref());
            named += &rest[..at];
            named += name.unwrap_or(&rest[at..digits]);
            rest = &rest[digits..];
        }
        named + rest
    }

    /// The name of the address at the end of `place`.
    pub fn of_place(&self, process: Tid, place: &str) -> Option<&str> {
        let address = u64::from_str_radix(place.rsplit_once(" 0x")?.1, 16).ok()?;
        let name = self.known.get(&(process, address))?.as_deref()?;
        Some(name.strip_prefix(&format!("{address:#x} ")).unwrap_or(name))
    }

    /// The same in all texts of a late case.
    pub fn name_in(&self, process: Tid, peak: &mut Peak) {
        if self.known.values().all(Option::is_none) {
            return;
        }
        peak.culprit.iter_mut().for_each(|text| self.name(process, text));
        if let Some(Explanation { sentence, advice, tree, cause, limits, .. }) = &mut peak.explanation {
            [sentence, advice, cause].into_iter().chain(limits).for_each(|text| self.name(process, text));
            self.name_in_tree(process, tree);
        }
    }

    fn name_in_tree(&self, process: Tid, segment: &mut Segment) {
        self.name(process, &mut segment.label);
        segment.evidence.iter_mut().for_each(|proof| self.name(process, &mut proof.event));
        segment.children.iter_mut().for_each(|child| self.name_in_tree(process, child));
    }

    fn name(&self, process: Tid, text: &mut String) {
        if text.contains("0x") {
            *text = self.named(process, text);
        }
    }
}

fn start() -> Option<Looker> {
    let (ask, asked) = channel::<Address>();
    let (answer, answers) = channel();
    let look = move || {
        let left = Cell::new(MOST_READ);
        for (process, address) in asked {
            let name = variable(process, address, &left);
            if answer.send(((process, address), name)).is_err() {
                return;
            }
        }
    };
    threads::spawn(look).ok().map(|_| (ask, answers)) // without it, addresses stay
}

/// The variable at `address` of `process`; `left`: bytes that may still be read.
fn variable(process: Tid, address: u64, left: &Cell<u64>) -> Option<String> {
    let process = Process::new(process.0).ok()?;
    let maps = process.maps().ok()?.0;
    let at = maps.iter().position(|map| (map.address.0..map.address.1).contains(&address))?;
    let map = match &maps[at].pathname {
        MMapPath::Path(_) => &maps[at],
        // Zero-initialized variables follow the part of the file.
        MMapPath::Anonymous => {
            at.checked_sub(1).map(|before| &maps[before]).filter(|it| it.address.1 == maps[at].address.0)?
        }
        MMapPath::Heap => return Some(format!("{address:#x} on the heap")),
        MMapPath::Stack | MMapPath::TStack(_) => return Some(format!("{address:#x} on the stack")),
        _ => return None,
    };
    let MMapPath::Path(path) = &map.pathname else { return None };
    let name = printable::line(&path.file_name()?.to_string_lossy()).into_owned();
    let file = opened(process.pid, path, map)?;
    let size = file.metadata().ok()?.len();
    let read = |offset: u64, length: usize| {
        let end = offset.checked_add(length as u64).filter(|end| *end <= size)?;
        left.set(left.get().checked_sub(end - offset)?);
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    };
    let elf = Elf::read(&read)?;
    // Two segments may share a page of the file; only one contains its start.
    let first =
        maps[..=at].iter().rev().find(|it| it.inode == map.inode && it.dev == map.dev && it.offset == 0)?;
    let bias = elf.bias(first.address.0)?;
    let own = address.wrapping_sub(bias);
    if !elf.is_loaded(own) {
        return None;
    }
    Some(match elf.variable(&read, own) {
        Some((variable, 0)) => format!("{} in {name}", printable::line(&variable)),
        Some((variable, into)) => format!("{}+{into} in {name}", printable::line(&variable)),
        None => format!("{name}+{own:#x}"),
    })
}

/// The very file that is mapped: it may be under another root, or deleted by now.
fn opened(process: i32, path: &Path, map: &MemoryMap) -> Option<File> {
    let seen = PathBuf::from(format!("/proc/{process}/root")).join(path.strip_prefix("/").ok()?);
    let open = |path: &Path| {
        // Identified first, and opened only if it is that very file: opening a device or a FIFO has effects, and the process
        // may put one there at any moment.
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        let found = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let stat = found.metadata().ok()?;
        (stat.is_file() && stat.ino() == map.inode).then_some(())?;
        trusted::reopen(&found.into(), Access::Read).ok()
    };
    open(&seen).or_else(|| open(Path::new(&format!("/proc/{process}/exe"))))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Not zero: in the part of the file; zero: after it.
    static WITH_A_VALUE: AtomicU64 = AtomicU64::new(7);
    static ALL_ZERO: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

    #[test]
    fn variables_of_this_program_are_named_wherever_it_was_loaded() {
        WITH_A_VALUE.store(8, Ordering::Relaxed);
        ALL_ZERO[4000].store(1, Ordering::Relaxed);
        let own = Tid(std::process::id() as i32);
        let left = Cell::new(MOST_READ);
        let of = |address: &AtomicU64| variable(own, std::ptr::from_ref(address) as u64, &left).unwrap();
        let program = std::env::current_exe().unwrap();
        let program = program.file_name().unwrap().to_string_lossy().into_owned();
        let (first, second) = (of(&WITH_A_VALUE), of(&ALL_ZERO[4000]));
        assert!(first.contains("WITH_A_VALUE in ") && first.ends_with(&program), "{first}");
        assert!(second.contains("ALL_ZERO+32000 in "), "{second}");
        assert_eq!(variable(own, 16, &left), None);
        assert_eq!(
            variable(own, std::ptr::from_ref(&WITH_A_VALUE) as u64, &Cell::new(100)),
            None,
            "nothing more may be read"
        );
    }

    #[test]
    fn known_addresses_of_a_text_become_names_and_others_stay() {
        let mut variables = Variables::default();
        variables.known.insert((Tid(7), 0x5581_0040), Some("m in loop".to_owned()));
        let text = "in futex (FUTEX_WAIT 0x55810040), a mutex; 0x55810041, 0x, 0xffffffffffffffffff, é0x5";
        assert_eq!(variables.named(Tid(7), text), text.replacen("0x55810040", "m in loop", 1));
        assert_eq!(variables.named(Tid(8), text), text, "another process");
    }
}
