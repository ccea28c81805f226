//! The process between us and the load, which outlives neither.
//!
//! It holds the read end of a pipe whose only write end is ours: end of file means "stop", whether we closed it or died. It
//! is the subreaper of everything that the load starts, so it inherits all orphans, and it exits only when it has no child.
//! PR_SET_PDEATHSIG alone does not suffice: it reaches one generation, and is bound to the thread that forked. A fork without
//! exec: the same code works in every program that links this crate.
//!
//! The keeper is forked from a multi-threaded process. It prints nothing, takes no lock of ours, and ends with `_exit`.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::activity::{Activity, UNWATCHED};
use super::{builtin, sweep, Job};
use crate::error::{Error, Result};
use crate::private_directory;

/// The keeper's first line when the job runs.
pub(super) const STARTED: &str = "started";
/// File in the load's directory with a program's output.
const OUTPUT: &str = "output";

/// Starts a keeper for `job`; returns its pid, the lifeline to close, and its report (non-blocking).
pub(super) fn start(job: Job, directory: &Path, limit: Duration) -> Result<(libc::pid_t, OwnedFd, File)> {
    let (life_end, lifeline) = pipe()?;
    let (report, report_end) = pipe()?;
    // SAFETY: fcntl on a descriptor that we own.
    if unsafe { libc::fcntl(report.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
        return Err(Error::last_os("watch", "the load"));
    }
    // SAFETY: the child only runs `keep`, which obeys the module header and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os("start", "the keeper of the load")),
        0 => keep(&job, directory, limit, life_end.as_raw_fd(), report_end.as_raw_fd()),
        pid => Ok((pid, lifeline, File::from(report))),
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are ours when the call succeeds.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(Error::last_os("make", "a pipe"));
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Body of the keeper.
fn keep(job: &Job, directory: &Path, limit: Duration, lifeline: RawFd, report: RawFd) -> ! {
    become_ordinary(&[lifeline, report]);
    // SAFETY: a NUL-terminated name.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"load/keeper".as_ptr()) };
    let end = Instant::now() + limit;
    let _held = private_directory::hold(directory);
    // SAFETY: `become_ordinary` kept this descriptor open, and nothing else in this process knows it.
    let mut report = unsafe { File::from_raw_fd(report) };
    let running = run(job, directory, end);
    let said = match &running {
        Ok(_) => STARTED.to_owned(),
        Err(reason) => reason.clone(),
    };
    let _ = report.write_all(format!("{said}\n").as_bytes()); // a closed pipe: the reader is gone
    if let Ok(workers) = running {
        let begin = Instant::now();
        let ended = watch(&workers, lifeline, end, &mut report);
        let how = match ended {
            Some(status) => {
                let after = begin.elapsed().as_secs_f64();
                Some(format!("{} after {after:.1} s{}", describe(status), last_words(directory)))
            }
            None if hung_up(lifeline, 0) => None,
            None => Some(format!("its time of {:.0} s was over", limit.as_secs_f64())),
        };
        if let Some(how) = how {
            let _ = report.write_all(format!("{how}\n").as_bytes());
            await_hang_up(lifeline, end);
        }
    }
    sweep::until_alone();
    let _ = std::fs::remove_dir_all(directory); // partly removed is no worse
                                                // SAFETY: _exit runs nothing of the parent's.
    unsafe { libc::_exit(0) }
}

/// Drops what the measuring process may have passed on: process group (Ctrl-C), descriptors (it may hold /dev/cpu_dma_latency
/// open), signal handling, real-time priority, CPU and output. Of its descriptors from 3 on, `kept` stay open.
pub(crate) fn become_ordinary(kept: &[RawFd]) {
    // SAFETY: each call takes plain values or pointers to locals; failures leave the process unchanged, which is acceptable.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        // Workers of stress-ng signal their parent when they are done; orphaned, they signal us. A handler, since ignored
        // signals would stay ignored in the programs that we start.
        let survive: extern "C" fn(libc::c_int) = survive;
        for signal in SURVIVED {
            libc::signal(signal, survive as libc::sighandler_t);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        let parameters = libc::sched_param { sched_priority: 0 };
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &parameters);
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize).for_each(|cpu| libc::CPU_SET(cpu, &mut all));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &all);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        (0..3).for_each(|standard| _ = libc::dup2(null, standard));
    }
    let mut kept: Vec<RawFd> = kept.iter().copied().filter(|&fd| fd > 2).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        close_range(first, fd - 1);
        first = fd + 1;
    }
    close_range(first, RawFd::MAX);
}

