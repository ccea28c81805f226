//! The changes that isolate a CPU, what cannot be changed at run time, and the boot parameters for the rest.
//!
//! In the order of execution: cpusets, then sources of new work (default affinity, work queues, packet steering), then
//! existing interrupts and threads, then settings of the CPU.

use std::collections::BTreeMap;

use serde::Serialize;

use super::survey::{CpuSetting, Interrupt, Mechanism, Survey, Thread};
use crate::cpuset::CpuSet;

/// The requested isolation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// CPUs to isolate.
    pub cpus: CpuSet,
    /// CPUs for everything else; empty: all others that are online.
    pub housekeeping: CpuSet,
    /// Mechanism; `None`: the best available one.
    pub mechanism: Option<Mechanism>,
    /// Set the governor of the isolated CPUs to this.
    pub governor: Option<String>,
    /// Disable idle states of the isolated CPUs with a longer exit latency than this, µs.
    pub idle_us: Option<u64>,
    /// Processes whose threads are not moved.
    pub keep: Vec<String>,
}

/// Why a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A CPU is not online.
    #[error("cannot isolate CPU {0}; online are {1}")]
    NotOnline(String, String),
    /// A housekeeping CPU is not online.
    #[error("cannot use CPU {0} for housekeeping; online are {1}")]
    HousekeepingNotOnline(String, String),
    /// No CPU to isolate.
    #[error("no CPU to isolate: select one with -c")]
    Nothing,
    /// No CPU would be left for housekeeping.
    #[error("cannot isolate CPU {0}: no housekeeping CPU would be left (online are {1})")]
    NoHousekeeping(String, String),
    /// CPUs in both lists.
    #[error("cannot use CPU {0} for housekeeping: it is to be isolated")]
    Both(String),
    /// The requested mechanism is not available.
    #[error("cannot isolate by {0}: {1}")]
    NoMechanism(&'static str, String),
    /// These CPUs have no governor.
    #[error("cannot set the governor of CPU {0}: it has none (no cpufreq driver)")]
    NoGovernor(String),
}

/// A planned change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Planned {
    /// What.
    pub what: What,
    /// The file, or `/proc/PID/task/TID`.
    pub path: String,
    /// Its owner.
    pub of: String,
    /// Current value.
    pub old: String,
    /// New value.
    pub new: String,
    /// The CPU that currently receives the interrupt; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub aside: String,
}

/// Kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Affinity of future interrupts.
    DefaultAffinity,
    /// A mask of CPUs.
    Mask,
    /// Affinity of an interrupt.
    Interrupt,
    /// A kernel thread.
    KernelThread,
    /// A thread of a program.
    UserThread,
    /// Governor or idle state.
    CpuSetting,
}

/// Something that stays on the isolated CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remaining {
    /// What.
    pub what: String,
    /// Why, and the remedy.
    pub why: String,
}

/// The plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// CPUs to isolate.
    #[serde(serialize_with = "as_text")]
    pub cpus: CpuSet,
    /// Housekeeping CPUs.
    #[serde(serialize_with = "as_text")]
    pub housekeeping: CpuSet,
    /// How threads are kept off the isolated CPUs.
    pub mechanism: Mechanism,
    /// Why better ones are not available, a line each.
    pub mechanism_notes: Vec<String>,
    /// In the order of execution.
    pub changes: Vec<Planned>,
    /// What cannot be changed at run time.
    pub stays: Vec<Remaining>,
    /// Missing boot parameters for the rest.
    pub boot: Vec<String>,
}

fn as_text<S: serde::Serializer>(cpus: &CpuSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cpus)
}

/// The plan for `request` on the machine of `survey`.
///
/// # Errors
/// When the request is not possible; above all when no CPU would be left for housekeeping.
pub fn plan(survey: &Survey, request: &Request) -> Result<Plan, Refused> {
    let (cpus, housekeeping) = divide(survey, request)?;
    let mechanism = mechanism(survey, request)?;
    let mut plan = Plan {
        mechanism,
        mechanism_notes: survey.mechanisms_missing.clone(),
        changes: Vec::new(),
        stays: Vec::new(),
        boot: boot(&survey.command_line, &cpus, &housekeeping),
        cpus,
        housekeeping,
    };
    plan.masks(survey);
    // One without a handler never fires.
    let handled = survey.interrupts.iter().filter(|interrupt| !interrupt.users.is_empty());
    handled.for_each(|interrupt| plan.interrupt(interrupt));
    plan.threads(&survey.threads, &request.keep);
    plan.settings(survey, request)?;
    Ok(plan)
}

