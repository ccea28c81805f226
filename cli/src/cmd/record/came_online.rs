//! CPUs that came online while the others were recorded: the tasks of the system may have been late there.

use lathunt_core::cpuset::CpuSet;
use lathunt_core::run::Run;

use super::session::Plan;

impl Plan {
    /// Notes them in a recording of the system, unless the user chose its CPUs. An application is judged by all CPUs online.
    pub(super) fn note_new_cpus(&self, run: &mut Run) {
        let machine = &run.conditions.machine;
        let cpus = |list: &Option<String>| list.as_deref()?.parse::<CpuSet>().ok();
        let (Some(online), Some(recorded)) = (cpus(&machine.cpus_online), cpus(&machine.cpus_measured))
        else {
            return;
        };
        let new = online.minus(&recorded);
        if self.cpus.is_none() && !self.is_application() && !new.is_empty() {
            let why = format!("CPU {new} came online during the recording: wake-ups there were not recorded");
            run.conditions.during.ended_early.push(why);
        }
    }
}
