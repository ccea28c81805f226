//! A uprobe on a function of this program, recorded with its three arguments into a private trace instance.

use std::fs;

use super::super::turn::Probe;
use super::tracefs::Instance;
use super::THIRD;
use crate::error::{Error, Result};
use crate::tracefs::uprobes;

/// The function with the breakpoint. It starts like a USDT site: with the five-byte no-operation that the kernel need not
/// execute out of line, and since 6.18 replaces by a call. Any other instruction would be single-stepped, which makes a
/// uprobe look worse than it is, on virtual machines ten times.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn probed(turn: u64, ticks: u64, third: u64) {
    std::arch::naked_asm!(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", "ret")
}
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn probed(turn: u64, ticks: u64, third: u64) {
    std::arch::naked_asm!("nop", "ret")
}

/// Calls it.
pub struct Call;

impl Probe for Call {
    #[inline(always)]
    fn fire(&mut self, turn: u64, ticks: u64) {
        probed(turn, ticks, THIRD);
    }
}

/// The registers of the first three arguments.
#[cfg(target_arch = "x86_64")]
const ARGUMENTS: &str = "turn=%di ticks=%si third=%dx";
#[cfg(target_arch = "aarch64")]
const ARGUMENTS: &str = "turn=%x0 ticks=%x1 third=%x2";

/// The breakpoint and where it is recorded.
pub struct Session {
    instance: Option<Instance>,
    group: String,
}

impl Session {
    pub(super) fn start() -> Result<Session> {
        let instance = Instance::new()?;
        let group = uprobes::group();
        let (path, offset) = place()?;
        let line = format!("p:{group}/{} {path}:{offset:#x} {ARGUMENTS}", uprobes::NAME);
        uprobes::command(instance.tracefs(), &line).map_err(|error| Error::new("set", "a uprobe", error))?;
        let session = Session { instance: Some(instance), group };
        session.enable("1")?;
        Ok(session)
    }

    /// Traces the kernel into the same instance.
    pub(super) fn trace_kernel(&self) -> Result<()> {
        self.instance.as_ref().map_or(Ok(()), Instance::trace_kernel)
    }

    fn enable(&self, value: &str) -> Result<()> {
        let file = format!("events/{}/{}/enable", self.group, uprobes::NAME);
        self.instance.as_ref().map_or(Ok(()), |instance| instance.set(&file, value))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.enable("0");
        if let Some(instance) = self.instance.take() {
            let _ = uprobes::remove(instance.tracefs(), &self.group);
        }
    }
}

/// The file of this program, and the offset of the function in it.
fn place() -> Result<(String, u64)> {
    let address = probed as *const () as u64;
    let maps = fs::read_to_string("/proc/self/maps")
        .map_err(|error| Error::new("read", "/proc/self/maps", error))?;
    let found = maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (from, to) = (number(from)?, number(to)?);
        let offset = number(words.nth(1)?)?;
        let path = words.nth(2)?;
        (from..to).contains(&address).then(|| (path.to_owned(), address - from + offset))
    });
    found.ok_or_else(|| Error::refused("find", "this program's code in /proc/self/maps", ""))
}
