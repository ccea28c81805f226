//! Carries out a plan in an order that leaves no gap: first the sources of new work, then the cpusets, then existing
//! work, until a scan finds nothing more.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lathunt_core::isolate::plan::{self, Plan, Planned, Remaining, Request, What};
use lathunt_core::isolate::survey::{Mechanism, Survey};

use super::cgroup::{self, Cpusets};
use super::{survey, About};
use crate::error::{Error, Result};
use crate::knob::{Kind, Knobs, Restored};
use crate::tree::{Tree, LIVE};

/// CPUs that are isolated. When dropped, everything is restored, unless it is to stay ([`Isolation::keep`]).
#[derive(Debug)]
pub struct Isolation {
    knobs: Knobs,
    request: Request,
    cpusets: Cpusets,
    /// The plan, with the mechanism that worked.
    pub plan: Plan,
    /// What could not be moved, as the kernel said.
    pub stays: Vec<Remaining>,
    /// Settings that another process has changed on the isolated CPUs since; left alone.
    pub drifted: BTreeSet<String>,
}

/// Number of objects that one scan moved away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Interrupts.
    pub interrupts: usize,
    /// Threads, by their affinity. A cpuset moves more.
    pub threads: usize,
    /// Anything else.
    pub settings: usize,
    /// Path and name of each of the threads.
    pub named: Vec<String>,
}

/// Scans after which remaining newcomers are left to the next re-scan.
const TURNS: usize = 10;

impl Isolation {
    /// Isolates; the list contains the changes that a killed predecessor had left and that were restored first.
    ///
    /// # Errors
    /// If the request makes no sense here, another lathunt holds an isolation, or the kernel refuses something
    /// essential. Everything is unchanged then.
    pub fn apply(
        directory: &Path,
        request: &Request,
        since: String,
    ) -> Result<(Isolation, Moved, Vec<Restored>)> {
        let mut before = Vec::new();
        for journal in std::iter::once(directory.to_owned()).chain([super::directory_in_use()]) {
            refuse_what_is_isolated(&journal)?;
            before.extend(crate::knob::recover(&journal)?);
        }
        if let Some(left) = before.iter().find(|one| one.outcome.is_due()) {
            return Err(Error::stated(format!("cannot isolate while an earlier change is left: {left}")));
        }
        let plan = plan_now(request)?;
        let about = About {
            cpus: plan.cpus.to_string(),
            housekeeping: plan.housekeeping.to_string(),
            mechanism: plan.mechanism.name().to_owned(),
            since,
            keep: request.keep.clone(),
        };
        let (knobs, _) = Knobs::open_about(directory, &serde_json::to_string(&about).unwrap_or_default())?;
        let cpusets = cgroup::find(&Tree::new(Path::new(LIVE)));
        let (stays, drifted) = (plan.stays.clone(), BTreeSet::new());
        let mut isolation = Isolation { knobs, request: request.clone(), cpusets, plan, stays, drifted };
        match isolation.all() {
            Ok(moved) => Ok((isolation, moved, before)),
            Err(error) => {
                let restored = isolation.restore()?;
                let left = restored.iter().filter(|one| one.outcome.is_due()).count();
                Err(match left {
                    0 => error.and("everything was restored"),
                    _ => error.and("not everything could be restored; run `lathunt isolate restore`"),
                })
            }
        }
    }

    /// Resumes an isolation that was to stay.
    ///
    /// # Errors
    /// If there is none, or its CPUs have changed.
    pub fn resume(directory: &Path) -> Result<Isolation> {
        let about = about(directory)?;
        let list = |text: &str| text.parse().unwrap_or_default();
        let request = Request {
            cpus: list(&about.cpus),
            housekeeping: list(&about.housekeeping),
            mechanism: super::mechanism(&about.mechanism),
            keep: about.keep,
            ..Request::default()
        };
        let knobs = Knobs::resume(directory)?;
        let plan = plan_now(&request)?;
        let cpusets = cgroup::find(&Tree::new(Path::new(LIVE)));
        let (stays, drifted) = (plan.stays.clone(), BTreeSet::new());
        Ok(Isolation { knobs, request, cpusets, plan, stays, drifted })
    }

    fn all(&mut self) -> Result<Moved> {
        let mut moved = Moved::default();
        let first: Vec<Planned> =
            self.plan.changes.iter().filter(|change| change.what <= What::Mask).cloned().collect();
        self.make(&first, &mut moved)?;
        self.make_cpusets()?;
        for _ in 0..TURNS {
            let turn = self.turn(&[])?;
            moved.interrupts += turn.interrupts;
            moved.threads += turn.threads;
            moved.settings += turn.settings;
            if turn.threads == 0 {
                break;
            }
        }
        Ok(moved)
    }

