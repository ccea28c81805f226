//! The process that acts: waits for a case, runs the requested actions within their time limit, reports, waits again.
//!
//! It is the subreaper of everything that it starts, so that nothing escapes it, and it ends with the socket to the measuring
//! process. Above it is a second process, its guard, which only waits: if one of them is killed the other ends what is left
//! (`guard`). A command gets the case in memory, not through a pipe: one that never reads stdin blocks nothing.
//!
//! It is forked from a process that may have threads: it takes no lock of ours and ends with `_exit`. Output of commands goes
//! to stderr (`output`).

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use lathunt_core::time::{Mono, Ns};

use super::guard::{Guard, Line};
use super::output::{Allowance, Output};
use super::{Action, Case, Done, Rules};
use crate::clock::mono;
use crate::limits;
use crate::load::{become_ordinary, until_alone, NICE};

/// Environment variables passed on to another user.
const PASSED_ON: [&str; 5] = ["PATH", "LANG", "LC_ALL", "TZ", "TERM"];

/// Characters of a command that are quoted.
const SHOWN: usize = 200;

/// A case and its answer are lines of text: a number of bytes, and that many bytes.
pub(super) fn message(case: &Case) -> Vec<u8> {
    let mut parts: Vec<String> = vec![case.json.to_owned()];
    parts.extend(case.environment.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]));
    framed(&parts)
}

fn framed(parts: &[String]) -> Vec<u8> {
    let mut bytes = format!("{}\n", parts.len()).into_bytes();
    for part in parts {
        bytes.extend(format!("{}\n{part}", part.len()).into_bytes());
    }
    bytes
}

/// The parts at the start of `bytes`, and their length in bytes; `None`: incomplete.
fn parts(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let number = |at: &mut usize| {
        let end = *at + bytes.get(*at..)?.iter().position(|&byte| byte == b'\n')?;
        let number = std::str::from_utf8(&bytes[*at..end]).ok()?.parse::<usize>().ok()?;
        *at = end + 1;
        Some(number)
    };
    let mut at = 0;
    let count = number(&mut at)?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let length = number(&mut at)?;
        parts.push(String::from_utf8_lossy(bytes.get(at..at.checked_add(length)?)?).into_owned());
        at += length;
    }
    Some((parts, at))
}

/// The answer at the start of `bytes`, and its length.
pub(super) fn answer(bytes: &[u8]) -> Option<(Done, usize)> {
    let (parts, length) = parts(bytes)?;
    let (begin, end) = (parts.first()?.parse().ok()?, parts.get(1)?.parse().ok()?);
    Some((Done { begin: Mono(begin), end: Mono(end), did: parts[2..].to_vec() }, length))
}

/// Serves cases until the socket hangs up.
pub(super) fn attend(actions: &[Action], rules: &Rules, mut stream: UnixStream) -> ! {
    // SAFETY: duplicates a descriptor of this process; on failure it is -1, which is not used.
    let stderr = unsafe { libc::fcntl(2, libc::F_DUPFD_CLOEXEC, 3) };
    let targets = actions.iter().filter_map(|action| match action {
        Action::Signal(target) => Some(target.descriptor()),
        Action::Command(_) => None,
    });
    let kept: Vec<i32> = targets.chain([stream.as_raw_fd(), stderr]).collect();
    become_ordinary(&kept);
    // SAFETY: a NUL-terminated name; plain values.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"lathunt/on-late".as_ptr());
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
    let _ = crate::sched::set_affinity(&rules.cpus); // if refused, all CPUs
                                                     // SAFETY: `become_ordinary` kept it open, and nothing else in this process knows it.
    let stderr = (stderr >= 3).then(|| unsafe { OwnedFd::from_raw_fd(stderr) });
    let Some(guard) = Guard::fork() else {
        // SAFETY: _exit runs nothing of the parent's.
        unsafe { libc::_exit(0) } // the guard, when it is done
    };
    let _ = stream.write_all(&std::process::id().to_ne_bytes());
    let (mut heard, mut allowed) = (Vec::new(), Allowance::new());
    loop {
        let mut bytes = [0; 65_536];
        match guard.while_idle(|| stream.read(&mut bytes)) {
            Ok(0) => break,
            Ok(length) => heard.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        }
        let line = Line { stream: &stream, guard };
        let Some((case, length)) = parts(&heard) else { continue };
        heard.drain(..length);
        let begin = mono();
        let did: Vec<String> = begun(actions, &line)
            .map(|action| one(action, &case, rules, &line, (stderr.as_ref(), &mut allowed)))
            .collect();
        let times = [begin, mono()].map(|at| at.0.to_string());
        if stream.write_all(&framed(&times.into_iter().chain(did).collect::<Vec<_>>())).is_err() {
            break;
        }
    }
    until_alone();
    // SAFETY: _exit runs nothing of the parent's.
    unsafe { libc::_exit(0) }
}

