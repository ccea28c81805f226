//! Late jobs of a program with known causes: the worst is found, with the right length and cause.

#[path = "jobs/extremes.rs"]
mod extremes;

use std::fs;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lathunt_core::application::Task;
use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_host::testing::{lacks_bpf, may_run};

/// The injected delay occurs once in this many cycles.
const EVERY: u64 = 50;

/// Held while a program runs: its threads are real-time, and would be late for those of another test.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cycles of a program, unless a test says otherwise.
const CYCLES: u64 = 1000;

/// What was recorded of `control`, and its jobs with the cause as the program measured them: release and length in ns, the
/// longest first.
struct Recorded {
    run: Run,
    late: Vec<(u64, u64)>,
    text: String,
}

/// Again if the host took the CPU for longer than the causes that are built in: of many such jobs the worst ones are all its.
fn recorded(cause: &str) -> Recorded {
    let record = || recorded_with(cause, &CYCLES.to_string(), &["--deadline", "control=900us"]);
    let tried = (0..7).map(|_| record()).find(|recorded| !recorded.is_host_s());
    tried.unwrap_or_else(record)
}

fn recorded_with(cause: &str, cycles: &str, how: &[&str]) -> Recorded {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (place.path().join("truth"), place.path().join("run"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jobs/truth.c");
    let built =
        Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.arg("record").args(how).args(["--worst", "64", "-o"]).arg(&output);
    let ended = command.arg("--").arg(&program).args([cause, cycles]).current_dir(&place).output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{text}\n{}", String::from_utf8_lossy(&ended.stderr));
    let run = Run::from_json(&fs::read_to_string(output.join("run.lathunt.json")).unwrap()).unwrap();
    let logged = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("late ")?.split(' ').map(|word| word.parse::<u64>().unwrap());
        Some((words.next()?, words.next()?, words.next()?))
    });
    let built_in = logged.filter(|(cycle, ..)| cycle % EVERY == 0).map(|(_, release, took)| (release, took));
    let mut late: Vec<(u64, u64)> = built_in.collect();
    late.sort_unstable_by_key(|&(_, took)| std::cmp::Reverse(took));
    Recorded { run, late, text }
}

impl Recorded {
    /// Jobs of `control`, the worst first.
    fn jobs(&self) -> Vec<&Peak> {
        let jobs = self.run.peaks.iter().filter(|peak| peak.quantity == Quantity::Response);
        jobs.filter(|peak| peak.victim.comm == "control").collect()
    }

    /// What a job with the cause usually takes, by the program.
    fn usual(&self) -> u64 {
        self.late.get(self.late.len() / 2).map(|&(_, took)| took).unwrap_or_default()
    }

    /// Whether the worst jobs are longer than any built-in cause makes them.
    fn is_host_s(&self) -> bool {
        let longer = |peak: &&&Peak| peak.total_ns.0 > self.usual() + self.usual() / 2;
        self.jobs().iter().filter(longer).count() > 3
    }

    /// Of the jobs with the cause whose size is what the program measured, within 5 %, the one of the usual size. A host that
    /// takes the CPU between the program's reading of the clock and its wait makes a job longer than the program knows; one
    /// that takes it for a good part of a job, or of another one as long, is that job's cause.
    fn typical(&self) -> &Peak {
        let jobs = self.jobs();
        let sizes: Vec<u64> = jobs.iter().map(|peak| peak.total_ns.0).collect();
        // Of a job whose switches the kernel hides is known how long it may have been.
        let lost = self.control().of(Quantity::Response).and_then(|series| series.lost_within_ns);
        let longest = sizes.iter().copied().chain(lost.map(|within| within.0)).max();
        assert!(longest >= self.late.first().map(|&(_, took)| took), "{sizes:?} {lost:?} {:?}", self.late);
        let same = |&(release, took): &(u64, u64)| {
            let is_it = |peak: &&&Peak| {
                peak.begin.0.abs_diff(release) < 100_000 && peak.total_ns.0.abs_diff(took) * 20 <= took
            };
            Some((took.abs_diff(self.usual()), *jobs.iter().find(is_it)?))
        };
        let found = self.late.iter().filter_map(same).min_by_key(|&(off, _)| off);
        found.unwrap_or_else(|| panic!("no job has the size of one of {:?}: {sizes:?}", self.late)).1
    }

    fn control(&self) -> &Task {
        self.run.tasks.iter().find(|task| task.thread.comm == "control").unwrap()
    }

    /// The tree adds up, and no uninvolved task is blamed.
    fn is_sound(&self) {
        for peak in self.jobs() {
            let told = peak.explanation.as_ref().expect("each job has an explanation");
            assert!(told.tree.adds_up() && told.total_ns == peak.total_ns, "{told:?}");
            assert_eq!(told.tree.total_explained() + told.unexplained_ns, told.total_ns);
            assert!(!told.cause.contains("innocent"), "{}", told.sentence);
        }
        let verdict = self.run.verdict.as_ref().unwrap();
        assert!(verdict.failures == 1 && verdict.reasons[0].starts_with("control/"), "{verdict:?}");
        let first = self.text.lines().find(|line| line.starts_with("FAIL  control/")).unwrap_or_default();
        assert!(first.contains("missed its deadline of 900 µs in"), "{}", self.text);
    }

