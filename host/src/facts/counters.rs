//! What happened during the measurement? Counters read before and after: stolen time, SMIs, thermal throttling, and the
//! kernel's log.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use lathunt_core::conditions::{CpuCount, CpuSteal, DuringMeasurement, Neighbour};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Cpu, Ns};

use super::neighbours::Presence;
use crate::tree::{Tree, LIVE};

/// Counters at one moment.
#[derive(Debug)]
pub struct Counters {
    steal: Option<BTreeMap<Cpu, Ns>>,
    smi: Option<BTreeMap<Cpu, (fs::File, u64)>>, // kept open: the right to open it may have been dropped at the end
    thermal: Option<BTreeMap<Cpu, u64>>,
    log: Option<fs::File>, // positioned at the end of the kernel's log
    presence: Option<Presence>,
}

impl Counters {
    /// Reads the counters of `cpus` of the system below `root`.
    #[must_use]
    pub fn read(root: &Path, cpus: &CpuSet) -> Counters {
        let tree = Tree::new(root);
        let smi = |cpu| {
            let device = smi_device(&tree, cpu)?;
            let count = smi_of(&device)?;
            Some((cpu, (device, count)))
        };
        Counters {
            steal: steal(&tree).map(|all| all.into_iter().filter(|(cpu, _)| cpus.contains(*cpu)).collect()),
            smi: cpus.iter().map(smi).collect(),
            thermal: cpus.iter().map(|cpu| Some((cpu, thermal_count(&tree, cpu)?))).collect(),
            log: log_from_now(&tree),
            presence: None,
        }
    }

    /// The same for this machine, before threads measure on `cpus`: announces this measurement to, and learns of, any other
    /// lathunt that measures on them at the same time.
    #[must_use]
    pub fn of_measurement(cpus: &CpuSet) -> Counters {
        Counters { presence: Some(Presence::announce(cpus)), ..Counters::read(Path::new(LIVE), cpus) }
    }

    /// Other measurements on the same CPUs so far.
    #[must_use]
    pub fn neighbours(&self) -> Vec<Neighbour> {
        self.presence.as_ref().map(Presence::neighbours).unwrap_or_default()
    }

    /// Changes since then, on the same CPUs.
    #[must_use]
    pub fn during(self, root: &Path, cpus: &CpuSet) -> DuringMeasurement {
        let neighbours = self.neighbours();
        let tree = Tree::new(root);
        let before = |cpu: &Cpu| self.smi.as_ref()?.get(cpu).map(|(_, count)| *count);
        let smi = self.smi.as_ref().map(|all| {
            let grown = |(cpu, (device, _)): (&Cpu, &(fs::File, u64))| {
                Some(CpuCount { cpu: *cpu, count: smi_of(device)?.saturating_sub(before(cpu)?) })
            };
            all.iter().filter_map(grown).collect()
        });
        let thermal: Option<BTreeMap<Cpu, u64>> =
            cpus.iter().map(|cpu| Some((cpu, thermal_count(&tree, cpu)?))).collect();
        let steal =
            differences(self.steal.as_ref(), steal(&tree).as_ref(), |before, now| now.saturating_sub(before));
        DuringMeasurement {
            steal: steal
                .map(|all| all.into_iter().map(|(cpu, steal_ns)| CpuSteal { cpu, steal_ns }).collect()),
            smi,
            thermal_throttle: counts(self.thermal.as_ref(), thermal.as_ref()),
            kernel_messages: self.log.map(matters_in),
            neighbours,
            ..DuringMeasurement::default()
        }
    }
}

fn differences<T: Copy>(
    before: Option<&BTreeMap<Cpu, T>>,
    now: Option<&BTreeMap<Cpu, T>>,
    minus: impl Fn(T, T) -> T,
) -> Option<Vec<(Cpu, T)>> {
    let (before, now) = (before?, now?);
    Some(now.iter().filter_map(|(cpu, &value)| Some((*cpu, minus(*before.get(cpu)?, value)))).collect())
}

fn counts(before: Option<&BTreeMap<Cpu, u64>>, now: Option<&BTreeMap<Cpu, u64>>) -> Option<Vec<CpuCount>> {
    let all = differences(before, now, |before, now| now.saturating_sub(before))?;
    Some(all.into_iter().map(|(cpu, count)| CpuCount { cpu, count }).collect())
}

/// Stolen time of each CPU since boot, from `/proc/stat` (8th figure, in clock ticks; 0 on bare metal).
#[must_use]
pub fn steal(tree: &Tree) -> Option<BTreeMap<Cpu, Ns>> {
    stat_column(tree, 7)
}

/// Time without a task of each CPU since boot, from `/proc/stat` (4th figure, in clock ticks).
#[must_use]
pub fn idle(tree: &Tree) -> Option<BTreeMap<Cpu, Ns>> {
    stat_column(tree, 3)
}

/// One column of the lines of CPUs in `/proc/stat`, counted from 0 after the name.
fn stat_column(tree: &Tree, column: usize) -> Option<BTreeMap<Cpu, Ns>> {
    let stat = tree.text("proc/stat")?;
    let tick_ns = 1_000_000_000 / ticks_per_second();
    let of = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok().map(Cpu)?;
        let ticks: u64 = words.nth(column)?.parse().ok()?;
        Some((cpu, Ns(ticks.saturating_mul(tick_ns))))
    };
    let by_cpu: BTreeMap<Cpu, Ns> = stat.lines().filter_map(of).collect();
    (!by_cpu.is_empty()).then_some(by_cpu)
}

