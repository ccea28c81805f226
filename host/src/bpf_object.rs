//! Opening, loading and attaching our BPF objects, keeping libbpf's log for the error message.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;

use libbpf_rs::btf::Btf;
use libbpf_rs::{Link, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::error::{Error, Result};
use crate::privileges;

/// libbpf's messages since [`LOG`] was last emptied. Global because libbpf's hook is global.
static LOG: Mutex<String> = Mutex::new(String::new());

fn keep(_: PrintLevel, text: String) {
    let mut log = LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if log.len() < 1 << 20 {
        log.push_str(&text);
    }
}

fn take_log() -> String {
    std::mem::take(&mut *LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// The lines of libbpf's (and the verifier's) log that explain the failure, at most three.
fn readable(log: &str) -> String {
    let worth = |line: &&str| {
        let line = line.trim();
        !line.is_empty()
            && !line.starts_with("processed ")
            && !line.contains("-- BEGIN PROG LOAD LOG --")
            && !line.contains("-- END PROG LOAD LOG --")
            && !line.contains("failed to load object")
    };
    let lines: Vec<&str> = log.lines().filter(worth).collect();
    // The first line names the program and the errno; the verifier's reason is its last line before libbpf continues.
    let first = lines.iter().position(|line| line.contains("failed") || line.contains("error")).unwrap_or(0);
    let reason = lines.iter().rposition(|line| !line.starts_with("libbpf:"));
    let mut chosen: Vec<&str> = lines.iter().skip(first).take(1).copied().collect();
    chosen.extend(reason.filter(|&at| at > first).map(|at| lines[at]));
    chosen.iter().map(|line| line.trim().chars().take(200).collect::<String>()).collect::<Vec<_>>().join("; ")
}

/// `errno` in an error of libbpf, which has it in its text only.
fn errno(error: &libbpf_rs::Error) -> Option<i32> {
    let text = format!("{error:#}");
    let (_, rest) = text.rsplit_once("(os error ")?;
    rest.split(')').next()?.parse().ok()
}

fn explain(doing: &'static str, what: &str, error: libbpf_rs::Error) -> Error {
    let log = readable(&take_log());
    match errno(&error) {
        // A missing capability, of which libbpf's log shows only a symptom; EACCES is a rejection by the verifier.
        Some(libc::EPERM) => {
            let hint = format!("it needs CAP_BPF and CAP_PERFMON: {}", privileges::how_to_get());
            Error::new(doing, what, std::io::Error::from_raw_os_error(libc::EPERM)).hint(hint)
        }
        Some(errno @ (libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => {
            Error::new(doing, what, std::io::Error::from_raw_os_error(errno))
        }
        _ => Error::new(doing, what, format!("{error:#}")).hint(log),
    }
}

/// The kernel's types.
///
/// # Errors
/// The kernel has none, or they cannot be read.
pub(crate) fn kernel_types() -> Result<Btf<'static>> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
    Btf::from_vmlinux().map_err(|error| {
        let what = "the kernel's types (/sys/kernel/btf/vmlinux)";
        let error = match errno(&error) {
            Some(errno) => Error::new("read", what, std::io::Error::from_raw_os_error(errno)),
            None => Error::new("read", what, format!("{error:#}")),
        };
        error.hint("the kernel recorder needs CONFIG_DEBUG_INFO_BTF")
    })
}

/// An ELF file; libelf wants it aligned.
struct Aligned {
    words: Vec<u64>,
    length: usize,
}

impl Aligned {
    /// Of a file that build.rs compressed. A millisecond for the largest.
    fn unpacked(packed: &[u8]) -> std::io::Result<Aligned> {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes)?;
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        };
        Ok(Aligned { words: bytes.chunks(8).map(word).collect(), length: bytes.len() })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the words are initialised, and `length` bytes of them are the file.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.length) }
    }
}

/// Opens `packed`, an ELF file compressed by build.rs, under `name`.
pub(crate) fn open(name: &'static str, packed: &[u8]) -> Result<OpenObject> {
    let object = Aligned::unpacked(packed).map_err(|error| Error::new("unpack", name, error))?;
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
    take_log();
    ObjectBuilder::default()
        .open_memory(object.bytes())
        .map_err(|error| explain("open BPF object", name, error))
}

