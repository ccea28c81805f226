//! The machines that are booted; what runs on which is said by each program of tests (`GUESTS`).
//!
//! The one in virtual time counts instructions: a nanosecond passes with each, and an idle CPU takes no time of the
//! host. However busy that is, nothing there is late but by what the guest itself does, to the microsecond. QEMU can do
//! that with one CPU only. The other guest has two, each a thread of the host, and shares its time with whatever runs
//! there: its latencies are milliseconds.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One machine.
pub struct Guest {
    pub name: &'static str,
    /// As `lab/prepare` names it: architecture, version. [`Guest::kernel`] is the one that is booted.
    pub kernel: &'static str,
    /// What it is made of, for QEMU.
    pub machine: &'static [&'static str],
    /// In their order; each is `lab/scenarios/NAME.sh`.
    pub scenarios: &'static [&'static str],
    /// Longest without a sign of life, of which there is one in each second of the guest.
    pub silence: Duration,
}

/// One CPU, and time passes with the instructions that it executes.
pub const VIRTUAL_TIME: &[&str] = &["-icount", "shift=0,sleep=off", "-rtc", "clock=vm", "-smp", "1"];
/// A second in which that CPU is busy takes the host ten and more.
pub const SILENCE_OF_VIRTUAL_TIME: Duration = Duration::from_secs(100);
/// Two CPUs, each a thread of the host.
pub const TWO_CPUS: &[&str] = &["-smp", "2"];
/// Silence of those.
pub const SILENCE: Duration = Duration::from_secs(15);

/// The generic board of QEMU with a core of Arm's. It has one serial port; results leave by virtio's, whose driver is in
/// the kernel. (By a serial port on PCI some got lost: the port stood still until the kernel gave up on it.)
const ARM64: &[&str] =
    &["-machine", "virt,gic-version=3", "-cpu", "cortex-a57", "-device", "virtio-serial-pci"];
/// no_timer_check: at its start the kernel waits a moment for the timer, which a busy host's emulator does not give in
/// time, and panics.
const AMD64_LINE: &str = "console=ttyS0 lab.ports=ttyS1,ttyS2 tsc=reliable clocksource=tsc no_timer_check";

/// Longest life of a guest: far more than it takes, for a host that has other work.
const LIMIT: Duration = Duration::from_secs(300);

/// What a guest sends through its ports.
pub struct Ports {
    /// What it says.
    pub console: PathBuf,
    /// Gzipped tars of results, one after the other.
    pub sent: PathBuf,
    alive: PathBuf,
}

impl Guest {
    /// The files in `directory` to which its ports go.
    pub fn ports(&self, directory: &Path) -> Ports {
        let [console, sent, alive] = ["console.log", "results.tgz", "alive"]
            .map(|name| directory.join(format!("{}-{name}", self.name)));
        Ports { console, sent, alive }
    }

    /// Boots for `scenarios`, with kernel and initrd of `directory`, and says how that ended.
    pub fn run(&self, directory: &Path, scenarios: &[&str]) -> std::io::Result<String> {
        let ports = self.ports(directory);
        for old in [&ports.console, &ports.sent, &ports.alive] {
            let _ = std::fs::remove_file(old); // perhaps another user's
        }
        let mut guest = self.start(directory, scenarios)?;
        let (begin, mut frozen) = (Instant::now(), 0);
        let mut last_sign = (0, begin);
        loop {
            crate::freeze::when_asked(guest.id(), &ports.console, &mut frozen);
            if let Some(status) = guest.try_wait()? {
                return Ok(format!("it lived {:.1} s, {status}", begin.elapsed().as_secs_f64()));
            }
            let signs = ports.alive.metadata().map_or(0, |file| file.len());
            if signs != last_sign.0 {
                last_sign = (signs, Instant::now());
            }
            let hangs = signs > 0 && last_sign.1.elapsed() > self.silence;
            if hangs || begin.elapsed() > LIMIT {
                let _ = guest.kill();
                let _ = guest.wait();
                let why = if hangs { "it hung, and" } else { "it" };
                return Ok(format!("{why} was killed after {:.1} s", begin.elapsed().as_secs_f64()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn start(&self, directory: &Path, scenarios: &[&str]) -> std::io::Result<Child> {
        let Ports { console, sent, alive } = self.ports(directory);
        let architecture = self.architecture();
        let (emulator, fixed, said) = match architecture {
            "arm64" => ("qemu-system-aarch64", ARM64, "console=ttyAMA0 lab.ports=vport0p1,vport0p2"),
            _ => ("qemu-system-x86_64", &[][..], AMD64_LINE),
        };
        // noirqdebug: with the interrupt of the serial port in a thread, the kernel takes the port's interrupts for
        // spurious ones after some 100 KB and turns them off.
        let line = format!("{said} quiet panic=-1 noirqdebug lab.run={}", scenarios.join(","));
        let mut qemu = Command::new(emulator);
        qemu.args(["-accel", "tcg", "-m", "1G", "-no-reboot", "-display", "none", "-monitor", "none"])
            .args(fixed)
            .args(self.machine)
            .args(["-net", "none", "-append", &line])
            .arg("-kernel")
            .arg(directory.join(format!("{}.kernel", self.kernel())))
            .arg("-initrd")
            .arg(directory.join(format!("{architecture}.initrd")))
            .args(["-serial", &format!("file:{}", console.display())]);
        for (port, file) in [("sent", sent), ("alive", alive)] {
            let file = file.display();
            match architecture {
                "arm64" => qemu
                    .args(["-chardev", &format!("file,id={port},path={file}")])
                    .args(["-device", &format!("virtserialport,chardev={port}")]),
                _ => qemu.args(["-serial", &format!("file:{file}")]),
            };
        }
        qemu.stdin(Stdio::null()).spawn()
    }

    /// The kernel that is booted: the one for this architecture in `LATHUNT_LAB_KERNELS` ("amd64-6.12 arm64-6.1"), which
    /// `make lab-all` sets, else its own.
    pub fn kernel(&self) -> String {
        let chosen = std::env::var("LATHUNT_LAB_KERNELS").unwrap_or_default();
        let of_this = |name: &&str| name.split('-').next() == Some(self.architecture());
        chosen.split_ascii_whitespace().find(of_this).unwrap_or(self.kernel).to_owned()
    }

    /// As Debian names it; the initrd has that name.
    fn architecture(&self) -> &'static str {
        if self.kernel.starts_with("arm64") {
            "arm64"
        } else {
            "amd64"
        }
    }

    /// Whether `directory` has all that is booted.
    pub fn is_in(&self, directory: &Path) -> bool {
        [format!("{}.kernel", self.kernel()), format!("{}.initrd", self.architecture())]
            .iter()
            .all(|file| directory.join(file).exists())
    }
}