/// The actions that may still start: none does once the measurement is gone.
fn begun<'a>(actions: &'a [Action], line: &'a Line) -> impl Iterator<Item = &'a Action> {
    actions.iter().take_while(|_| !line.is_cut(0))
}

fn one(
    action: &Action,
    case: &[String],
    rules: &Rules,
    line: &Line,
    (stderr, allowed): (Option<&OwnedFd>, &mut Allowance),
) -> String {
    match action {
        Action::Signal(target) => target.send(),
        Action::Command(command) => {
            let ended = run(command, case, rules, stderr)
                .map(|(child, output)| wait(child, rules, line, output, allowed));
            let shown: String = command.chars().take(SHOWN).collect();
            let cut = if shown.len() < command.len() { "…" } else { "" };
            format!("{shown}{cut}: {}", ended.unwrap_or_else(|why| why))
        }
    }
}

/// Starts it, with the case as its stdin.
fn run(
    command: &str,
    case: &[String],
    rules: &Rules,
    stderr: Option<&OwnedFd>,
) -> Result<(libc::pid_t, Output), String> {
    let (json, environment) = case.split_first().ok_or("no case")?;
    let stdin = in_memory(json).map_err(|error| format!("cannot hand the case over: {error}"))?;
    // Not stderr itself: another user could read keystrokes from a terminal.
    let mut output = Output::of(stderr);
    let mut program = Command::new("/bin/sh");
    program.args(["-c", command]).stdin(stdin).stdout(output.end()).stderr(output.end());
    if rules.user.is_some() {
        // Nor the environment of root.
        program.env_clear();
        program.envs(std::env::vars_os().filter(|(name, _)| PASSED_ON.iter().any(|passed| name == passed)));
    }
    for variable in environment.chunks_exact(2) {
        program.env(&variable[0], &variable[1]);
    }
    if let Some(user) = &rules.user {
        user.becomes(&mut program);
    }
    let attendant = std::process::id();
    // SAFETY: the closure makes plain system calls only.
    unsafe {
        program.pre_exec(move || {
            // Without a terminal: another user's command could inject input into that of root.
            libc::setsid();
            // After the change of the user, which clears it.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() as u32 != attendant {
                libc::_exit(1);
            }
            Ok(())
        });
    }
    let child = program.spawn().map_err(|error| {
        let limit = error.raw_os_error().and_then(|errno| limits::remedy("start", "", errno));
        format!("cannot start: {error}{}", limit.map(|limit| format!("; {limit}")).unwrap_or_default())
    })?;
    drop(program); // with its ends of the output
    output.is_handed_over();
    Ok((child.id() as libc::pid_t, output))
}

fn in_memory(text: &str) -> std::io::Result<File> {
    let name = CString::new("case").unwrap_or_default();
    // SAFETY: a NUL-terminated name; the descriptor is ours when the call succeeds.
    let mut file = unsafe {
        match libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(std::io::Error::last_os_error()),
            fd => File::from_raw_fd(fd),
        }
    };
    file.write_all(text.as_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// Waits until nothing of it is left, its time is over, or the measuring process is gone: then the rest is killed.
fn wait(
    child: libc::pid_t,
    rules: &Rules,
    line: &Line,
    mut output: Output,
    allowed: &mut Allowance,
) -> String {
    let begun = Instant::now();
    let mut ended = None;
    loop {
        let mut status = 0;
        output.pass_on(allowed);
        // SAFETY: waits for any child of this process and writes to a local.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            -1 => break, // no child: nothing of it is left
            0 if begun.elapsed() > rules.timeout || line.is_cut(5) => break,
            pid if pid == child => ended = Some(ExitStatus::from_raw(status)),
            _ => {}
        }
    }
    let in_time = begun.elapsed() <= rules.timeout;
    until_alone();
    output.pass_on(allowed);
    let limit = Ns(rules.timeout.as_nanos() as u64);
    let how = match ended.map(|status| (status.code(), status.signal())) {
        None if in_time => "killed: the measurement ended".to_owned(),
        None => format!("killed: it took longer than {limit}"),
        Some(_) if !in_time => format!("ended, and left something that was killed after {limit}"),
        Some((Some(code), _)) => format!("exit status {code}"),
        Some((None, Some(signal))) => format!("killed by signal {signal}"),
        Some((None, None)) => "ended".to_owned(),
    };
    how + &output.told()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_they_were_written_and_not_before_they_are_whole() {
        let written = vec!["{\"a\":\n1}".to_owned(), String::new(), "ü\n3\n".to_owned()];
        let bytes = framed(&written);
        assert_eq!(parts(&bytes), Some((written, bytes.len())));
        assert!((0..bytes.len()).all(|length| parts(&bytes[..length]).is_none()));
        assert_eq!(parts(b"99999999999999999999\n"), None);
    }
}
