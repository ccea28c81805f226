//! What is left when everything is killed at once is listed and removed by `restore`, and what would falsify a
//! measurement is removed by the next command, whichever it is, with a line that says so.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::state::names;
use super::together::Together;

fn lathunt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap()
}

/// The drop-in replacement measures, too.
fn cyclictest() -> Output {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.arg0("cyclictest").args(["-q", "-l", "1"]).output().unwrap()
}

fn check() -> Output {
    lathunt(&["check", "--json"])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts the command, and kills all of it once `seen` holds, and some time later.
fn killed_when(together: &Together, arguments: &[&str], seen: &dyn Fn() -> bool) {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(arguments).current_dir(place.path()).stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    together.holds(&mut command);
    let mut child = command.spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while !seen() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(100));
    let was_seen = seen();
    together.kill(&mut child);
    assert!(was_seen, "{arguments:?}");
}

fn lines(path: &str, word: &str) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().filter(|line| line.contains(word)).count()
}

fn probes() -> usize {
    lines("/sys/kernel/tracing/uprobe_events", "lathunt_npt_")
}

fn instances() -> usize {
    names("/sys/kernel/tracing/instances", "lathunt-").len()
}

fn together(name: &str) -> Option<Together> {
    let together = Together::new();
    let reason = lathunt_host::testing::lacks_root();
    let reason = reason.or(together.is_none().then_some("no cgroup of version 2 that can be killed"));
    together.filter(|_| lathunt_host::testing::may_run(name, reason))
}

#[test]
#[ignore = "needs root"]
fn the_next_command_stops_the_tracing_that_a_killed_one_left_and_says_so() {
    let Some(together) = together("the_next_command_stops_the_tracing_that_a_killed_one_left_and_says_so")
    else {
        return;
    };
    for (arguments, next) in [
        (&["npt", "--probe", "uprobe", "-n", "100000000"][..], check as fn() -> Output),
        (&["npt", "--probe", "uprobe", "-n", "100000000"], || lathunt(&["restore"])),
        (&["trace", "--events", "min", "-D", "30", "-o", "out"], cyclictest),
        (&["trace", "--events", "min", "-D", "30", "-o", "out"], || lathunt(&["isolate", "status"])),
    ] {
        let is_probe = arguments[0] == "npt";
        let (instances_before, probes_before) = (instances(), probes());
        let seen = || instances() > instances_before && (!is_probe || probes() > probes_before);
        killed_when(&together, arguments, &seen);
        assert!(seen(), "{arguments:?}: nobody is there to remove it");
        let list = text(&lathunt(&["restore", "--list"]).stdout);
        let next = next();
        let told = text(&next.stderr) + &text(&next.stdout);
        assert_eq!((instances(), probes()), (instances_before, probes_before), "{told}");
        assert!(told.contains("/instances/lathunt-") && told.contains("restored to 'removed'"), "{told}");
        assert!(list.contains("traces the kernel for a command that was killed"), "{list}");
        assert!(!is_probe || list.contains("/events/lathunt_npt_"), "{list}");
    }
}

#[test]
#[ignore = "needs root"]
fn isolated_cpus_are_given_back_before_cyclictest_measures_on_them() {
    let Some(together) = together("isolated_cpus_are_given_back_before_cyclictest_measures_on_them") else {
        return;
    };
    if fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default().trim() == "0" {
        return;
    }
    let journal = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = journal.path().to_str().unwrap();
    let file = journal.path().join("knobs.journal");
    let isolate = ["isolate", "run", "-c", "1", "--journal", path, "--", "sleep", "30"];
    let masks = || fs::read_to_string("/proc/irq/default_smp_affinity").unwrap();
    let before = masks();
    killed_when(&together, &isolate, &|| masks() != before);
    assert_ne!(masks(), before);
    let told = text(&cyclictest().stderr);
    assert!(told.starts_with("a killed `lathunt isolate` had left CPUs isolated"), "{told}");
    assert_eq!((masks(), file.exists()), (before.clone(), false));

    // Its journal is removed or replaced: what nothing restores any more is not forgotten.
    killed_when(&together, &isolate, &|| masks() != before);
    let aside = journal.path().with_extension("aside");
    fs::rename(journal.path(), &aside).unwrap();
    fs::create_dir(journal.path()).unwrap();
    let (next, restored) = (check(), lathunt(&["restore"]));
    let list = text(&lathunt(&["restore", "--list"]).stdout);
    fs::remove_dir(journal.path()).unwrap();
    fs::rename(&aside, journal.path()).unwrap();
    let found = lathunt(&["restore"]);
    assert_eq!(masks(), before, "{found:?}");
    for told in [text(&next.stderr), text(&restored.stdout), list] {
        assert!(told.contains(path) && told.contains("its journal was removed or replaced"), "{told}");
    }
    assert_eq!((restored.status.code(), found.status.code()), (Some(1), Some(0)));
}