fn divide(survey: &Survey, request: &Request) -> Result<(CpuSet, CpuSet), Refused> {
    let online = survey.online.to_string();
    if request.cpus.is_empty() {
        return Err(Refused::Nothing);
    }
    let absent = request.cpus.minus(&survey.online);
    if !absent.is_empty() {
        return Err(Refused::NotOnline(absent.to_string(), online));
    }
    let absent = request.housekeeping.minus(&survey.online);
    if !absent.is_empty() {
        return Err(Refused::HousekeepingNotOnline(absent.to_string(), online));
    }
    let both = request.cpus.within(&request.housekeeping);
    if !both.is_empty() {
        return Err(Refused::Both(both.to_string()));
    }
    let rest = survey.online.minus(&request.cpus);
    let housekeeping = if request.housekeeping.is_empty() { rest } else { request.housekeeping.clone() };
    match housekeeping.is_empty() {
        true => Err(Refused::NoHousekeeping(request.cpus.to_string(), online)),
        false => Ok((request.cpus.clone(), housekeeping)),
    }
}

fn mechanism(survey: &Survey, request: &Request) -> Result<Mechanism, Refused> {
    let best = survey.mechanisms.iter().min().copied().unwrap_or(Mechanism::Affinity);
    match request.mechanism {
        Some(wanted) if wanted != Mechanism::Affinity && !survey.mechanisms.contains(&wanted) => {
            let named = survey.mechanisms_missing.iter().find(|line| line.contains(wanted.name()));
            let why = named.and_then(|line| line.split_once(": ")).map_or("not here", |(_, why)| why);
            Err(Refused::NoMechanism(wanted.name(), why.to_owned()))
        }
        Some(wanted) => Ok(wanted),
        None => Ok(best),
    }
}

impl Plan {
    /// New affinity for `cpus`; `None` if it needs no change.
    fn narrowed(&self, cpus: &CpuSet) -> Option<CpuSet> {
        let left = cpus.within(&self.housekeeping);
        cpus.meets(&self.cpus).then(|| if left.is_empty() { self.housekeeping.clone() } else { left })
    }

    fn masks(&mut self, survey: &Survey) {
        if let Some((old, new)) =
            survey.default_affinity.as_ref().and_then(|cpus| Some((cpus, self.narrowed(cpus)?)))
        {
            self.changes.push(Planned {
                what: What::DefaultAffinity,
                path: "/proc/irq/default_smp_affinity".to_owned(),
                of: "interrupts to come".to_owned(),
                old: old.to_mask(),
                new: new.to_mask(),
                aside: String::new(),
            });
        }
        for mask in &survey.masks {
            let Some(new) = self.narrowed(&mask.cpus) else { continue };
            let (old, new) = (mask.cpus.to_mask(), new.to_mask());
            let of = mask.about.to_owned();
            let (what, path, aside) = (What::Mask, mask.path.clone(), String::new());
            self.changes.push(Planned { what, path, of, old, new, aside });
        }
    }

    fn interrupt(&mut self, interrupt: &Interrupt) {
        let (of, path) =
            (interrupt.users.clone(), format!("/proc/irq/{}/smp_affinity_list", interrupt.number));
        if interrupt.managed {
            let comes_here = match interrupt.effective.is_empty() {
                true => interrupt.allowed.meets(&self.cpus),
                false => interrupt.effective.meets(&self.cpus),
            };
            if comes_here {
                self.stays.push(Remaining {
                    what: format!("interrupt {} ({of}) on CPU {}", interrupt.number, interrupt.effective),
                    why: "managed: its driver decides where it comes; isolcpus=managed_irq at boot"
                        .to_owned(),
                });
            }
            return;
        }
        let Some(new) = self.narrowed(&interrupt.allowed) else { return };
        let (old, new) = (interrupt.allowed.to_string(), new.to_string());
        let aside = interrupt.effective.to_string();
        self.changes.push(Planned { what: What::Interrupt, path, of, old, new, aside });
    }

