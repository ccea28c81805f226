//! `lathunt box --pair preempt`: what disturbs the order or the latency of preemptions is seen at its size.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Cpu, Ns, Tid};
use lathunt_core::verdict::Outcome;
use lathunt_host::sched::{self, Policy};
use lathunt_host::testing::{lacks_bpf, lacks_root, may_run};

/// Held while threads run: chains on one CPU would be late for one another.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(directory: &Path, more: &[&str]) -> Child {
    let shown = directory.display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["box", "--pair", "preempt:4", "-i", "2ms", "-q", "-o", &shown]).args(more);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn measured(directory: &Path) -> Run {
    Run::from_json(&std::fs::read_to_string(directory.join("run.lathunt.json")).unwrap()).unwrap()
}

fn last_cpu() -> Cpu {
    sched::affinity().unwrap().iter().next_back().unwrap()
}

/// The thread of this name, once it is set up: its priority is the last step.
fn thread(process: u32, name: &str) -> libc::pid_t {
    let begun = Instant::now();
    loop {
        for entry in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let tid = entry.file_name().to_string_lossy().parse().unwrap();
            // SAFETY: no pointers.
            if comm.trim_end() == name && unsafe { libc::sched_getscheduler(tid) } == libc::SCHED_FIFO {
                return tid;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no thread {name}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn violations(run: &Run) -> Vec<(String, u64)> {
    let of = |series: &Series| (series.label(), series.counts.unwrap().out_of_order);
    run.of(Quantity::Preemption).map(of).filter(|(_, count)| *count > 0).collect()
}

#[test]
#[ignore = "needs root"]
fn a_hog_above_is_a_latency_and_a_hog_below_is_nothing() {
    if !may_run("a_hog_above_is_a_latency_and_a_hog_below_is_nothing", lacks_root()) {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    // The host may take the CPU meanwhile: then once more.
    let seen = (0..3).any(|_| {
        let recorded: &[&str] = if lacks_bpf().is_none() { &["--record"] } else { &[] };
        let running = start(place.path(), &[&["-D", "1s", "--deadline", "25ms"], recorded].concat());
        thread(running.id(), "preempt/95");
        let hog = std::thread::spawn(|| {
            // SAFETY: a string that ends with a zero.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"test-hog".as_ptr()) };
            sched::pin(last_cpu()).unwrap();
            for priority in [10, 99] {
                std::thread::sleep(Duration::from_millis(200));
                sched::set_policy(Policy::Fifo, priority).unwrap();
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(40) {}
                sched::set_policy(Policy::Other, 0).unwrap();
            }
        });
        hog.join().unwrap();
        let output = running.wait_with_output().unwrap();
        let run = measured(place.path());
        assert_eq!(violations(&run), []);
        assert_eq!(output.status.code(), Some(2), "{:?}", run.verdict);
        let series: Vec<&Series> = run.of(Quantity::Preemption).collect();
        assert_eq!(series.len(), 4);
        assert!(series.iter().all(|one| one.lost == 0 && one.histogram.count() > 100));
        let lowest = series[0];
        assert!(lowest.label().ends_with("timer to 92"), "{}", lowest.label());
        let due = lowest.replayed.as_ref().unwrap().count();
        assert_eq!(due, lowest.histogram.count() + lowest.missed.unwrap(), "each cycle that was due");
        // From a release that was due up to a period after its begin. The hog below took 40 ms, too, and would be a second one.
        let late = lowest.histogram.count_from(Ns::from_ms(30));
        let max = lowest.histogram.max().unwrap();
        let named = run.peaks[0].explanation.as_ref().is_some_and(|told| told.sentence.contains("test-hog"));
        assert!(run.peaks[0].explanation.as_ref().is_none_or(|told| told.tree.adds_up()));
        late == 1 && (named || recorded.is_empty()) && (Ns::from_ms(37)..Ns::from_ms(43)).contains(&max)
    });
    assert!(
        seen,
        "{:?}",
        measured(place.path()).series.iter().map(|one| one.histogram.max()).collect::<Vec<_>>()
    );
}

#[test]
#[ignore = "needs root"]
fn a_thread_that_does_not_preempt_the_lower_one_is_counted_and_named() {
    if !may_run("a_thread_that_does_not_preempt_the_lower_one_is_counted_and_named", lacks_root()) {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    for (deadline, outcome, code) in
        [(&["--deadline", "1s"][..], Outcome::Fail, 2), (&[], Outcome::Inconclusive, 3)]
    {
        let running = start(place.path(), &[&["-D", "800ms"], deadline].concat());
        let victim = thread(running.id(), "preempt/94");
        let lower = libc::sched_param { sched_priority: 92 };
        // SAFETY: a thread of our own child; the parameters outlive the call.
        assert_eq!(unsafe { libc::sched_setscheduler(victim, libc::SCHED_FIFO, &lower) }, 0);
        let output = running.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let run = measured(place.path());
        let violated = violations(&run);
        assert!(
            violated.len() == 1 && violated[0].0.ends_with("93 to 94") && violated[0].1 > 50,
            "{violated:?}"
        );
        let verdict = run.verdict.unwrap();
        assert_eq!(verdict.outcome, Some(outcome));
        let named = |reason: &String| reason.contains("order violated") && reason.contains("preempt/94");
        assert!(verdict.reasons.iter().any(named), "{:?}", verdict.reasons);
    }
}

#[test]
#[ignore = "needs root"]
fn nothing_is_claimed_of_threads_that_somebody_lowered_or_moved() {
    if !may_run("nothing_is_claimed_of_threads_that_somebody_lowered_or_moved", lacks_root()) {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let running = start(place.path(), &["-D", "800ms", "--deadline", "1s"]);
    let lowest = thread(running.id(), "preempt/92");
    let ordinary = libc::sched_param { sched_priority: 0 };
    // SAFETY: a thread of our own child; the parameters outlive the call.
    assert_eq!(unsafe { libc::sched_setscheduler(lowest, libc::SCHED_OTHER, &ordinary) }, 0);
    assert_eq!(running.wait_with_output().unwrap().status.code(), Some(3));
    let reasons = measured(place.path()).verdict.unwrap().reasons;
    let named = |reason: &String| reason.contains("preempt/92: ") && reason.contains("SCHED_OTHER");
    assert!(reasons.iter().any(named), "{reasons:?}");

    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    let shown = place.path().join("futex");
    command.args(["box", "--pair", "futex", "-D", "800ms", "--deadline", "1s", "-q", "-o"]).arg(&shown);
    let running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let answering = thread(running.id(), "respond");
    let all = sched::affinity().unwrap();
    sched::set_affinity_of(Tid(answering), &all).unwrap();
    assert_eq!(running.wait_with_output().unwrap().status.code(), Some(3));
    let reasons = measured(&shown).verdict.unwrap().reasons;
    assert!(
        reasons.iter().any(|reason| reason.contains("respond: it was moved away from CPU")),
        "{reasons:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn threads_on_different_cpus_do_not_violate_an_order() {
    let first = Cpu(0);
    let lacks = || (last_cpu() == first).then_some("a second CPU");
    if !may_run("threads_on_different_cpus_do_not_violate_an_order", lacks_root().or_else(lacks)) {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let running = start(place.path(), &["-D", "800ms", "--deadline", "1s"]);
    let moved = thread(running.id(), "preempt/94");
    sched::set_affinity_of(Tid(moved), &[first].into_iter().collect()).unwrap();
    let output = running.wait_with_output().unwrap();
    let run = measured(place.path());
    assert_eq!(violations(&run), []);
    assert_eq!(output.status.code(), Some(3), "{:?}", run.verdict);
    let reasons = run.verdict.unwrap().reasons;
    assert!(reasons.iter().any(|reason| reason.contains("preempt/94: it was moved away")), "{reasons:?}");
}
