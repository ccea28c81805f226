//! An LTTng session daemon for one measurement, with directories of its own, so that neither the user's daemon, sessions
//! and settings nor another measurement's are touched, and nothing outlives this process.
//!
//! An ordinary user's daemon uses `LTTNG_HOME`. Root's uses `/var/run/lttng` regardless of the environment: a mount visible
//! only to this process and its children hides that directory. If such a mount is refused (in a container), a running
//! daemon of root's is used as it is.
//!
//! Every lttng command has a time limit: the daemon of 2.13 sometimes does not answer while it ends.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::child::bound_to_parent;
use crate::error::{Error, Result};
use crate::programs;

/// Time limit of one lttng command, and of the daemon's start and end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where root's daemon has its sockets.
const SYSTEM_PLACE: &std::ffi::CStr = c"/var/run/lttng";

/// The daemon; ended when this is dropped.
pub struct Daemon {
    child: Option<Child>, // `None`: another user's
}

impl Daemon {
    /// Starts it and waits until it answers. Call it before any other thread runs: it changes the environment, and the file
    /// system as seen by this thread and those it starts later.
    pub fn start(work: &Path) -> Result<Daemon> {
        let home = work.join("home");
        fs::create_dir_all(&home).map_err(|source| Error::new("make", home.display().to_string(), source))?;
        // SAFETY: no other thread runs yet, as the caller must see to.
        unsafe { std::env::set_var("LTTNG_HOME", &home) };
        if hide_system_place().is_err() && lttng(&["list"]).is_ok() {
            return Ok(Daemon { child: None });
        }
        let child = bound_to_parent(programs::command("lttng-sessiond").arg("--no-kernel"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| Error::new("start", "lttng-sessiond", source))?;
        let mut daemon = Daemon { child: Some(child) };
        daemon.await_answer()?;
        Ok(daemon)
    }

    fn await_answer(&mut self) -> Result<()> {
        let refused = |said: String| Err(Error::refused("start", "lttng-sessiond", said));
        let begin = Instant::now();
        loop {
            if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
                return refused(format!(
                    "it ended at once ({status}); `lttng-sessiond --no-kernel` says why"
                ));
            }
            match lttng(&["list"]) {
                Ok(_) => return Ok(()),
                Err(error) if begin.elapsed() > PATIENCE => return refused(error.to_string()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            // SAFETY: our own child, not yet waited for, so that the number is its own.
            unsafe { libc::kill(child.id() as libc::pid_t, signal) };
            if ended(&mut child, PATIENCE) {
                return;
            }
        }
    }
}

/// Hides root's directory from now on. Nothing to do for other users.
fn hide_system_place() -> std::io::Result<()> {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    let place = Path::new(SYSTEM_PLACE.to_str().unwrap_or_default());
    fs::DirBuilder::new().recursive(true).mode(0o755).create(place)?;
    let done = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: plain calls with NUL-terminated texts. The mounts are visible to this thread only from the first call on.
    unsafe {
        done(libc::unshare(libc::CLONE_NEWNS))?;
        let none = std::ptr::null();
        done(libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()))?;
        done(libc::mount(
            c"lathunt-npt".as_ptr(),
            SYSTEM_PLACE.as_ptr(),
            c"tmpfs".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV,
            none.cast(),
        ))
    }
}

/// Whether the child has ended within `patience`.
fn ended(child: &mut Child, patience: Duration) -> bool {
    let begin = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if begin.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Runs one lttng command, which must not start a daemon by itself; returns its output.
pub(super) fn lttng(arguments: &[&str]) -> Result<String> {
    let shown = || format!("lttng {}", arguments.join(" "));
    let mut child = programs::command("lttng")
        .arg("--no-sessiond")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::new("run", shown(), error))?;
    if !ended(&mut child, PATIENCE) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::refused(
            "run",
            shown(),
            format!("it did not end within {} s", PATIENCE.as_secs()),
        ));
    }
    let output = child.wait_with_output().map_err(|error| Error::new("run", shown(), error))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
            Err(Error::refused("run", shown(), said))
        }
    }
}