    fn threads(&mut self, threads: &[Thread], keep: &[String]) {
        let mut bound: BTreeMap<String, usize> = BTreeMap::new();
        for thread in threads.iter().filter(|thread| !is_kept(thread, threads, keep)) {
            let Some(new) = self.narrowed(&thread.cpus) else { continue };
            if thread.kernel && (thread.bound || thread.comm.starts_with("irq/")) {
                if !thread.comm.starts_with("irq/") && thread.cpus.within(&self.housekeeping).is_empty() {
                    *bound.entry(kind_of(&thread.comm)).or_default() += 1;
                }
                continue;
            }
            let what = if thread.kernel { What::KernelThread } else { What::UserThread };
            self.changes.push(Planned {
                what,
                path: format!("/proc/{}/task/{}", thread.pid, thread.tid),
                of: thread.comm.clone(),
                old: thread.cpus.to_string(),
                new: new.to_string(),
                aside: String::new(),
            });
        }
        if !bound.is_empty() {
            let named: Vec<String> = bound.into_keys().collect();
            self.stays.push(Remaining {
                what: format!("kernel threads of the isolated CPUs: {}", named.join(", ")),
                why: "bound by the kernel; they run only when something on these CPUs gives them work"
                    .to_owned(),
            });
        }
    }

    fn settings(&mut self, survey: &Survey, request: &Request) -> Result<(), Refused> {
        let files = || survey.cpu_files.iter().filter(|file| self.cpus.contains(file.cpu));
        let mut changes = Vec::new();
        if let Some(governor) = &request.governor {
            let mut here = files().filter(|file| file.of == CpuSetting::Governor).peekable();
            if here.peek().is_none() {
                return Err(Refused::NoGovernor(self.cpus.to_string()));
            }
            changes
                .extend(here.map(|file| (file, format!("governor of CPU {}", file.cpu), governor.clone())));
        }
        let limit = request.idle_us.unwrap_or(u64::MAX);
        for file in files() {
            if let CpuSetting::IdleState { name, exit_us } = &file.of
                && *exit_us > limit
            {
                let of = format!("idle state {name} of CPU {}, {exit_us} µs to leave", file.cpu);
                changes.push((file, of, "1".to_owned()));
            }
        }
        self.changes.extend(changes.into_iter().filter(|(file, _, new)| file.value != *new).map(
            |(file, of, new)| {
                let (path, old) = (file.path.clone(), file.value.clone());
                Planned { what: What::CpuSetting, path, of, old, new, aside: String::new() }
            },
        ));
        Ok(())
    }
}

/// Whether a thread is kept: by its name, its process's name, or its process id.
#[must_use]
pub fn is_kept(thread: &Thread, threads: &[Thread], keep: &[String]) -> bool {
    if keep.is_empty() || thread.kernel {
        return false;
    }
    let process = threads.iter().find(|one| one.tid == thread.pid).map_or("", |one| one.comm.as_str());
    let pid = thread.pid.to_string();
    keep.iter().any(|name| *name == thread.comm || name == process || *name == pid)
}

/// `ksoftirqd/3` and `kworker/3:0H-events` without CPU and instance.
fn kind_of(comm: &str) -> String {
    comm.split('/').next().unwrap_or(comm).to_owned()
}

/// Boot parameters that are not on the command line, for these CPUs.
fn boot(command_line: &[String], cpus: &CpuSet, housekeeping: &CpuSet) -> Vec<String> {
    let covers = |name: &str, flag: &str| {
        command_line.iter().filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).any(|value| {
            let has_flag = flag.is_empty() || value.split(',').any(|part| part == flag);
            let list: Vec<&str> =
                value.split(',').filter(|part| part.starts_with(|c: char| c.is_ascii_digit())).collect();
            has_flag && list.join(",").parse::<CpuSet>().is_ok_and(|set| cpus.minus(&set).is_empty())
        })
    };
    let mut lines = Vec::new();
    if !covers("isolcpus", "managed_irq") {
        lines.push(format!("isolcpus=managed_irq,domain,{cpus}"));
    }
    for name in ["nohz_full", "rcu_nocbs"] {
        if !covers(name, "") {
            lines.push(format!("{name}={cpus}"));
        }
    }
    if !command_line.iter().any(|word| word.starts_with("irqaffinity=")) {
        lines.push(format!("irqaffinity={housekeeping}"));
    }
    lines
}
