//! Mount points of cpusets, and the two ways to isolate with them.
//!
//! cgroup v2: an isolated partition takes its CPUs from all other groups, now and later; the kernel narrows all
//! threads and widens them again (Documentation/admin-guide/cgroup-v2.rst, "isolated" since 6.1). cgroup v1: an
//! exclusive set for the isolated CPUs, another for all programs, and no load balancing in the root
//! (Documentation/admin-guide/cgroup-v1/cpusets.rst).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lathunt_core::isolate::survey::Mechanism;
use lathunt_core::isolate::Plan;

use crate::error::{Error, Result};
use crate::knob::{Kind, Knobs};
use crate::tree::Tree;

/// Name of the cgroup for programs that run isolated.
pub const ISOLATED: &str = "lathunt-isolated";
/// Name of the cgroup v1 for everything else.
pub const HOUSEKEEPING: &str = "lathunt-housekeeping";

/// Mount points of cpusets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpusets {
    /// Mount point of cgroup v2 with the cpuset controller.
    pub v2: Option<PathBuf>,
    /// Mount point of the cpuset hierarchy of v1.
    pub v1: Option<PathBuf>,
    /// Why one of them is missing.
    pub missing: Vec<String>,
}

/// Reads the mounts of the system of `tree`.
#[must_use]
pub fn find(tree: &Tree) -> Cpusets {
    let mut found = Cpusets::default();
    let mounts = tree.text("proc/self/mountinfo").unwrap_or_default();
    let mut container = false;
    for line in mounts.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let (place, kind): (Vec<&str>, Vec<&str>) = (place.split(' ').collect(), kind.split(' ').collect());
        let (Some(root), Some(point)) = (place.get(3), place.get(4)) else { continue };
        let of_v1 = kind.first() == Some(&"cgroup")
            && kind.get(2).is_some_and(|options| options.split(',').any(|one| one == "cpuset"));
        let of_v2 = kind.first() == Some(&"cgroup2");
        if (of_v1 || of_v2) && *root != "/" {
            container = true; // a part of the hierarchy, as in containers
        } else if of_v1 {
            found.v1 = Some(PathBuf::from(point));
        } else if of_v2 && controls_cpusets(tree, point) {
            found.v2 = Some(PathBuf::from(point));
        }
    }
    let why = match container {
        true => "this is a container, whose root cgroup is not the machine's",
        false => "no mounted hierarchy has the cpuset controller",
    };
    let names = [(Mechanism::Cgroup2, &found.v2), (Mechanism::Cpuset1, &found.v1)];
    found.missing = names
        .iter()
        .filter(|(_, place)| place.is_none())
        .map(|(mechanism, _)| format!("{}: {why}", mechanism.name()))
        .collect();
    found
}

fn controls_cpusets(tree: &Tree, point: &str) -> bool {
    let controllers = tree.text(&format!("{}/cgroup.controllers", point.trim_start_matches('/')));
    controllers.is_some_and(|words| words.split_ascii_whitespace().any(|word| word == "cpuset"))
}