    /// The usual job with the cause says this, and most of those that have it are counted for it. A loaded host may make more
    /// jobs late than the program does.
    fn says(&self, sentence: &str, most: &str) {
        self.is_sound();
        let told = self.typical().explanation.as_ref().unwrap();
        assert!(told.sentence.contains(sentence), "{sentence}: {}\n{:?}", told.sentence, told.limits);
        let causes = &self.control().late_causes;
        let jobs: u64 = causes.iter().filter(|of| of.cause.starts_with(most)).map(|of| of.jobs).sum();
        assert!(jobs * 2 >= self.late.len() as u64, "{most}: {causes:?} {:?}", self.late);
    }

    /// Some job is explained down to this.
    fn names(&self, said: &str) {
        self.names_one_of(&[said]);
    }

    fn names_one_of(&self, said: &[&str]) {
        let told: Vec<&str> =
            self.jobs().iter().map(|peak| peak.explanation.as_ref().unwrap().sentence.as_str()).collect();
        let is_said = |sentence: &&str| said.iter().any(|said| sentence.contains(said));
        assert!(told.iter().any(is_said), "{said:?}: {told:#?}");
    }
}

fn is_possible(name: &str) -> bool {
    may_run(name, lacks_bpf())
}

#[test]
#[ignore = "root: run by make test"]
fn a_mutex_without_inheritance_whose_holder_is_preempted_is_an_inversion() {
    if !is_possible("a_mutex_without_inheritance_whose_holder_is_preempted_is_an_inversion") {
        return;
    }
    let recorded = recorded("mutex");
    recorded.says("a mutex without priority inheritance", "mutex without inheritance, held by holder");
    recorded.names("occupied by hog/");
    recorded.names("priority inversion: hog/");
}

#[test]
#[ignore = "root: run by make test"]
fn a_mutex_with_inheritance_costs_the_critical_section_and_nothing_else() {
    if !is_possible("a_mutex_with_inheritance_costs_the_critical_section_and_nothing_else") {
        return;
    }
    let recorded = recorded("pi");
    recorded.says("held by holder/", "mutex with inheritance, held by holder");
    let told = recorded.typical().explanation.as_ref().unwrap();
    assert!(!told.cause.contains("hog"), "{}", told.sentence);
}

#[test]
#[ignore = "root: run by make test"]
fn a_chain_of_mutexes_is_followed_to_its_end() {
    if !is_possible("a_chain_of_mutexes_is_followed_to_its_end") {
        return;
    }
    let recorded = recorded("chain");
    recorded.says("held by middle/", "mutex without inheritance, held by middle");
    recorded.names("until last/");
}

#[test]
#[ignore = "root: run by make test"]
fn a_condition_leads_to_the_thread_that_signals_it() {
    if !is_possible("a_condition_leads_to_the_thread_that_signals_it") {
        return;
    }
    recorded("cond").says("worker/", "condition or lock, released by worker");
}

