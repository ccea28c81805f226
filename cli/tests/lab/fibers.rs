//! Fibers on a real-time kernel: it expires POSIX timers in a thread of priority 1, and wakes a sleeping helper from the
//! interrupt.

use lathunt_core::run::Run;
use lathunt_core::set_run::{FiberRun, ThreadRun};
use lathunt_core::time::Ns;

use crate::boot::Outcome;

struct Told {
    fibers: FiberRun,
    a: ThreadRun,
    b: ThreadRun,
}

fn told(lab: &Outcome, how: &str) -> Told {
    let said = lab.text(&format!("{how}.err"));
    let run = Run::from_json(&lab.text(&format!("{how}.json")));
    let set = run.unwrap_or_else(|error| panic!("{how}: {error}: {said}")).task_set.unwrap();
    let thread = |name: &str| set.threads.iter().find(|one| one.name == name).unwrap().clone();
    let told = Told { a: thread("a"), b: thread("b"), fibers: set.fibers.clone().unwrap() };
    assert!(told.fibers.kernel_priority.is_some(), "{how}: {said}");
    assert_eq!((told.a.jobs, told.b.jobs), (12, 8), "{how}: every release is a job");
    told
}

#[test]
#[ignore = "lab: run by make test"]
fn a_helper_interrupts_running_fibers_on_preempt_rt_where_a_timer_does_not_and_is_chosen_by_measurement() {
    let Some(lab) = Outcome::of("fibers", "lab: fibers") else { return };
    let helper = told(&lab, "helper");
    let measured = told(&lab, "measured");
    for told in [&helper, &measured] {
        assert_eq!(told.fibers.preemption, "a helper thread");
        // Without preemption a would start up to 150 ms after its release, when b is through. The guest is slow.
        assert!(told.a.release.unwrap().mean_ns < Ns::from_ms(40), "{:?}", told.a);
        assert!(told.b.preemptions >= 4 && told.b.misses >= 2, "U = 0.95: {:?}", told.b);
    }
    // The thread that expires timers cannot run beside a busy thread of higher priority, and the run shows it.
    let timer = told(&lab, "timer");
    assert_eq!(timer.fibers.preemption, "a POSIX timer");
    assert!(timer.b.preemptions < helper.b.preemptions, "{:?}", timer.b);
    assert!(timer.fibers.late_longest_ns >= Ns::from_ms(50), "{:?}", timer.fibers);
}