impl Cpusets {
    /// Usable mechanisms, best first.
    #[must_use]
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        let v2 = self.v2.as_ref().map(|_| Mechanism::Cgroup2);
        let v1 = self.v1.as_ref().map(|_| Mechanism::Cpuset1);
        v2.into_iter().chain(v1).chain([Mechanism::Affinity]).collect()
    }

    /// The cgroup that a program joins to run on the isolated CPUs.
    #[must_use]
    pub fn isolated(&self, mechanism: Mechanism) -> Option<PathBuf> {
        match mechanism {
            Mechanism::Cgroup2 => self.v2.as_ref(),
            Mechanism::Cpuset1 => self.v1.as_ref(),
            Mechanism::Affinity => None,
        }
        .map(|mount| mount.join(ISOLATED))
    }

    /// Threads in that cgroup.
    #[must_use]
    pub fn tenants(&self, mechanism: Mechanism) -> BTreeSet<i32> {
        let Some(directory) = self.isolated(mechanism) else { return BTreeSet::new() };
        let lists = ["cgroup.threads", "tasks"].map(|list| fs::read_to_string(directory.join(list)));
        lists.iter().flatten().flat_map(|text| text.lines()).filter_map(|line| line.parse().ok()).collect()
    }

    /// Creates the cpusets of `plan`.
    ///
    /// # Errors
    /// If the kernel refuses; changes made so far are in the journal.
    pub fn make(&self, knobs: &mut Knobs, plan: &Plan) -> Result<()> {
        match (plan.mechanism, &self.v2, &self.v1) {
            (Mechanism::Cgroup2, Some(mount), _) => partition(knobs, mount, plan),
            (Mechanism::Cpuset1, _, Some(mount)) => exclusive_sets(knobs, mount, plan),
            _ => Ok(()),
        }
    }
}

fn partition(knobs: &mut Knobs, mount: &Path, plan: &Plan) -> Result<()> {
    let directory = mount.join(ISOLATED);
    knobs.change(Kind::Subtree, &mount.join("cgroup.subtree_control"), "+cpuset", "")?;
    knobs.change(Kind::Cgroup, &directory, "present", &own_cgroup(mount).display().to_string())?;
    put(&directory.join("cpuset.cpus"), &plan.cpus.to_string())?;
    let state = directory.join("cpuset.cpus.partition");
    put(&state, "isolated")?;
    // The kernel accepts the word and then shows "isolated invalid (reason)".
    let shown = fs::read_to_string(&state).unwrap_or_default();
    match shown.trim() {
        "isolated" => Ok(()),
        other => Err(Error::refused("isolate by", state.display().to_string(), format!("it is '{other}'"))),
    }
}

fn exclusive_sets(knobs: &mut Knobs, mount: &Path, plan: &Plan) -> Result<()> {
    let home = mount.display().to_string();
    let nodes = fs::read_to_string(mount.join("cpuset.mems"))
        .map_err(|error| Error::new("read", mount.join("cpuset.mems").display().to_string(), error))?;
    for (name, cpus, balanced) in [(HOUSEKEEPING, &plan.housekeeping, "1"), (ISOLATED, &plan.cpus, "0")] {
        let directory = mount.join(name);
        knobs.change(Kind::Cgroup, &directory, "present", &home)?;
        put(&directory.join("cpuset.cpus"), &cpus.to_string())?;
        put(&directory.join("cpuset.mems"), nodes.trim())?;
        put(&directory.join("cpuset.cpu_exclusive"), "1")?;
        put(&directory.join("cpuset.sched_load_balance"), balanced)?;
    }
    knobs.set(&mount.join("cpuset.sched_load_balance"), "0")?;
    Ok(())
}

/// Files of our own cgroup need no journal: they vanish with it.
fn put(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::EINVAL) => "another cpuset uses these CPUs",
            _ => "",
        };
        Error::new("set", format!("{} to {value}", path.display()), error).hint(hint)
    })
}

/// The cgroup v2 of this process.
fn own_cgroup(mount: &Path) -> PathBuf {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    mount.join(own)
}

/// Moves the programs of the root set of cgroup v1 into the one for the rest; true if there were any. Children forked
/// in between are found by the next scan.
pub(super) fn move_programs(mount: &Path, stay: &dyn Fn(i32) -> bool) -> bool {
    let procs = fs::read_to_string(mount.join("cgroup.procs")).unwrap_or_default();
    let target = mount.join(HOUSEKEEPING).join("cgroup.procs");
    let here = procs.lines().filter_map(|pid| pid.parse().ok()).filter(|&pid| !stay(pid));
    // A process that has ended needs no place.
    here.map(|pid| fs::write(&target, pid.to_string())).filter(std::result::Result::is_ok).count() > 0
}
