//! A uprobe on a function of this program, recorded with its three arguments into a private trace instance.

use std::fs::{self, OpenOptions};
use std::io::Write;

use super::super::turn::Probe;
use super::tracefs::Instance;
use super::THIRD;
use crate::error::{Error, Result};

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

const PREFIX: &str = "lathunt_npt_";

/// The breakpoint and where it is recorded.
pub struct Session {
    instance: Option<Instance>,
    group: String,
}

impl Session {
    pub(super) fn start() -> Result<Session> {
        let instance = Instance::new()?;
        let group = format!("{PREFIX}{}", std::process::id());
        remove_left_behind(&instance);
        let (path, offset) = place()?;
        let line = format!("p:{group}/turn {path}:{offset:#x} {ARGUMENTS}");
        command(&instance, &line).map_err(|error| Error::new("set", "a uprobe", error))?;
        let session = Session { instance: Some(instance), group };
        session.enable("1")?;
        Ok(session)
    }

    /// Traces the kernel into the same instance.
    pub(super) fn trace_kernel(&self) -> Result<()> {
        self.instance.as_ref().map_or(Ok(()), Instance::trace_kernel)
    }

    fn enable(&self, value: &str) -> Result<()> {
        let file = format!("events/{}/turn/enable", self.group);
        self.instance.as_ref().map_or(Ok(()), |instance| instance.set(&file, value))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.enable("0");
        if let Some(instance) = self.instance.take() {
            let _ = command(&instance, &format!("-:{}/turn", self.group));
        }
    }
}

/// Adds or removes a probe; the file is shared by all users, so only our own group is named.
fn command(instance: &Instance, line: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(instance.tracefs().root().join("uprobe_events"))?;
    file.write_all(line.as_bytes())
}

/// Removes probes of runs that were killed.
fn remove_left_behind(instance: &Instance) {
    let text = fs::read_to_string(instance.tracefs().root().join("uprobe_events")).unwrap_or_default();
    for line in text.lines() {
        let name = line.split_ascii_whitespace().next().unwrap_or_default();
        let Some(name) = name.strip_prefix("p:") else { continue };
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('/').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = command(instance, &format!("-:{name}"));
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
