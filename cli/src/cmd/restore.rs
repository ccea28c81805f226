//! `lathunt restore`: restores settings that a killed lathunt left changed on this machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lathunt_core::numbers::counted;
use lathunt_core::printable;
use lathunt_host::channel::daemon;
use lathunt_host::channel::place::Place;
use lathunt_host::knob::{self, Outcome, Restored};
use lathunt_host::link::sysv;
use lathunt_host::tracefs::{self, Tracefs};
use lathunt_host::{isolate, private_directory};

use crate::out;

/// Restore settings that a killed lathunt left changed.
///
/// Every command that changes settings does this first. Settings that somebody else has changed since are reported and not
/// touched. CPUs isolated by `lathunt isolate apply` stay isolated until `lathunt isolate restore`.
#[derive(clap::Args, Debug)]
pub struct RestoreArgs {
    /// List the changed settings, and change nothing
    #[arg(long)]
    list: bool,
    /// Discard the journal, also if it cannot be read; nothing in it is restored
    #[arg(long, conflicts_with = "list")]
    forget: bool,
    /// Print JSON: an array of {path, outcome}, or with --list an array of the changes in the journal
    #[arg(long)]
    json: bool,
    /// Print only the settings that could not be restored
    #[arg(short, long)]
    quiet: bool,
    /// Directory of the journal [default: /run/lathunt (root), or the runtime directory of the user]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

/// Exit code 0 if nothing is left to do, 1 if a setting could not be restored.
///
/// # Errors
/// If another lathunt holds the knobs, or the journal cannot be read.
pub fn run(args: RestoreArgs) -> anyhow::Result<ExitCode> {
    let (directory, of_isolate) = journals(&args);
    if args.list {
        return list(&args, &directory, &of_isolate);
    }
    if args.forget {
        let mut count = knob::forget(&directory)?;
        for directory in &of_isolate {
            count += knob::forget(directory)?;
        }
        if args.journal.is_none() {
            count += knob::forget_lost();
        }
        let entries = if count == 1 { "entry" } else { "entries" };
        out::print(&format!("{count} {entries} discarded, nothing restored.\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut restored = knob::recover(&directory)?;
    restored.extend(remove_instances());
    restored.extend(
        private_directory::remove_left()
            .into_iter()
            .map(|(path, done)| Restored { path, outcome: removed(done) }),
    );
    restored.extend(
        daemon::end_left(&Place::from_environment())
            .map(|(path, done)| Restored { path, outcome: outcome(done) }),
    );
    restored.extend(
        daemon::remove_left(&Place::from_environment())
            .map(|(path, done)| Restored { path, outcome: removed(done) }),
    );
    restored.extend(
        sysv::remove_left()
            .into_iter()
            .map(|(id, done)| Restored { path: semaphores(id), outcome: removed(done) }),
    );
    for directory in &of_isolate {
        restored.extend(knob::recover(directory)?);
    }
    if args.journal.is_none() {
        restored.extend(cpusets());
    }
    for path in lost(&args) {
        restored.push(Restored { path, outcome: Outcome::Failed { error: LOST.to_owned() } });
    }
    let text = if args.json {
        serde_json::to_string_pretty(&restored)? + "\n"
    } else if restored.is_empty() && !args.quiet {
        "Nothing to restore.\n".to_owned()
    } else {
        let told = restored.iter().filter(|one| !args.quiet || one.outcome.is_due());
        told.map(|one| printable::line(&one.to_string()).into_owned() + "\n").collect()
    };
    out::print(&text)?;
    let code = u8::from(restored.iter().any(|one| one.outcome.is_due()));
    Ok(ExitCode::from(code))
}

/// The directory of the journal, and those of `isolate`.
fn journals(args: &RestoreArgs) -> (PathBuf, Vec<PathBuf>) {
    let directory = args.journal.clone().unwrap_or_else(knob::default_directory);
    let mut of_isolate = vec![directory.join("isolate")];
    if args.journal.is_none() {
        of_isolate.extend(knob::elsewhere());
    }
    (directory, of_isolate)
}

/// Removes cpusets that no journal names.
fn cpusets() -> impl Iterator<Item = Restored> {
    isolate::remove_left().into_iter().map(|(path, done)| {
        let value = "removed; its journal is gone: interrupts and work queues may still be kept off its CPUs";
        Restored { path, outcome: outcome(done.map(|()| value.to_owned())) }
    })
}

/// Directories of journals that are gone.
fn lost(args: &RestoreArgs) -> Vec<PathBuf> {
    if args.journal.is_some() {
        Vec::new()
    } else {
        knob::lost()
    }
}

const LOST: &str =
    "its journal was removed or replaced, and what a killed lathunt had changed may be in force; \
                    compare the machine, then `lathunt restore --forget` discards this";

/// At the start of every command that measures or reads: what a killed lathunt left changed would falsify what is
/// measured.
pub fn all_after_kill() {
    settings_after_kill();
    for directory in std::iter::once(isolate::default_directory()).chain(knob::elsewhere()) {
        journal_after_kill(&directory, "a killed `lathunt isolate` had left CPUs isolated");
    }
    for path in isolate::left() {
        eprintln!(
            "lathunt: {} isolates CPUs, and no journal here names it: `lathunt restore` removes it, unless a lathunt in another container made it",
            path.display()
        );
    }
    for path in knob::lost() {
        eprintln!("lathunt: {}: {LOST}", path.display());
    }
}

/// The same without the journals of `isolate`, which restores them itself.
pub fn settings_after_kill() {
    let left = Tracefs::mounted().ok().flatten().map(|tracefs| tracefs::remove_left(&tracefs));
    for (path, done) in left.into_iter().flatten() {
        let outcome = removed(done);
        eprintln!("a killed lathunt had left the kernel traced. {}", Restored { path, outcome });
    }
    journal_after_kill(&knob::default_directory(), "a killed lathunt had left settings changed");
}

fn journal_after_kill(directory: &Path, what: &str) {
    match knob::left(directory) {
        Err(error) => eprintln!("lathunt: {error}; a killed lathunt may have left settings changed"),
        Ok(left) if left.kept || (left.changes.is_empty() && left.unreadable == 0) => {}
        Ok(_) => match knob::recover(directory) {
            Ok(restored) => eprint!("{what}. {}", super::isolate::restored(&restored)),
            Err(_) if knob::is_held(directory) => {} // its owner runs
            Err(error) => eprintln!("lathunt: {error}; {what}"),
        },
    }
}

/// The path listed for a set of semaphores, which has no name.
fn semaphores(id: i32) -> PathBuf {
    PathBuf::from(format!("semaphore set {id}"))
}

/// Removes trace buffers of killed recordings.
fn remove_instances() -> Vec<Restored> {
    let Ok(tracefs) = Tracefs::open() else { return Vec::new() }; // no tracefs, so no recording
    let done = tracefs::remove_left(&tracefs).into_iter();
    done.map(|(path, done)| Restored { path, outcome: removed(done) }).collect()
}

fn removed(done: std::io::Result<()>) -> Outcome {
    outcome(done.map(|()| "removed".to_owned()))
}

fn outcome(done: Result<String, impl std::fmt::Display>) -> Outcome {
    match done {
        Ok(value) => Outcome::PutBack { value },
        Err(error) => Outcome::Failed { error: error.to_string() },
    }
}

fn list(args: &RestoreArgs, directory: &Path, of_isolate: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let knob::Left { mut changes, mut unreadable, .. } = knob::left(directory)?;
    for directory in of_isolate {
        let left = knob::left(directory)?;
        changes.extend(left.changes);
        unreadable += left.unreadable;
    }
    if unreadable > 0 {
        eprintln!(
            "lathunt: {} of the journal below {} cannot be read: each may be a change that is still in force",
            counted(unreadable as u64, "line"),
            directory.display()
        );
    }
    let lost = lost(args);
    let others = left_beside();
    let text = if args.json {
        serde_json::to_string_pretty(&changes)? + "\n"
    } else if changes.is_empty() && others.is_empty() && lost.is_empty() && !args.quiet {
        "Nothing is changed.\n".to_owned()
    } else {
        let changes = changes.iter().map(|change| {
            format!("{}: '{}', before that '{}'", change.path.display(), change.new, change.old)
        });
        let lost = lost.iter().map(|path| format!("{}: {LOST}", path.display()));
        let lines = others.into_iter().chain(changes).chain(lost);
        lines.map(|line| printable::line(&line).into_owned() + "\n").collect()
    };
    out::print(&text)?;
    Ok(ExitCode::from(u8::from(unreadable > 0 || !lost.is_empty())))
}

/// What `restore` removes that is in no journal.
fn left_beside() -> Vec<String> {
    let of = |paths: Vec<PathBuf>, what: &str| {
        paths.into_iter().map(|path| format!("{}: {what}", path.display())).collect::<Vec<_>>()
    };
    let traced = Tracefs::open().map(|tracefs| tracefs::left(&tracefs)).unwrap_or_default();
    let sets = sysv::left().into_iter().map(semaphores).collect();
    let session = daemon::left(&Place::from_environment());
    [
        of(traced, "traces the kernel for a command that was killed"),
        of(private_directory::left(), "files of a load or a tracer that was killed"),
        of(session.into_iter().collect(), "session of a `lathunt trace` that was killed"),
        of(sets, "of a channel whose process was killed"),
        of(isolate::left(), "isolates CPUs, and no journal here names it"),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(directory: &Path) -> RestoreArgs {
        RestoreArgs {
            list: false,
            forget: false,
            json: false,
            quiet: true,
            journal: Some(directory.to_owned()),
        }
    }

    #[test]
    fn what_a_killed_run_left_is_put_back_and_what_cannot_be_is_an_error() {
        let machine = tempfile::tempdir().unwrap();
        let (knob, journal) = (machine.path().join("knob"), machine.path().join("run"));
        std::fs::write(&knob, "1").unwrap();
        let (mut knobs, _) = knob::Knobs::open(&journal).unwrap();
        knobs.set(&knob, "0").unwrap();
        assert!(run(args(&journal)).is_err(), "its owner still runs");
        let left = std::fs::read(journal.join("knobs.journal")).unwrap();
        drop(knobs);
        std::fs::write(journal.join("knobs.journal"), left).unwrap(); // as after kill -9
        std::fs::write(&knob, "0").unwrap();
        assert_eq!(run(args(&journal)).unwrap(), ExitCode::SUCCESS);
        assert_eq!(std::fs::read_to_string(&knob).unwrap(), "1");
        assert_eq!(run(args(&journal)).unwrap(), ExitCode::SUCCESS, "nothing is left to do");
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_kept_until_it_is_discarded_on_purpose() {
        let machine = tempfile::tempdir().unwrap();
        let journal = machine.path().join("run");
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&journal)
            .unwrap();
        let file = journal.join("knobs.journal");
        for damaged in [&b"{\"what\":\"newer\"}\n"[..], &[0; 100], b"\xff\xff\n"] {
            std::fs::write(&file, damaged).unwrap();
            assert_eq!(run(args(&journal)).unwrap(), ExitCode::from(1), "{damaged:?}");
            assert_eq!(std::fs::read(&file).unwrap(), damaged, "kept as it is");
            let list = RestoreArgs { list: true, ..args(&journal) };
            assert_eq!(run(list).unwrap(), ExitCode::from(1));
            assert_eq!(run(RestoreArgs { forget: true, ..args(&journal) }).unwrap(), ExitCode::SUCCESS);
            assert!(!file.exists());
        }
    }

    #[test]
    fn a_machine_on_which_nothing_was_ever_changed_needs_nothing() {
        let machine = tempfile::tempdir().unwrap();
        let never = machine.path().join("never");
        assert_eq!(run(args(&never)).unwrap(), ExitCode::SUCCESS);
        assert!(!never.exists(), "looking must not create the directory");
    }
}