    fn make_cpusets(&mut self) -> Result<()> {
        let before = self.knobs.changes().len();
        self.remember_affinities()?;
        let Err(error) = self.cpusets.make(&mut self.knobs, &self.plan) else { return Ok(()) };
        if self.request.mechanism.is_some() {
            return Err(error);
        }
        self.knobs.roll_back(before);
        let next = match self.plan.mechanism {
            Mechanism::Cgroup2 if self.cpusets.v1.is_some() => Mechanism::Cpuset1,
            _ => Mechanism::Affinity,
        };
        self.plan.mechanism_notes.push(format!("{}: {error}", self.plan.mechanism.name()));
        self.plan.mechanism = next;
        self.make_cpusets()
    }

    /// Before 6.2 a cpuset forgets the affinity that a thread had set itself ("sched: Always preserve the user requested
    /// cpumask").
    fn remember_affinities(&mut self) -> Result<()> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(['.', '-']).map(|part| part.trim().parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if self.plan.mechanism == Mechanism::Affinity || version >= (6, 2) {
            return Ok(());
        }
        let survey = survey::read(Path::new(LIVE))?;
        let made = format!("{} {} {}", self.plan.housekeeping, survey.online, survey.possible);
        for thread in survey.threads.iter().filter(|thread| !thread.bound && !thread.comm.starts_with("irq/"))
        {
            if survey.online.minus(&thread.cpus).is_empty() {
                continue; // all CPUs: the kernel restores that by itself
            }
            let path = PathBuf::from(format!("/proc/{}/task/{}", thread.pid, thread.tid));
            match self.knobs.remember(&path, &made) {
                Err(error) if is_gone(&error) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Moves newcomers away; `tenants` are the threads that belong on the isolated CPUs besides those in the isolated
    /// cgroup.
    ///
    /// # Errors
    /// If the kernel refuses something essential.
    pub fn turn(&mut self, tenants: &[i32]) -> Result<Moved> {
        let mut moved = Moved::default();
        let stay = self.request.keep.clone();
        if let (Mechanism::Cpuset1, Some(mount)) = (self.plan.mechanism, self.cpusets.v1.clone()) {
            let survey = survey::read(Path::new(LIVE))?;
            cgroup::move_programs(&mount, &|pid| is_not_to_move(&survey, pid, &stay, tenants));
        }
        let mut survey = survey::read(Path::new(LIVE))?;
        let own = self.tenants(tenants);
        survey.threads.retain(|thread| !own.contains(&thread.tid) && !own.contains(&thread.pid));
        let plan = plan::plan(&survey, &self.request)
            .map_err(|error| Error::refused("isolate", self.plan.cpus.to_string(), error.to_string()))?;
        let mut due = plan.changes;
        due.retain(|change| !self.is_drift(change));
        self.make(&due, &mut moved)?;
        Ok(moved)
    }

    /// Threads in the isolated cgroup, and those of the caller.
    fn tenants(&self, more: &[i32]) -> BTreeSet<i32> {
        let inside = self.cpusets.tenants(self.plan.mechanism);
        inside.into_iter().chain(more.iter().copied()).collect()
    }

    /// Whether another process has undone our change to this very object. We do not fight it: it is noted, once.
    fn is_drift(&mut self, change: &Planned) -> bool {
        let drift = self.knobs.holds(kind(change.what), Path::new(&change.path))
            && !self.knobs.changes().iter().any(|one| {
                // Only remembered, or narrowed by a cpuset that was then removed: ours to move.
                one.path == Path::new(&change.path) && one.old == one.new
            });
        if drift {
            self.drifted.insert(format!("{} ({}): now {}", change.path, change.of, change.old));
        }
        drift
    }

    fn make(&mut self, changes: &[Planned], moved: &mut Moved) -> Result<()> {
        for change in changes {
            if crate::signals::stop_requested().is_some() {
                return Err(Error::stated("isolation was interrupted by a signal"));
            }
            let done =
                self.knobs.change(kind(change.what), Path::new(&change.path), &change.new, &change.aside);
            match done {
                Ok(false) => {}
                Ok(true) => match change.what {
                    What::Interrupt => moved.interrupts += 1,
                    What::KernelThread | What::UserThread => {
                        moved.threads += 1;
                        moved.named.push(format!("{} ({})", change.path, change.of));
                    }
                    What::DefaultAffinity | What::Mask | What::CpuSetting => moved.settings += 1,
                },
                Err(error) if is_gone(&error) => {}
                Err(error) => match refused(change, &error) {
                    Some(stays) if self.stays.contains(&stays) => {}
                    Some(stays) => self.stays.push(stays),
                    None => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// The cgroup that a program joins to run on the isolated CPUs, if there is one.
    #[must_use]
    pub fn cgroup(&self) -> Option<PathBuf> {
        self.cpusets.isolated(self.plan.mechanism)
    }

    /// Numbers of interrupts that stay on the isolated CPUs by their driver's decision, and of those that will move at
    /// their next arrival.
    ///
    /// # Errors
    /// If the machine cannot be surveyed.
    pub fn interrupts(&self) -> Result<(Vec<String>, Vec<String>)> {
        let survey = survey::read(Path::new(LIVE))?;
        let refused = |number: u32| {
            let path = format!("/proc/irq/{number}/");
            self.stays.iter().any(|stays| stays.what.starts_with(&path))
        };
        let (mut managed, mut moving) = (Vec::new(), Vec::new());
        for one in &survey.interrupts {
            if one.managed || refused(one.number) {
                managed.push(one.number.to_string());
            } else if one.effective.meets(&self.plan.cpus) && !one.allowed.meets(&self.plan.cpus) {
                moving.push(one.number.to_string());
            }
        }
        Ok((managed, moving))
    }

    /// Keeps it beyond the end of this process.
    ///
    /// # Errors
    /// As [`Knobs::keep`].
    pub fn keep(self) -> Result<()> {
        self.knobs.keep()
    }

    /// Restores everything.
    ///
    /// # Errors
    /// As [`Knobs::restore`].
    pub fn restore(self) -> Result<Vec<Restored>> {
        self.knobs.restore()
    }
}

fn plan_now(request: &Request) -> Result<Plan> {
    let survey = survey::read(Path::new(LIVE))?;
    plan::plan(&survey, request).map_err(|error| Error::stated(error.to_string()))
}

fn refuse_what_is_isolated(directory: &Path) -> Result<()> {
    match about(directory) {
        Ok(about) if crate::knob::left(directory)?.kept => Err(Error::stated(format!(
            "CPU {} is isolated already, since {}; `lathunt isolate restore` ends that",
            about.cpus, about.since
        ))),
        _ => Ok(()),
    }
}

/// What the journal in `directory` says; an error if nothing is isolated.
pub(super) fn about(directory: &Path) -> Result<About> {
    let left = crate::knob::left(directory)?;
    let nothing =
        || Error::stated("no CPU is isolated by lathunt; `lathunt isolate apply -c LIST` does that");
    match left.booted_since {
        true => Err(nothing()),
        false => serde_json::from_str(&left.about).map_err(|_| nothing()),
    }
}

/// Kernel threads are in the root set; so are processes that are to stay.
fn is_not_to_move(survey: &Survey, pid: i32, keep: &[String], tenants: &[i32]) -> bool {
    let Some(thread) = survey.threads.iter().find(|thread| thread.tid == pid) else { return false };
    thread.kernel || tenants.contains(&pid) || plan::is_kept(thread, &survey.threads, keep)
}

fn kind(what: What) -> Kind {
    match what {
        What::Interrupt => Kind::Interrupt,
        What::KernelThread | What::UserThread => Kind::Affinity,
        What::DefaultAffinity | What::Mask | What::CpuSetting => Kind::File,
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(error.errno(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV))
}

/// Refusals that do not make the rest pointless: the kernel decides per object. A read-only `/proc` is not one of them.
fn refused(change: &Planned, error: &Error) -> Option<Remaining> {
    let code = error.errno()?;
    let alone = match change.what {
        What::Interrupt => matches!(code, libc::EIO | libc::EPERM | libc::ENOSPC | libc::EINVAL),
        What::KernelThread => matches!(code, libc::EINVAL | libc::EPERM),
        What::UserThread => matches!(code, libc::EINVAL | libc::EBUSY | libc::EPERM),
        What::Mask => matches!(code, libc::EINVAL | libc::EIO | libc::EOPNOTSUPP),
        What::DefaultAffinity | What::CpuSetting => false,
    };
    let what = format!("{} ({})", change.path, change.of);
    alone.then(|| Remaining { what, why: error.to_string() })
}
