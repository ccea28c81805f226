//! Pulses made by BPF programs.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use lathunt_core::time::{Cpu, Mono, Ns};
use libbpf_rs::{Link, MapCore, Object};

use super::{Options, Pulse};
use crate::bpf_object;
use crate::error::{Error, Result};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/inject.bpf.o.gz"));

const PAGE: usize = 4096; // at least; the kernel rounds the mapping up

/// `struct pulse` of src/bpf/inject.bpf.c.
#[repr(C)]
struct Shared {
    length_ns: AtomicU64,
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
    expires_ns: AtomicU64,
    armed: AtomicU32,
    cpu: AtomicU32,
}

/// One loaded program with the memory it reports into.
pub(super) struct Programs {
    name: &'static str,
    object: Object,
    shared: NonNull<Shared>,
    _link: Option<Link>,
}

// SAFETY: the mapping is only accessed through atomics; libbpf objects may be used from one thread at a time.
unsafe impl Send for Programs {}
// SAFETY: as above: methods that run programs take the object exclusively in practice (one worker thread).
unsafe impl Sync for Programs {}

impl Programs {
    /// Loads the program `name`, and no other of the object.
    pub fn load(name: &'static str) -> Result<Programs> {
        let mut open = bpf_object::open("inject", OBJECT)?;
        for mut program in open.progs_mut() {
            let wanted = program.name() == name;
            program.set_autoload(wanted);
        }
        let object = bpf_object::load("inject", open)?;
        let map = object.maps().find(|map| map.name() == "pulses");
        let map = map.ok_or_else(|| Error::refused("find", "the map of pulses", ""))?;
        // SAFETY: a fresh shared mapping of the map's one page.
        let shared = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), PAGE, access, libc::MAP_SHARED, map.as_fd().as_raw_fd(), 0)
        };
        let shared = NonNull::new(shared.cast::<Shared>())
            .filter(|at| at.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED)
            .ok_or_else(|| Error::last_os("map", "the memory of the injector"))?;
        let link = match name {
            "hold_softirq" | "hold_at_timer" => bpf_object::attach_all(&object)?.pop(),
            _ => None,
        };
        Ok(Programs { name, object, shared, _link: link })
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped until drop; zeroed memory is valid for atomics.
        unsafe { self.shared.as_ref() }
    }

    fn ready(&self, length: Ns) {
        self.shared().length_ns.store(length.0, Relaxed);
        self.shared().end_ns.store(0, Release);
    }

    /// The pulse reported by the program. A pulse on another CPU than requested did not happen.
    fn taken(&self, cpu: Cpu) -> Result<Pulse> {
        let end = self.shared().end_ns.load(Acquire);
        let (begin, on) = (self.shared().begin_ns.load(Relaxed), self.shared().cpu.load(Relaxed));
        if end == 0 || on != cpu.0 {
            return Err(Error::refused(
                "hold",
                format!("CPU {cpu}"),
                "the kernel did not run the program there",
            ));
        }
        Ok(Pulse { begin: Mono(begin), end: Mono(end) })
    }

    /// Runs the program, on this CPU.
    pub fn run(&mut self, options: &Options<'_>) -> Result<Pulse> {
        self.ready(options.length);
        let program = self.object.progs_mut().find(|program| program.name() == self.name);
        let program = program.ok_or_else(|| Error::refused("find", self.name, ""))?;
        let mut run = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        // SAFETY: a loaded program's descriptor and zeroed options of their own size; no buffers are passed.
        let failed = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_fd().as_raw_fd(), &mut run) };
        if failed != 0 {
            return Err(
                Error::last_os("run BPF program", self.name).hint("needs root, or CAP_BPF and CAP_PERFMON")
            );
        }
        self.taken(options.cpu)
    }

    /// Starts the timer; the program holds this CPU in that call.
    pub fn by_timer(&mut self, options: &Options<'_>, timer: &Timer) -> Result<Pulse> {
        self.ready(options.length);
        self.shared().expires_ns.store(Timer::EXPIRES.0, Release);
        let started = timer.start();
        self.shared().expires_ns.store(0, Release);
        started.and_then(|()| self.taken(options.cpu))
    }

    /// Arms the program and sends the packet whose reception it delays. The softirq runs before `send` returns.
    pub fn by_packet(&mut self, options: &Options<'_>, softirq: &Softirq) -> Result<Pulse> {
        self.ready(options.length);
        self.shared().armed.store(options.cpu.0 + 1, Release);
        softirq.trigger()?;
        // If softirqs are threads (PREEMPT_RT), it may still be running: at most its length and one second more.
        for _ in 0..1_000 {
            if self.shared().end_ns.load(Acquire) != 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1) + Duration::from_nanos(options.length.0 / 1_000));
        }
        self.shared().armed.store(0, Release);
        self.taken(options.cpu)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // SAFETY: exactly what `load` mapped.
        unsafe { libc::munmap(self.shared.as_ptr().cast(), PAGE) };
    }
}

/// A packet to ourselves: loopback passes it to NET_RX on the sending CPU.
pub(super) struct Softirq {
    from: UdpSocket,
    to: UdpSocket,
}

impl Softirq {
    pub fn new() -> Result<Softirq> {
        let open = || -> std::io::Result<Softirq> {
            let to = UdpSocket::bind("127.0.0.1:0")?;
            to.set_nonblocking(true)?;
            let from = UdpSocket::bind("127.0.0.1:0")?;
            from.connect(to.local_addr()?)?;
            Ok(Softirq { from, to })
        };
        let hint = "the softirq kind sends itself packets over lo: is it up?";
        open().map_err(|error| Error::new("open", "a loopback socket", error).hint(hint))
    }

    fn trigger(&self) -> Result<()> {
        self.from.send(&[0]).map_err(|error| Error::new("send", "a packet over loopback", error))?;
        while self.to.recv(&mut [0]).is_ok() {}
        Ok(())
    }
}

/// A timer that is started but never expires.
pub(super) struct Timer(OwnedFd);

impl Timer {
    /// Its expiry, ns since 1970: in the year 2043. No other timer has exactly this value.
    const EXPIRES: Ns = Ns((1 << 61) + 1);

    pub fn new() -> Result<Timer> {
        // In a time namespace the kernel shifts some clocks, but not this one.
        // SAFETY: plain values.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os("open", "a timer"));
        }
        // SAFETY: a new descriptor that nobody else has.
        Ok(Timer(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn start(&self) -> Result<()> {
        let second = Ns::from_ms(1_000).0;
        // SAFETY: a zeroed structure of plain numbers: no interval.
        let mut when: libc::itimerspec = unsafe { std::mem::zeroed() };
        when.it_value.tv_sec = (Timer::EXPIRES.0 / second) as libc::time_t;
        when.it_value.tv_nsec = (Timer::EXPIRES.0 % second) as libc::c_long;
        // SAFETY: our own descriptor and a valid structure; the old setting is not asked for.
        let failed = unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &when, std::ptr::null_mut())
        };
        match failed {
            0 => Ok(()),
            _ => Err(Error::last_os("start", "a timer")),
        }
    }
}
