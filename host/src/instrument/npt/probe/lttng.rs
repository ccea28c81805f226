//! One event of LTTng-UST with the same payload. Its provider is C, compiled on use and loaded into this process;
//! the event is emitted through one indirect call.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::turn::Probe;
use super::lttng_daemon::{lttng, Daemon};
use super::THIRD;
use crate::error::{Error, Result};
use crate::private_directory::Private;
use crate::programs;

/// Calls into the provider.
#[derive(Clone, Copy)]
pub struct Call(extern "C" fn(u64, u64, u64));

impl Probe for Call {
    #[inline(always)]
    fn fire(&mut self, turn: u64, ticks: u64) {
        (self.0)(turn, ticks, THIRD);
    }
}

/// What is missing; `None`: nothing.
pub(super) fn missing() -> Option<String> {
    let found = |name: &str| programs::find(name).is_some();
    let header = ["/usr/include", "/usr/local/include"]
        .iter()
        .any(|base| Path::new(base).join("lttng/tracepoint.h").exists())
        || fs::read_dir("/usr/include").into_iter().flatten().flatten().any(|entry| {
            entry.file_name().to_string_lossy().contains("-linux-gnu")
                && entry.path().join("lttng/tracepoint.h").exists()
        });
    let absent: Vec<&str> = [
        (found("lttng") && found("lttng-sessiond"), "lttng-tools"),
        (header, "liblttng-ust-dev"),
        (found("cc"), "a C compiler"),
    ]
    .into_iter()
    .filter_map(|(there, name)| (!there).then_some(name))
    .collect();
    (!absent.is_empty()).then(|| format!("not installed: {}", absent.join(", ")))
}

/// Sub-buffers as large as our packets, and as much memory as our rings have.
const CHANNEL: [&str; 2] = ["--subbuf-size=4096", "--num-subbuf=2048"];

/// A session of its own in a session daemon of its own.
pub struct Session {
    name: String,
    work: Private,
    daemon: Option<Daemon>,
    created: bool,
    call: Option<Call>,
}

impl Session {
    pub(super) fn start(read_timer: bool, events: u64) -> Result<Session> {
        let work = super::room_for(events)?;
        let name = format!("lathunt-npt-{}", std::process::id());
        let mut session = Session { name, work, daemon: None, created: false, call: None };
        let library = session.compile()?;
        session.daemon = Some(Daemon::start(&session.work.path)?);
        let output = format!("--output={}", session.work.path.join("trace").display());
        lttng(&["create", &session.name, &output])?;
        session.created = true;
        let of = format!("--session={}", session.name);
        let mut channel = vec!["enable-channel", "--userspace", &of];
        channel.extend(CHANNEL);
        if read_timer {
            channel.push("--read-timer=5000");
        }
        channel.push("npt");
        lttng(&channel)?;
        lttng(&["enable-event", "--userspace", &of, "--channel=npt", "lathunt_npt:turn"])?;
        lttng(&["start", &session.name])?;
        session.call = Some(load(&library)?);
        Ok(session)
    }

    pub(super) fn call(&self) -> Call {
        extern "C" fn nothing(_: u64, _: u64, _: u64) {}
        self.call.unwrap_or(Call(nothing))
    }

    pub(super) fn finish(mut self) -> Result<String> {
        // Missing counts do not invalidate the measurement.
        let listed = lttng(&["stop", &self.name]).and_then(|_| lttng(&["list", &self.name]));
        self.end();
        let discarded = match &listed {
            Ok(text) => text.lines().find_map(|line| line.trim().strip_prefix("Discarded events:")),
            Err(_) => None,
        };
        Ok(match (discarded, &listed) {
            (Some(discarded), _) => format!("LTTng-UST events: {} discarded", discarded.trim()),
            (None, Ok(_)) => "LTTng-UST events: an unknown number discarded".to_owned(),
            (None, Err(error)) => format!("LTTng-UST events: an unknown number discarded: {error}"),
        })
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.created) {
            let _ = lttng(&["destroy", &self.name]);
        }
        self.daemon = None;
    }

    fn compile(&self) -> Result<PathBuf> {
        let work = &self.work.path;
        let (header, source, library) =
            (work.join("lttng_turn.h"), work.join("lttng_turn.c"), work.join("lttng_turn.so"));
        let written = fs::write(&header, include_str!("lttng_turn.h"))
            .and_then(|()| fs::write(&source, include_str!("lttng_turn.c")));
        written.map_err(|error| Error::new("write", work.display().to_string(), error))?;
        let built = programs::command("cc")
            .args(["-O2", "-shared", "-fPIC", "-I"])
            .args([work, &source])
            .args([Path::new("-o"), &library])
            .args(["-llttng-ust", "-ldl"])
            .output()
            .map_err(|error| Error::new("run", "cc", error))?;
        match built.status.success() {
            true => Ok(library),
            false => {
                let said =
                    String::from_utf8_lossy(&built.stderr).lines().take(3).collect::<Vec<_>>().join("; ");
                Err(Error::refused("compile", "the event for LTTng-UST", said))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// Loads the provider, whose constructor connects to the session daemon; it stays loaded until the process ends, and
/// its destructors never run: LTTng-UST's wait for threads of its own, which may wait for a daemon that is gone.
fn load(library: &Path) -> Result<Call> {
    use std::os::unix::ffi::OsStrExt;
    unsafe extern "C" {
        fn on_exit(
            act: extern "C" fn(libc::c_int, *mut libc::c_void),
            argument: *mut libc::c_void,
        ) -> libc::c_int;
    }
    extern "C" fn leave_at_once(status: libc::c_int, _: *mut libc::c_void) {
        // SAFETY: no preconditions. Rust's own output has been flushed before exit handlers run.
        unsafe { libc::_exit(status) }
    }
    let path = CString::new(library.as_os_str().as_bytes())
        .map_err(|error| Error::new("load", "a library", error))?;
    // SAFETY: our own library, compiled just now; the function has the type that its source says.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            let said = std::ffi::CStr::from_ptr(libc::dlerror()).to_string_lossy().into_owned();
            return Err(Error::refused("load", "the event for LTTng-UST", said));
        }
        // Registered after those of the library, so that it runs before them.
        on_exit(leave_at_once, std::ptr::null_mut());
        let function = libc::dlsym(handle, c"lathunt_npt_lttng".as_ptr());
        if function.is_null() {
            return Err(Error::refused("load", "the event for LTTng-UST", "its function is missing"));
        }
        Ok(Call(std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64, u64, u64)>(function)))
    }
}