/// Signals that would kill an unprepared process; this one ends only through its lifeline.
const SURVIVED: [libc::c_int; 10] = [
    libc::SIGALRM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
];

extern "C" fn survive(_signal: libc::c_int) {}

/// Closes all descriptors from `first` to `last`.
fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: plain values; the descriptors are this process's copies, and nothing here uses them any more.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
            (first..=last.min(65_535)).for_each(|fd| _ = libc::close(fd)); // before Linux 5.9
        }
    }
}

/// Starts the job; returns the pids whose end is the end of the load, or why it cannot start.
fn run(job: &Job, directory: &Path, end: Instant) -> std::result::Result<Vec<libc::pid_t>, String> {
    match job {
        Job::Builtin { cpus } => builtin::start(*cpus, directory, end),
        Job::Program { arguments, .. } => program(arguments, directory).map(|pid| vec![pid]),
    }
}

fn program(arguments: &[String], directory: &Path) -> std::result::Result<libc::pid_t, String> {
    let (name, rest) = arguments.split_first().ok_or("an empty command")?;
    let output = File::create(directory.join(OUTPUT))
        .map_err(|error| format!("cannot write to its directory: {error}"))?;
    let errors = output.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new(name);
    let argument = |text: &String| text.replace("{directory}", &directory.to_string_lossy());
    command.args(rest.iter().map(argument)).current_dir(directory);
    command.stdin(Stdio::null()).stdout(output).stderr(errors).env("TMPDIR", directory);
    let keeper = std::process::id();
    // SAFETY: the closure makes plain system calls only.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() as u32 != keeper {
                libc::_exit(1); // it died before that, so no signal will come
            }
            libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
            Ok(())
        });
    }
    command.spawn().map(|child| child.id() as libc::pid_t).map_err(|error| format!("{name}: {error}"))
}

/// The load yields to other work on the machine, and takes the rest.
pub(crate) const NICE: libc::c_int = 10;

/// Waits for the lifeline, the end of time, or the end of a worker, whose status is returned.
fn watch(workers: &[libc::pid_t], lifeline: RawFd, end: Instant, report: &mut File) -> Option<ExitStatus> {
    let mut activity = Activity::start();
    if activity.is_none() {
        let _ = writeln!(report, "{UNWATCHED}"); // a closed pipe: the reader is gone
    }
    loop {
        let is_over = hung_up(lifeline, 50) || Instant::now() > end;
        activity.iter_mut().for_each(|activity| activity.look(is_over, report));
        if is_over {
            return None;
        }
        let mut status = 0;
        // SAFETY: waits for any child of this process and writes to a local.
        let ended = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        if workers.contains(&ended) {
            return Some(ExitStatus::from_raw(status));
        }
    }
}

fn await_hang_up(lifeline: RawFd, end: Instant) {
    while !hung_up(lifeline, 50) && Instant::now() < end {}
}

/// Whether data arrived, or the other end was closed, within `milliseconds`.
pub(crate) fn hung_up(lifeline: RawFd, milliseconds: libc::c_int) -> bool {
    let mut watched = libc::pollfd { fd: lifeline, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd that lives through the call.
    unsafe { libc::poll(&mut watched, 1, milliseconds) > 0 && watched.revents != 0 }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The last line that the program printed, at most 200 bytes.
fn last_words(directory: &Path) -> String {
    let said = std::fs::read(directory.join(OUTPUT)).unwrap_or_default();
    let tail = String::from_utf8_lossy(&said[said.len().saturating_sub(4096)..]).into_owned();
    match tail.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!(": {}", line.trim().chars().take(200).collect::<String>()),
        None => String::new(),
    }
}

/// Names this process and makes it die with the keeper; for workers that the keeper forks.
pub(super) fn become_worker(name: &str, keeper: libc::pid_t) {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: a NUL-terminated name that outlives the call; plain values otherwise.
    unsafe {
        for signal in SURVIVED {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != keeper {
            libc::_exit(1); // it died before that, so no signal will come
        }
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}