#[test]
#[ignore = "root: run by make test"]
fn what_a_thread_does_in_its_job_is_its_own() {
    if !is_possible("what_a_thread_does_in_its_job_is_its_own") {
        return;
    }
    recorded("compute").says(" itself", "its own code or system calls");
    let slept = recorded("sleep");
    slept.says("slept ", "its own sleep");
    let is_own = |job: &&Peak| job.culprit.as_deref() == Some("its own sleep");
    assert!(slept.jobs().iter().any(is_own), "{:#?}", slept.jobs());
    if cfg!(target_arch = "x86_64") {
        let faults = recorded("fault");
        // Where a host makes each take longer than 5 µs, their number does not show that they took the time.
        let is_slow = faults.usual() > 1024 * 5_000;
        let counted = if is_slow { "page faults or its own code" } else { "page faults in its own code" };
        faults.says(" page faults", counted);
        let told = &faults.typical().explanation.as_ref().unwrap().sentence;
        // Its 1024 pages, and a few of its stack and code.
        assert!(["with 1024 ", "with 102", "with 103"].iter().any(|count| told.contains(count)), "{told}");
        faults.names(": first writes, the last to ");
        let copied = recorded("cow");
        copied.names(": copies of shared pages (copy on write");
        let of_kind = |job: &&Peak| job.culprit.as_deref() == Some("page faults: copy on write");
        assert!(copied.jobs().iter().any(of_kind), "{:#?}", copied.jobs());
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_handler_or_a_system_call_that_takes_the_time_of_a_job_is_named() {
    if !is_possible("a_handler_or_a_system_call_that_takes_the_time_of_a_job_is_named") {
        return;
    }
    let handled = recorded("signal");
    handled.says(" of it in the handler of signal 10 (SIGUSR1) from sender/", "its own code or system calls");
    let is_possible = |job: &&Peak| job.culprit.as_deref() == Some("signal handler or its own code");
    assert!(handled.jobs().iter().any(is_possible), "{:#?}", handled.jobs());
    // One in two of these jobs of several ms meets a timer interrupt, at least, and always at the same place of a job.
    let calls = [" found it in the system call mmap", " found it in the system call munmap"];
    recorded("populate").names_one_of(&calls);
}

#[test]
#[ignore = "root: run by make test"]
fn a_task_of_higher_priority_that_takes_the_cpu_is_named() {
    if !is_possible("a_task_of_higher_priority_that_takes_the_cpu_is_named") {
        return;
    }
    let recorded = recorded("preempted");
    recorded.says("occupied by hog/", "preempted");
    let culprits: Vec<_> = recorded.jobs().iter().map(|job| job.culprit.clone()).collect();
    assert!(culprits.iter().any(|culprit| culprit.as_deref() == Some("thread: hog")), "{culprits:?}");
}

/// Two causes in each late job: both are named, and no others. Other load may make another job the worst.
fn pair(causes: &str, both: [&str; 2]) {
    let recorded = recorded_with(causes, "600", &["--deadline", "control=900us"]);
    recorded.is_sound();
    let told: Vec<_> = recorded.jobs().iter().map(|peak| peak.explanation.as_ref().unwrap()).collect();
    let has_both = told.iter().find(|told| both.iter().all(|one| told.sentence.contains(one)));
    let sentences: Vec<&str> = told.iter().map(|told| told.sentence.as_str()).collect();
    let told = has_both.unwrap_or_else(|| panic!("{causes}, {both:?}: {sentences:#?}"));
    assert!(told.unexplained_ns.0 * 10 < told.total_ns.0, "{causes}: {}", told.sentence);
}

#[test]
#[ignore = "root: run by make test"]
fn of_two_causes_that_are_its_own_both_are_told() {
    if !is_possible("of_two_causes_that_are_its_own_both_are_told") {
        return;
    }
    pair("compute+sleep", [" itself", "slept "]);
    if cfg!(target_arch = "x86_64") {
        pair("fault+sleep", ["1024 page faults", "slept "]);
    }
}

#[test]
#[ignore = "root: run by make test"]
fn of_a_cause_of_its_own_and_one_of_others_both_are_told() {
    if !is_possible("of_a_cause_of_its_own_and_one_of_others_both_are_told") {
        return;
    }
    pair("mutex+compute", ["a mutex without priority inheritance", " itself"]);
    pair("cond+compute", ["worker/", " itself"]);
    pair("preempted+sleep", ["occupied by hog/", "slept "]);
}

#[test]
#[ignore = "root: run by make test"]
fn of_a_command_only_the_chosen_tasks_are_recorded() {
    if !is_possible("of_a_command_only_the_chosen_tasks_are_recorded") {
        return;
    }
    let recorded = recorded_with("compute", "300", &["--tasks", "comm:control", "--deadline", "900us"]);
    let told = &recorded.typical().explanation.as_ref().unwrap().sentence;
    assert!(told.contains(" itself"), "{told}");
    // A `control` of another test may be there, too; 'innocent' and the first thread were not asked for.
    let names: Vec<&str> = recorded.run.tasks.iter().map(|task| task.thread.comm.as_str()).collect();
    assert!(!names.is_empty() && names.iter().all(|name| *name == "control"), "{names:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_deadline_of_a_period_is_the_period_that_is_found() {
    if !is_possible("a_deadline_of_a_period_is_the_period_that_is_found") {
        return;
    }
    let recorded = recorded_with("compute", "300", &["--deadline", "period"]);
    let control = recorded.control();
    let deadline = control.held_to.unwrap().deadline_ns.unwrap();
    assert!(deadline.0.abs_diff(2_000_000) < 20_000, "{deadline}");
    // Five of its jobs take 3 ms; the one after each is released while that goes on.
    assert!(control.misses >= 5, "{control:?}");
    // A loaded host may make others late for longer.
    let mut causes = control.late_causes.iter();
    let own = causes.any(|cause| cause.cause == "its own code or system calls" && cause.jobs >= 5);
    assert!(own, "{:?}", control.late_causes);
    assert!(recorded.text.contains("missed its deadline of 2.000 ms"), "{}", recorded.text);
}

#[test]
#[ignore = "root: run by make test"]
fn writing_to_a_disk_within_a_job_is_named() {
    if !is_possible("writing_to_a_disk_within_a_job_is_named") {
        return;
    }
    let recorded = recorded("file");
    recorded.is_sound();
    recorded.names("in fsync");
    let causes = &recorded.control().late_causes;
    assert!(causes.iter().any(|of| of.cause.contains("fsync")), "{causes:?}");
}