#[test]
#[ignore = "needs root"]
fn a_session_whose_consumer_was_killed_with_it_is_ended_by_restore() {
    let Some(together) = together("a_session_whose_consumer_was_killed_with_it_is_ended_by_restore") else {
        return;
    };
    let (session, rules) = (Path::new("/run/lathunt/trace.session"), Path::new("/dev/shm/lathunt-0.session"));
    killed_when(&together, &["trace", "--user", "-D", "30", "-o", "out"], &|| rules.exists());
    assert!(session.exists());
    let list = text(&lathunt(&["restore", "--list"]).stdout);
    let restored = lathunt(&["restore"]);
    assert!(list.contains("trace.session: session of a `lathunt trace` that was killed"), "{list}");
    assert!(text(&restored.stdout).contains("ended, with 0 events in"), "{restored:?}");
    assert!(!session.exists() && !rules.exists());
}

#[test]
#[ignore = "needs root"]
fn memory_and_files_of_a_tracer_that_was_killed_are_listed_and_removed() {
    let Some(together) = together("memory_and_files_of_a_tracer_that_was_killed_are_listed_and_removed")
    else {
        return;
    };
    let left = || names("/dev/shm", "lathunt-npt").len() + names("/tmp", "lathunt-npt").len();
    let before = left();
    let npt = ["npt", "--probe", "lathunt", "--drain", "-n", "1000000"];
    killed_when(&together, &npt, &|| left() > before + 1);
    let list = text(&lathunt(&["restore", "--list"]).stdout);
    let restored = lathunt(&["restore"]);
    assert_eq!(left(), before, "{restored:?}");
    assert_eq!(list.matches("files of a load or a tracer that was killed").count(), 2, "{list}");
}

/// Limits of idle states and parameters of the kernel's tracer are in the default journal.
#[test]
#[ignore = "needs root"]
fn settings_in_the_default_journal_are_restored_by_the_next_command() {
    const NAME: &str = "settings_in_the_default_journal_are_restored_by_the_next_command";
    let journal = Path::new("/run/lathunt/knobs.journal");
    if !lathunt_host::testing::may_run(NAME, lathunt_host::testing::lacks_root()) || journal.exists() {
        return;
    }
    lathunt(&["restore"]); // creates the directory
    let knob = "/proc/sys/vm/stat_interval";
    let before = fs::read_to_string(knob).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let other = if before.trim() == "7" { "8" } else { "7" };
    fs::write(
        journal,
        format!(
            "{{\"begin\":{{\"boot\":\"{}\",\"pid\":4194304}}}}\n{{\"change\":{{\"number\":0,\"path\":\"{knob}\",\"old\":\"{}\",\"new\":\"{other}\"}}}}\n",
            boot.trim(),
            before.trim()
        ),
    )
    .unwrap();
    fs::write(knob, other).unwrap();
    let told = text(&check().stderr);
    lathunt(&["restore"]);
    assert_eq!(fs::read_to_string(knob).unwrap(), before);
    assert!(told.starts_with("a killed lathunt had left settings changed. Restored 1 settings"), "{told}");
}