fn ticks_per_second() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|&ticks| ticks > 0).unwrap_or(100) // USER_HZ is 100 on every Linux
}

/// System management interrupts of `cpu` since reset: Intel's MSR_SMI_COUNT through the msr module. `None` elsewhere.
#[must_use]
pub fn smi_count(tree: &Tree, cpu: Cpu) -> Option<u64> {
    smi_of(&smi_device(tree, cpu)?)
}

fn smi_device(tree: &Tree, cpu: Cpu) -> Option<fs::File> {
    let device = fs::File::open(tree.path(&format!("dev/cpu/{cpu}/msr"))).ok()?;
    let cpuinfo = tree.text("proc/cpuinfo")?;
    cpuinfo.contains("GenuineIntel").then_some(device) // elsewhere the number means something else
}

fn smi_of(device: &fs::File) -> Option<u64> {
    const MSR_SMI_COUNT: u64 = 0x34; // Intel SDM volume 4, since Nehalem
    let mut value = [0; 8];
    device.read_exact_at(&mut value, MSR_SMI_COUNT).ok()?;
    Some(u64::from_le_bytes(value) & 0xffff_ffff)
}

/// Growth of a counter; `None`: unknown, or the counter was reset in between: that of SMIs when the machine was suspended,
/// that of stolen time when a guest migrated to another host.
#[must_use]
pub fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

/// Times the CPU's core or package was throttled for heat (x86).
fn thermal_count(tree: &Tree, cpu: Cpu) -> Option<u64> {
    let base = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    let core: u64 = tree.number(&format!("{base}/core_throttle_count"))?;
    Some(core + tree.number::<u64>(&format!("{base}/package_throttle_count")).unwrap_or(0))
}

/// Opens the kernel's log after its last message.
fn log_from_now(tree: &Tree) -> Option<fs::File> {
    let mut options = fs::OpenOptions::new();
    let mut log = options.read(true).custom_flags(libc::O_NONBLOCK).open(tree.path("dev/kmsg")).ok()?;
    log.seek(SeekFrom::End(0)).ok()?;
    Some(log)
}

/// Relevant messages of the kernel's log contain one of these.
const SIGNS: [&str; 14] = [
    "RT throttling activated",
    "DL replenish lagged too much",
    "hrtimer: interrupt took",
    "Marking clocksource",
    "clocksource: Switched to",
    "clocksource: timekeeping watchdog",
    "TSC unstable",
    "self-detected stall",
    "detected stalls on CPUs",
    "soft lockup",
    "hard LOCKUP",
    "clock throttled",
    "Machine check events logged",
    "workqueue lockup",
];

/// Relevant messages since the file was opened, at most 20; each read returns one record
/// (Documentation/ABI/testing/dev-kmsg).
fn matters_in(mut log: fs::File) -> Vec<String> {
    let mut found = Vec::new();
    let mut record = [0; 8192];
    while found.len() < 20 {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => found.extend(message(&record[..length])),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {} // overwritten before it was read; continue
            Err(_) => break,                                          // EAGAIN: no more
        }
    }
    found
}

/// The text of a record `priority,sequence,time,flags;text\n continuation…`, if it is relevant.
fn message(record: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(record);
    let line = text.split_once(';')?.1.lines().next()?.to_owned();
    SIGNS.iter().any(|sign| line.contains(sign)).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_counter_grew_by_is_not_known_where_it_was_begun_anew() {
        assert_eq!([grown(Some(7), Some(7)), grown(Some(7), Some(9))], [Some(0), Some(2)]);
        assert_eq!([grown(Some(9), Some(7)), grown(None, Some(9)), grown(Some(9), None)], [None; 3]);
    }

    #[test]
    fn of_the_kernels_log_only_what_matters_to_latency_is_kept() {
        let said = message(b"4,1234,99,-;sched: RT throttling activated\n SUBSYSTEM=cpu\n");
        assert_eq!(said.as_deref(), Some("sched: RT throttling activated"));
        assert_eq!(message(b"6,1235,99,-;usb 1-1: new device\n"), None);
        assert_eq!(message(b"nonsense"), None);
    }

    #[test]
    fn counters_give_the_difference_per_cpu_and_absent_ones_stay_absent() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        let stat = |steal0: u64, steal1: u64| {
            let text = format!("cpu 1 2 3 4 5 6 7 99 0 0\ncpu0 1 2 3 4 5 6 7 {steal0} 0 0\ncpu1 1 2 3 4 5 6 7 {steal1} 0 0\nintr 5\n");
            fs::write(root.path().join("proc/stat"), text).unwrap();
        };
        let cpus: CpuSet = "1".parse().unwrap();
        stat(10, 20);
        let before = Counters::read(root.path(), &cpus);
        stat(15, 23);
        let during = before.during(root.path(), &cpus);
        assert_eq!(during.steal, Some(vec![CpuSteal { cpu: Cpu(1), steal_ns: Ns::from_ms(30) }]));
        assert_eq!((during.smi, during.thermal_throttle, during.kernel_messages), (None, None, None));
    }
}
