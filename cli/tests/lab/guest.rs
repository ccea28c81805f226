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

/// Longest life of a guest: far more than it takes, for a host that has other work.
const LIMIT: Duration = Duration::from_secs(300);

/// What a guest sends through its serial ports.
pub struct Ports {
    /// What it says.
    pub console: PathBuf,
    /// Gzipped tars of results, one after the other.
    pub sent: PathBuf,
    alive: PathBuf,
}

impl Guest {
    /// The one that runs `scenario`.
    pub fn of(scenario: &str) -> Option<&'static Guest> {
        crate::GUESTS.iter().find(|guest| guest.scenarios.contains(&scenario))
    }

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
        let port = |file: PathBuf| ["-serial".to_owned(), format!("file:{}", file.display())];
        // noirqdebug: with the interrupt of the serial port in a thread, the kernel takes the port's interrupts for
        // spurious ones after some 100 KB and turns them off. no_timer_check: at its start the kernel waits a moment for
        // the timer, which a busy host's emulator does not give in time, and panics.
        let line = format!(
            "console=ttyS0 quiet panic=-1 tsc=reliable clocksource=tsc noirqdebug no_timer_check lab.run={}",
            scenarios.join(",")
        );
        Command::new("qemu-system-x86_64")
            .args(["-accel", "tcg", "-m", "1G", "-no-reboot", "-display", "none", "-monitor", "none"])
            .args(self.machine)
            .args(["-net", "none", "-append", &line])
            .arg("-kernel")
            .arg(directory.join("vmlinux"))
            .arg("-initrd")
            .arg(directory.join("initrd"))
            .args([console, sent, alive].into_iter().flat_map(port))
            .stdin(Stdio::null())
            .spawn()
    }
}