/// Loads an opened object: the kernel verifies and compiles it. Takes tens of ms: not for a real-time thread.
pub(crate) fn load(name: &'static str, object: OpenObject) -> Result<Object> {
    object.load().map_err(|error| explain("load BPF object", name, error))
}

/// Attaches every loaded program except iterators according to its section. Dropping the links detaches.
pub(crate) fn attach_all(object: &Object) -> Result<Vec<Link>> {
    let loaded = object
        .progs_mut()
        .filter(|program| program.autoload() && !program.section().to_string_lossy().starts_with("iter/"));
    loaded
        .map(|program| {
            let name = program.section().to_string_lossy().into_owned();
            program.attach().map_err(|error| explain("attach", &name, error))
        })
        .collect()
}

/// Runs the iterator `name` of a loaded object over everything it iterates over; returns what it wrote.
pub(crate) fn iterate(object: &Object, name: &'static str) -> Result<Vec<u8>> {
    let failed = |error| explain("run", name, error);
    let found = object.progs_mut().find(|program| program.name() == name);
    let program = found.ok_or_else(|| Error::refused("find", format!("the BPF program {name}"), ""))?;
    let link = program.attach().map_err(failed)?;
    let mut pass = libbpf_rs::Iter::new(&link).map_err(failed)?;
    let mut written = Vec::new();
    pass.read_to_end(&mut written).map_err(|error| Error::new("run", name, error))?;
    Ok(written)
}

/// Events that hit a program of `object` while it was running on the same CPU, and were skipped (kernel:
/// `recursion_misses`), of programs whose names `which` selects. One for a program whose count cannot be read: unknown is not 0.
pub(crate) fn recursions(object: &Object, which: impl Fn(&str) -> bool) -> u64 {
    let of = |program: libbpf_rs::ProgramMut<'_>| {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut length = size_of_val(&info) as u32;
        let fd = program.as_fd().as_raw_fd();
        // SAFETY: `info` is zeroed plain data of the length given; the kernel writes at most that much.
        let failed = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut length) } != 0;
        if failed {
            1
        } else {
            info.recursion_misses
        }
    };
    let asked = |program: &libbpf_rs::ProgramMut<'_>| {
        program.autoload() && program.name().to_str().is_some_and(&which)
    };
    object.progs_mut().filter(asked).map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_reached_is_the_whole_reason_and_has_its_remedy() {
        let of = |errno| {
            let error: libbpf_rs::Error = std::io::Error::from_raw_os_error(errno).into();
            keep(PrintLevel::Warn, "libbpf: prog 'on_exec': BPF program load failed: -EMFILE\n".to_owned());
            explain("load BPF object", "recorder", libbpf_rs::ErrorExt::context(error, "failed")).to_string()
        };
        assert_eq!(
            of(libc::EMFILE),
            "cannot load BPF object recorder: Too many open files (os error 24); raise the limit of open files (ulimit -n)"
        );
        assert_eq!(of(libc::ENOMEM), "cannot load BPF object recorder: Cannot allocate memory (os error 12)");
        assert!(of(libc::EPERM).contains("it needs CAP_BPF"));
        assert!(of(libc::EINVAL).contains("failed: Invalid argument (os error 22); libbpf: prog 'on_exec'"));
    }

    #[test]
    fn a_verifier_log_is_cut_to_the_program_and_the_reason() {
        let log = "libbpf: prog 'on_switch': BPF program load failed: -EACCES\n\
            libbpf: prog 'on_switch': -- BEGIN PROG LOAD LOG --\n0: R1=ctx() R10=fp0\n; int on_switch\n\
            1: (79) r6 = *(u64 *)(r1 +8)\nR3 invalid mem access 'scalar'\nprocessed 12 insns (limit 1000000)\n\
            -- END PROG LOAD LOG --\nlibbpf: prog 'on_switch': failed to load: -EACCES\n";
        assert_eq!(
            readable(log),
            "libbpf: prog 'on_switch': BPF program load failed: -EACCES; R3 invalid mem access 'scalar'"
        );
        assert_eq!(readable(""), "");
    }
}
