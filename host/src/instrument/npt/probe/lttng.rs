//! One event of LTTng-UST with the same payload. Its provider is C, compiled when it is wanted and loaded into this
//! process; the event is reached through one indirect call.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::turn::Probe;
use super::THIRD;
use crate::error::{Error, Result};

/// Calls into the provider.
#[derive(Clone, Copy)]
pub struct Call(extern "C" fn(u64, u64, u64));

impl Probe for Call {
    #[inline(always)]
    fn fire(&mut self, turn: u64, ticks: u64) {
        (self.0)(turn, ticks, THIRD);
    }
}

/// What is not there; `None`: all is.
pub(super) fn missing() -> Option<String> {
    let found = |name: &str| {
        std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).exists()))
    };
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
/// How long one command of lttng may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A session of its own in the session daemon.
pub struct Session {
    name: String,
    work: PathBuf,
    daemon: Option<PathBuf>, // its file of the process id, where we started it
    created: bool,
    call: Option<Call>,
}

impl Session {
    pub(super) fn start(read_timer: bool, events: u64) -> Result<Session> {
        let work = super::room_for(events)?;
        let name = format!("lathunt-npt-{}", std::process::id());
        let mut session = Session { name, work, daemon: None, created: false, call: None };
        let library = session.compile()?;
        session.start_daemon()?;
        let output = format!("--output={}", session.work.join("trace").display());
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
        lttng(&["stop", &self.name])?;
        let listed = lttng(&["list", &self.name])?;
        let discarded = listed.lines().find_map(|line| line.trim().strip_prefix("Discarded events:"));
        let discarded = discarded.map_or("an unknown number", str::trim).to_owned();
        self.end();
        Ok(format!("LTTng-UST events: {discarded} discarded"))
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.created) {
            let _ = lttng(&["destroy", &self.name]);
        }
        if let Some(file) = self.daemon.take() {
            let pid = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<i32>().ok());
            if let Some(pid) = pid.filter(|&pid| pid > 1) {
                end_daemon(pid);
            }
        }
        let _ = fs::remove_dir_all(&self.work);
    }

    fn compile(&self) -> Result<PathBuf> {
        let (header, source, library) =
            (self.work.join("lttng_turn.h"), self.work.join("lttng_turn.c"), self.work.join("lttng_turn.so"));
        let written = fs::write(&header, include_str!("lttng_turn.h"))
            .and_then(|()| fs::write(&source, include_str!("lttng_turn.c")));
        written.map_err(|error| Error::new("write", self.work.display().to_string(), error))?;
        let built = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-I"])
            .args([&self.work, &source])
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

    /// A daemon that runs already is used as it is.
    fn start_daemon(&mut self) -> Result<()> {
        if lttng(&["list"]).is_ok() {
            return Ok(());
        }
        let file = self.work.join("sessiond.pid");
        let started = Command::new("lttng-sessiond")
            .args(["--daemonize", "--no-kernel"])
            .arg(format!("--pidfile={}", file.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let started = started.map_err(|error| Error::new("start", "lttng-sessiond", error))?;
        self.daemon = Some(file);
        match started.success() {
            true => Ok(()),
            false => Err(Error::refused("start", "lttng-sessiond", started.to_string())),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends the daemon that we started, which wrote its number into our own file, and waits until it is gone: while it ends
/// it still answers, and the next run would take it for one that works.
fn end_daemon(pid: i32) {
    let begin = Instant::now();
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        // SAFETY: a plain call.
        unsafe { libc::kill(pid, signal) };
        let patience = begin.elapsed() + Duration::from_secs(10);
        while !is_gone(pid) && begin.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        if is_gone(pid) {
            return;
        }
    }
}

/// No process any more, or one that only waits for its parent to notice.
fn is_gone(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

/// Runs one command of lttng, which must not start a daemon by itself; its output.
fn lttng(arguments: &[&str]) -> Result<String> {
    let shown = || format!("lttng {}", arguments.join(" "));
    let mut child = Command::new("lttng")
        .arg("--no-sessiond")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::new("run", shown(), error))?;
    let begin = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if begin.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::refused("run", shown(), "it did not end within 30 s"));
        }
        std::thread::sleep(Duration::from_millis(10));
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

/// Loads the provider, whose constructor connects to the session daemon; it stays loaded.
fn load(library: &Path) -> Result<Call> {
    use std::os::unix::ffi::OsStrExt;
    let path = CString::new(library.as_os_str().as_bytes())
        .map_err(|error| Error::new("load", "a library", error))?;
    // SAFETY: our own library, compiled just now; the function has the type that its source says.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            let said = std::ffi::CStr::from_ptr(libc::dlerror()).to_string_lossy().into_owned();
            return Err(Error::refused("load", "the event for LTTng-UST", said));
        }
        let function = libc::dlsym(handle, c"lathunt_npt_lttng".as_ptr());
        if function.is_null() {
            return Err(Error::refused("load", "the event for LTTng-UST", "its function is not there"));
        }
        Ok(Call(std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64, u64, u64)>(function)))
    }
}
