//! What readers of a recording need to know of the kernel: formats of the events, symbols, names of threads.

use std::fs;
use std::path::Path;

use lathunt_core::export::trace_dat::Description;

use super::instance::Instance;
use super::Tracefs;
use crate::sched;

/// Description of the events before the recording begins; names of threads and statistics follow at its end.
pub(super) fn describe(
    tracefs: &Tracefs,
    instance: &Instance,
    systems: &[(String, Vec<String>)],
) -> Description {
    let formats = |system: &str, events: &[String]| -> Vec<Vec<u8>> {
        let format = |event: &String| tracefs.bytes(&format!("events/{system}/{event}/format"));
        events.iter().map(format).filter(|format| !format.is_empty()).collect()
    };
    let of_systems = systems.iter().map(|(system, events)| (system.clone(), formats(system, events)));
    Description {
        page_size: page_size(),
        header_page: tracefs.bytes("events/header_page"),
        header_event: tracefs.bytes("events/header_event"),
        ftrace_formats: formats("ftrace", &directories(&tracefs.root().join("events/ftrace"))),
        systems: of_systems.collect(),
        kallsyms: fs::read("/proc/kallsyms").unwrap_or_default(),
        printk_formats: tracefs.bytes("printk_formats"),
        cmdlines: cmdlines(tracefs),
        clock: instance.text("trace_clock"),
        uname: uname(),
        statistics: Vec::new(),
    }
}

/// Names of the directories in `path`, sorted.
pub(super) fn directories(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Size of a memory page.
pub(super) fn page_size() -> u32 {
    // SAFETY: a plain query.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Names of threads: those saved by the kernel while tracing, and those of live threads, if these have the kernel's ids.
pub(super) fn cmdlines(tracefs: &Tracefs) -> Vec<u8> {
    let mut text = tracefs.bytes("saved_cmdlines");
    if !sched::ids_are_the_kernels() {
        return text;
    }
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(number) {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for task in tasks.filter_map(number) {
            if let Ok(comm) = fs::read(format!("/proc/{process}/task/{task}/comm")) {
                text.extend(format!("{task} ").as_bytes());
                text.extend(comm);
            }
        }
    }
    text
}

fn uname() -> String {
    let part = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let words = [part("ostype"), part("hostname"), part("osrelease"), std::env::consts::ARCH.to_owned()];
    words.each_ref().map(|word| word.trim()).join(" ")
}
