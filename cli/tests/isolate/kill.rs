//! `kill -9` after every single line of the journal, and the machine comes back.
//!
//! A seccomp filter in the victim stops it at each fdatasync, which follows each line; at the chosen one it gets
//! SIGKILL. A limit on the size of the journal kills it, by the kernel, where the *next* line is about to be written:
//! between a change and the note that it was made.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;

use super::snapshot::{Sleepers, Snapshot};
use super::{command, isolate, journal, machine, may_change, stdout};

#[test]
#[ignore = "root: run by make test"]
fn killed_after_every_single_line_of_the_journal_the_machine_comes_back() {
    if !may_change("isolate: kill -9 after every line") {
        return;
    }
    let (_machine, directory, sleepers) = (machine(), journal(), Sleepers::start());
    let before = Snapshot::take();
    let check = |what: &str| {
        let restored = isolate(directory.path(), &["restore", "--patience", "1ms"]);
        assert!(restored.status.success(), "{what}: {}", stdout(&restored));
        assert!(!stdout(&restored).contains("left alone"), "{what}: {}", stdout(&restored));
        let differences = before.differences(&Snapshot::take(), &sleepers, false);
        assert!(differences.is_empty(), "{what}: {differences:#?}\n{}", stdout(&restored));
    };
    let (mut kills, mut sizes) = (0, Vec::new());
    for (by, step) in [("auto", 1), ("affinity", 9)] {
        let mut arguments = vec!["apply", "-c", "1", "-q"];
        if by != "auto" {
            arguments.extend(["--by", by]);
        }
        for line in (1..).step_by(step) {
            let killed = killed_at_line(directory.path(), &arguments, line);
            let text = std::fs::read_to_string(directory.path().join("knobs.journal")).unwrap_or_default();
            if killed {
                kills += 1;
                assert_eq!(text.lines().count(), line, "{by}");
                sizes.push(text.len());
            }
            check(&format!("{by}, killed after line {line}"));
            if !killed {
                break;
            }
        }
        // Each 'change' line is followed by the change: killed with that made, and not noted.
        for size in sizes.drain(..).skip(1).step_by(2 * step.min(3)) {
            let status = limited(command(directory.path(), &arguments), size).status().unwrap();
            kills += usize::from(status.signal() == Some(libc::SIGXFSZ));
            check(&format!("{by}, killed at {size} bytes"));
        }
    }
    assert!(kills >= 100, "only {kills} kills: this shows too little");
    eprintln!("{kills} kills");
}

#[test]
#[ignore = "root: run by make test"]
fn a_journal_elsewhere_is_found_by_the_next_command() {
    if !may_change("isolate: kill -9, journal elsewhere") {
        return;
    }
    let (_machine, directory, sleepers) = (machine(), journal(), Sleepers::start());
    let before = Snapshot::take();
    let lathunt = |arguments: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap()
    };
    assert!(killed_at_line(directory.path(), &["apply", "-c", "1", "-q"], 30));
    let status = stdout(&lathunt(&["isolate", "status"]));
    let listed = stdout(&lathunt(&["isolate", "plan", "-c", "1", "--json"])); // no reason to restore
    let restored = lathunt(&["restore"]);
    let by_path = isolate(directory.path(), &["restore"]);
    let differences = before.differences(&Snapshot::take(), &sleepers, false);
    assert!(differences.is_empty(), "{differences:#?}\n{}", stdout(&restored));
    assert!(status.contains("which was killed"), "{status}");
    assert!(listed.contains("lathunt-isolation-plan"), "{listed}");
    assert!(stdout(&restored).contains("restored to"), "{restored:?}");
    assert_eq!(stdout(&by_path), "Nothing to restore.\n");

    // Without the journal the cpusets still show it. The interrupts are put back with a copy.
    assert!(killed_at_line(directory.path(), &["apply", "-c", "1", "-q"], 60));
    let (journal, copy) = (directory.path().join("knobs.journal"), directory.path().join("copy"));
    std::fs::rename(&journal, &copy).unwrap();
    let is_isolated = || Path::new("/sys/fs/cgroup/cpuset/lathunt-isolated").exists();
    let was_isolated = is_isolated();
    // It may be the isolation of another container: only a request removes it.
    let warned = lathunt(&["check", "--json"]);
    let warning = String::from_utf8_lossy(&warned.stderr).into_owned();
    let is_left_alone = is_isolated() == was_isolated;
    let found = lathunt(&["restore"]);
    std::fs::rename(&copy, &journal).unwrap();
    isolate(directory.path(), &["restore"]);
    let differences = before.differences(&Snapshot::take(), &sleepers, false);
    assert!(differences.is_empty(), "{differences:#?}\n{}", stdout(&found));
    assert!(is_left_alone && (!was_isolated || warning.contains("no journal here names it")), "{warning}");
    assert!(!was_isolated || stdout(&found).contains("lathunt-isolated: restored to 'removed"), "{found:?}");

    // Any other command does the same, says so, and goes on.
    assert!(killed_at_line(directory.path(), &["apply", "-c", "1", "-q"], 30));
    let checked = lathunt(&["check", "--json"]);
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    isolate(directory.path(), &["restore"]);
    let differences = before.differences(&Snapshot::take(), &sleepers, false);
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(told.starts_with("a killed `lathunt isolate` had left CPUs isolated"), "{told}");
    assert!(serde_json::from_slice::<serde_json::Value>(&checked.stdout).is_ok());
}

/// Runs until `line` lines are in the journal, and kills it; false when it ended before.
fn killed_at_line(directory: &Path, arguments: &[&str], line: usize) -> bool {
    let mut victim = command(directory, arguments);
    victim.stdout(std::process::Stdio::null());
    // SAFETY: prctl, ptrace and raise only, on static data.
    unsafe { victim.pre_exec(stop_at_fdatasync) };
    let victim = victim.spawn().unwrap().id().cast_signed();
    let mut seen = 0;
    let mut status = 0;
    // SAFETY: our own child, traced by this thread.
    unsafe {
        loop {
            if libc::waitpid(victim, &mut status, libc::__WALL) != victim {
                return false;
            }
            if !libc::WIFSTOPPED(status) {
                return false;
            }
            if status >> 8 == libc::SIGTRAP | (libc::PTRACE_EVENT_SECCOMP << 8) {
                seen += 1;
                if seen == line {
                    libc::kill(victim, libc::SIGKILL);
                    while libc::waitpid(victim, &mut status, libc::__WALL) == victim
                        && libc::WIFSTOPPED(status)
                    {}
                    return true;
                }
            }
            // The first stop is that of exec.
            let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESECCOMP;
            libc::ptrace(libc::PTRACE_SETOPTIONS, victim, 0, options);
            libc::ptrace(libc::PTRACE_CONT, victim, 0, 0);
        }
    }
}

fn stop_at_fdatasync() -> std::io::Result<()> {
    const TRACE: u32 = 0x7ff0_0000; // SECCOMP_RET_TRACE
    const ALLOW: u32 = 0x7fff_0000;
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // the number of the system call
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_fdatasync as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, TRACE),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live through the calls.
    unsafe {
        if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
        {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The command, which dies when it writes beyond `size` bytes of a file.
fn limited(mut command: std::process::Command, size: usize) -> std::process::Command {
    let limit = libc::rlimit { rlim_cur: size as u64, rlim_max: size as u64 };
    // SAFETY: setrlimit with a valid limit.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    command.stdout(std::process::Stdio::null());
    command
}
