//! A consumer in the background: started, found and stopped from any terminal.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::consumer::{Consumer, Status, NICE};
use super::lock::{self, Holder};
use super::place::Place;
use super::session::Session;
use crate::error::{Error, Result};
use crate::signals;
use crate::trusted::{self, Owner};

/// Most bytes of a consumer's report.
const REPORT_BYTES: u64 = 16 << 20;

static STOP: AtomicBool = AtomicBool::new(false);

/// Set by SIGINT, SIGTERM, SIGHUP and the other signals that would kill, from now on.
pub fn stop_on_signals() -> &'static AtomicBool {
    extern "C" fn note(_: libc::c_int) {
        STOP.store(true, Ordering::Relaxed);
    }
    let _ = signals::end_by(note); // a refused handler: that signal kills
    &STOP
}

/// Starts a consumer that outlives this process and its terminal; returns once it is consuming.
///
/// # Errors
/// What kept the consumer from starting.
///
/// # Panics
/// Never: the child's only way out is `_exit`.
pub fn start(place: &Place, session: &Session) -> Result<u32> {
    spawn(place, session, false)
}

/// The same for one that ends with the calling thread, even if that is killed.
///
/// # Errors
/// What kept the consumer from starting.
pub fn start_bound(place: &Place, session: &Session) -> Result<u32> {
    spawn(place, session, true)
}

fn spawn(place: &Place, session: &Session, bound: bool) -> Result<u32> {
    let (mut ours, theirs) =
        UnixStream::pair().map_err(|source| Error::new("start", "the consumer", source))?;
    let parent = std::process::id();
    // SAFETY: the callers of this function have one thread, so the child may do anything.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(Error::last_os("start", "the consumer")),
        0 => {
            drop(ours);
            if bound {
                // SAFETY: plain calls. If the parent died before the first, no signal will come; the parent's id has
                // changed then.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                    if libc::getppid() as u32 != parent {
                        libc::_exit(1);
                    }
                }
            }
            serve(place.clone(), session.clone(), theirs);
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(0) }
        }
        child => {
            drop(theirs);
            let mut answer = String::new();
            let _ = ours.read_to_string(&mut answer);
            match answer.strip_prefix("ok") {
                Some(_) => Ok(child as u32),
                None if answer.is_empty() => Err(Error::refused("start", "the consumer", "it ended at once")),
                None => Err(Error::stated(answer)),
            }
        }
    }
}

fn serve(place: Place, session: Session, mut parent: UnixStream) {
    // SAFETY: plain calls; the child has one thread.
    unsafe {
        libc::setsid();
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..3 {
            libc::dup2(null, standard);
        }
    }
    // This session is a scheduling group of its own (CONFIG_SCHED_AUTOGROUP), and between groups only the group's nice
    // value counts: without it, 10 % of 5 million events a second were lost next to a load. If it is refused, or there
    // are no such groups, nothing changes.
    let _ = fs::write("/proc/self/autogroup", NICE.to_string());
    crate::limits::raise_files(); // programs and threads of all users are open at once
    let stop = stop_on_signals();
    match Consumer::start(place, session) {
        Ok(consumer) => {
            let _ = parent.write_all(b"ok");
            drop(parent);
            let _ = consumer.run(stop); // its last report states the result
        }
        Err(error) => {
            let _ = parent.write_all(error.to_string().as_bytes());
        }
    }
}

/// Stops the running consumer and returns its last report. Waits until everything is written.
///
/// # Errors
/// There is no session, or its consumer does not end within a minute.
pub fn stop(place: &Place) -> Result<Option<Status>> {
    let none = || Error::refused("stop", "the session", "there is none");
    Session::read(&place.session())?.ok_or_else(none)?;
    let Some(consumer) = Holder::of(&place.lock()) else {
        return Err(Error::refused(
            "stop",
            "the session",
            "its consumer has died; `lathunt trace recover` writes the rest",
        ));
    };
    consumer.terminate();
    let patience = Instant::now() + Duration::from_secs(60);
    while lock::is_held(&place.lock()) {
        if Instant::now() > patience {
            return Err(Error::refused(
                "stop",
                format!("the consumer {}", consumer.pid),
                "it is still writing; try again",
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = last_report(&place.status());
    forget_report(place);
    Ok(status)
}

/// Removes the report of a consumer that has ended; nothing if there is none.
pub fn forget_report(place: &Place) {
    let _ = fs::remove_file(place.status());
}

/// The file of a session whose consumer was killed.
#[must_use]
pub fn left(place: &Place) -> Option<PathBuf> {
    let path = place.session();
    (path.exists() && !lock::is_held(&place.lock())).then_some(path)
}

/// Ends that session: writes the events that are still in memory, and lets programs that start record nothing more.
/// Returns where they are, in words.
pub fn end_left(place: &Place) -> Option<(PathBuf, Result<String>)> {
    let path = left(place)?;
    let finish = || -> Result<String> {
        let Some(session) = Session::read(&path)? else { return Ok("it has ended".to_owned()) };
        let finished = Consumer::start(place.clone(), session)?.finish();
        forget_report(place);
        let status = finished?;
        let (recorded, dir) = (status.tally.recorded, status.dir.display());
        match status.problem {
            None => Ok(format!("ended, with {recorded} events in {dir}")),
            Some(problem) => Err(Error::refused("write", format!("all events to {dir}"), problem)),
        }
    };
    let done = finish().map_err(|error| error.and("`lathunt trace recover -o DIR` writes elsewhere"));
    Some((path, done))
}

/// Removes the report of a session that has ended, left when its reader was killed.
pub fn remove_left(place: &Place) -> Option<(PathBuf, std::io::Result<()>)> {
    let path = place.status();
    let is_left = path.exists() && !place.session().exists() && !lock::is_held(&place.lock());
    is_left.then(|| {
        let removed = fs::remove_file(&path);
        (path, removed)
    })
}

/// The consumer's newest report.
#[must_use]
pub fn last_report(path: &Path) -> Option<Status> {
    serde_json::from_slice(&trusted::read(path, Owner::Me, REPORT_BYTES).ok()?).ok()
}
