//! Everything that isolation may touch, read at one moment, and the differences between two of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Values by what they belong to.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Files: masks, governors, idle states, load balancing.
    files: BTreeMap<String, String>,
    /// Where interrupts come.
    placement: BTreeMap<String, String>,
    /// CPUs of threads, by thread id and the time of their start.
    threads: BTreeMap<(i32, String), Thread>,
    /// cgroups that exist.
    cgroups: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Thread {
    comm: String,
    kernel: bool,
    cpus: String,
    cgroup: String,
}

impl Snapshot {
    pub fn take() -> Snapshot {
        let mut snapshot = Snapshot::default();
        for entry in listed("/proc/irq").into_iter().filter(|path| path.is_dir()) {
            snapshot.file(&entry.join("smp_affinity_list"));
            let path = entry.join("effective_affinity_list");
            snapshot.placement.insert(path.display().to_string(), text(&path));
        }
        snapshot.file(Path::new("/proc/irq/default_smp_affinity"));
        for entry in listed("/sys/devices/virtual/workqueue") {
            snapshot.file(&entry.join("cpumask"));
        }
        snapshot.file(Path::new("/sys/devices/virtual/workqueue/cpumask"));
        for device in listed("/sys/class/net") {
            for queue in listed(&device.join("queues").display().to_string()) {
                snapshot.file(&queue.join("rps_cpus"));
                snapshot.file(&queue.join("xps_cpus"));
            }
        }
        for cpu in listed("/sys/devices/system/cpu") {
            snapshot.file(&cpu.join("cpufreq/scaling_governor"));
            for state in listed(&cpu.join("cpuidle").display().to_string()) {
                snapshot.file(&state.join("disable"));
            }
        }
        for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/unified"] {
            for file in
                ["cpuset.cpus", "cpuset.sched_load_balance", "cgroup.subtree_control", "cpuset.cpus.isolated"]
            {
                snapshot.file(&Path::new(mount).join(file));
            }
            snapshot.cgroups.extend(listed(mount).into_iter().filter(|path| path.is_dir()));
        }
        snapshot.read_threads();
        snapshot
    }

    fn file(&mut self, path: &Path) {
        if let Ok(value) = fs::read_to_string(path) {
            self.files.insert(path.display().to_string(), value.trim().to_owned());
        }
    }

    fn read_threads(&mut self) {
        for process in listed("/proc").into_iter().filter(|path| number(path).is_some()) {
            for task in listed(&process.join("task").display().to_string()) {
                let (stat, status) = (text(&task.join("stat")), text(&task.join("status")));
                let Some((name, rest)) = stat.rsplit_once(')') else { continue };
                let words: Vec<&str> = rest.split_ascii_whitespace().collect();
                let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
                let (Some(tid), Some(cpus), Some(start)) = (number(&task), cpus, words.get(19)) else {
                    continue;
                };
                let flags: u64 = words[6].parse().unwrap_or(0);
                // An exiting thread or a zombie cannot be moved any more.
                if flags & 0x4 != 0 {
                    continue; // PF_EXITING
                }
                let groups = text(&task.join("cgroup"));
                let cgroup =
                    groups.lines().filter(|line| line.contains(":cpuset:") || line.starts_with("0::"));
                self.threads.insert(
                    (tid, (*start).to_owned()),
                    Thread {
                        comm: name.split_once('(').map_or("", |(_, comm)| comm).to_owned(),
                        kernel: flags & 0x0020_0000 != 0,
                        cpus: cpus.to_owned(),
                        cgroup: cgroup.collect::<Vec<_>>().join(" "),
                    },
                );
            }
        }
    }

    /// What is not as it was. Threads that came or went say nothing. Of a program that is not ours, other CPUs count
    /// only where they are what isolation gives (CPU 0 alone): programs may choose their CPUs themselves meanwhile.
    /// The kernel itself moves the threads of interrupts, and the workers that no CPU is bound to.
    pub fn differences(&self, later: &Snapshot, sleepers: &Sleepers, placement: bool) -> Vec<String> {
        let mut found = Vec::new();
        for (path, before) in &self.files {
            match later.files.get(path) {
                Some(now) if now != before => found.push(format!("{path}: {before} -> {now}")),
                _ => {}
            }
        }
        for (path, before) in self.placement.iter().filter(|_| placement) {
            // One that has not come since cannot have moved back.
            let now = later.placement.get(path);
            if now.is_some_and(|now| now != before) {
                found.push(format!("{path}: {before} -> {now:?}"));
            }
        }
        for (key, before) in &self.threads {
            let Some(now) = later.threads.get(key) else { continue };
            let chosen_by_kernel =
                before.kernel && (before.comm.starts_with("irq/") || before.comm.starts_with("kworker/"));
            let strict = before.kernel || sleepers.own(key.0);
            let differs = now.cpus != before.cpus && (strict || now.cpus == "0");
            if (differs && !chosen_by_kernel) || now.cgroup != before.cgroup {
                found.push(format!("thread {}: {before:?} -> {now:?}", key.0));
            }
        }
        let left = later.cgroups.iter().filter(|path| !self.cgroups.contains(path));
        found.extend(
            left.filter(|path| path.to_string_lossy().contains("lathunt"))
                .map(|path| format!("{path:?} was left")),
        );
        found
    }

    /// Whether none of our own programs and no kernel thread that can be moved may run on `cpu`.
    pub fn is_free_of(&self, cpu: u32, sleepers: &Sleepers) -> bool {
        let there = self.threads.iter().filter(|(key, _)| sleepers.own(key.0));
        there.filter(|(_, thread)| thread.cpus.contains(&cpu.to_string())).count() == 0
            && !self.files["/proc/irq/default_smp_affinity"].ends_with('3')
    }
}

fn listed(directory: &str) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn number(path: &Path) -> Option<i32> {
    path.file_name()?.to_str()?.parse().ok()
}

/// Programs of ours with different CPUs, which must come back exactly.
pub struct Sleepers {
    children: Vec<Child>,
}

impl Sleepers {
    pub fn start() -> Sleepers {
        let start = |cpus: &str| {
            Command::new("taskset").args(["-c", cpus, "sleep", "600"]).stdout(Stdio::null()).spawn().unwrap()
        };
        let children: Vec<Child> = ["0-1", "0", "1", "1", "0-1"].map(start).into();
        for child in &children {
            // taskset has become sleep: its CPUs are set.
            while text(&PathBuf::from(format!("/proc/{}/comm", child.id()))) != "sleep" {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        Sleepers { children }
    }

    pub fn own(&self, tid: i32) -> bool {
        self.children.iter().any(|child| child.id().cast_signed() == tid)
    }

    pub fn pin_first(&self, cpu: u32) {
        let pid = self.children[0].id().to_string();
        let done =
            Command::new("taskset").args(["-cp", &cpu.to_string(), &pid]).stdout(Stdio::null()).status();
        assert!(done.unwrap().success());
    }

    pub fn cpus_of_first(&self) -> String {
        let status = text(&PathBuf::from(format!("/proc/{}/status", self.children[0].id())));
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        list.unwrap_or_default().to_owned()
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
