//! Applications with late work in hiding: none of them passes, and where the kernel shows a job whole, its size is right.

use lathunt_core::application::Task;
use lathunt_core::verdict::Outcome;

use super::truths::build;
use super::*;

pub(super) const DEADLINE: Ns = Ns::from_ms(40);
/// Runs of one program at most.
const TRIES: usize = 4;

/// Whose late jobs lie between two waits of a thread that tell where a job begins.
const SEEN: [&str; 28] = [
    "plain",
    "pool",
    "epollco",
    "forkjoin",
    "futexwaitv",
    "procjob",
    "vforkjob",
    "threadjob",
    "priochange",
    "policychange",
    "cpuchange",
    "renamed",
    "relinner",
    "mutexwait",
    "insignal",
    "stopped",
    "traced",
    "namespace",
    "faults",
    "pollinner",
    "daemonised",
    "execchain",
    "reserved",
    "longcall",
    "tracewait",
    "frozenwait",
    "forkheld",
    "prefetch",
];

/// Which show the kernel no begin of their late jobs, or several that may be one; and the thread that a doubt names.
const UNSEEN: [(&str, &str); 36] = [
    ("halfperiod", "halfperiod"),
    ("steps", "steps"),
    ("epollhalf", "epollhalf"),
    ("eventloop", "eventloop"),
    ("twoposters", "twoposters"),
    ("relhalf", "relhalf"),
    ("condhalf", "condhalf"),
    ("signalhalf", "signalhalf"),
    ("mixhalf", "mixhalf"),
    ("coroutines", "coroutines"),
    ("messages", "messages"),
    ("ownfutex", "ownfutex"),
    ("stopwait", "stopwait"),
    ("stoptimer", "stoptimer"),
    ("stopsem", "stopsem"),
    ("frozensem", "frozensem"),
    ("relay", "secondhalf"),
    ("killed", "killed"),
    ("exechalf", "exechalf"),
    ("offperiod", "offperiod"),
    ("destructor", "destructor"),
    ("exithandler", "exithandler"),
    ("sleepinner", "sleepinner"),
    ("chain", "last"),
    ("spinwait", "spinwait"),
    ("yieldwait", "yieldwait"),
    ("sigevthread", "notified"),
    ("sigfdhalf", "sigfdhalf"),
    ("aiohalf", "aiohalf"),
    ("uringhalf", "uringhalf"),
    ("sibling", "cloned"),
    ("taketurns", "taker"),
    ("udphalf", "udphalf"),
    ("shortgap", "shortgap"),
    ("pollgap", "pollgap"),
    ("nopause", "nopause"),
];

/// Without late jobs.
const GOOD: [&str; 16] = [
    "good alone",
    "restful",
    "restarted",
    "rearmed",
    "migrating",
    "goodturns",
    "twotimers",
    "itimer",
    "loopmix",
    "alternate",
    "quietsource",
    "quietwait",
    "clockspin",
    "flagspin",
    "mutexspin",
    "inturn",
];

/// Every `of`-th element of `all`, from a random one on: all would take minutes. With `LATHUNT_ALL` all of them.
pub(super) fn some<T: Copy>(all: &[T], of: usize) -> impl Iterator<Item = T> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let of = if std::env::var_os("LATHUNT_ALL").is_some() { 1 } else { of };
    all.iter().copied().skip(clock.as_secs() as usize % of).step_by(of)
}

#[derive(Debug)]
pub(super) struct Told {
    pub outcome: Option<Outcome>,
    pub reasons: Vec<String>,
    pub longest: Ns,
    /// Of threads with a deadline.
    pub judged: Ns,
    pub late: u64,
    pub max: Ns,
}

pub(super) fn recorded(program: &Path, place: &Path, mode: &[&str]) -> Told {
    recorded_with(program, place, mode, &[])
}

fn recorded_with(program: &Path, place: &Path, mode: &[&str], options: &[&str]) -> Told {
    let output = place.join("run");
    let program = program.to_str().unwrap();
    let ended = command(&["record", "--deadline", "40ms", "-o", output.to_str().unwrap()])
        .args(options)
        .args(["--", program])
        .args(mode)
        .env("RUN_MS", "1500")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let truth = text.lines().find_map(|line| line.strip_prefix("TRUTH ")).unwrap_or_else(|| panic!("{text}"));
    let truth: Vec<u64> = truth.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let run = read(&output);
    let verdict = run.verdict.unwrap();
    let longest = |task: &Task| {
        let response = task.of(Quantity::Response).and_then(|series| series.histogram.max());
        response.max(task.unfinished.as_ref().map(|unfinished| unfinished.after_ns)).unwrap_or_default()
    };
    let has_deadline = |task: &&Task| task.held_to.is_none_or(|held| held.deadline_ns.is_some());
    Told {
        outcome: verdict.outcome,
        reasons: verdict.reasons,
        longest: run.tasks.iter().map(longest).max().unwrap_or_default(),
        judged: run.tasks.iter().filter(has_deadline).map(longest).max().unwrap_or_default(),
        late: truth[1],
        max: Ns(truth[2]),
    }
}

#[test]
#[ignore = "root: run by make test"]
fn no_program_with_late_work_passes_and_what_is_seen_of_it_has_its_size() {
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run("no_program_with_late_work_passes", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "hidden");
    for (mode, thread) in some(&UNSEEN, 5) {
        let told = recorded(&program, place.path(), &[mode]);
        assert!(told.late > 0 && told.max > DEADLINE, "{mode} itself was not late");
        assert_ne!(told.outcome, Some(Outcome::Pass), "{mode}: {:?}", told.reasons);
        // Whatever else a busy machine makes doubtful.
        let named = told.reasons.iter().any(|reason| reason.starts_with(&format!("{thread}/")));
        assert!(named, "{mode}: {:?}", told.reasons);
    }
    for mode in some(&SEEN, 5) {
        let told = recorded(&program, place.path(), &[mode]);
        assert!(told.late > 0 && told.max > DEADLINE, "{mode} itself was not late");
        assert_ne!(told.outcome, Some(Outcome::Pass), "{mode}: {:?}", told.reasons);
        // A kernel that hides switches may have hidden these, and a busy machine the worst.
        let right = |told: &Told| {
            // Threads without a deadline may take longer than the late one.
            let sizes = [told.longest, told.judged];
            let is_size = |size: Ns| size.0.abs_diff(told.max.0) * 20 <= told.max.0;
            told.outcome == Some(Outcome::Fail) && sizes.into_iter().any(is_size)
        };
        let tries = (1..TRIES).map(|_| recorded(&program, place.path(), &[mode]));
        let told = std::iter::once(told).chain(tries);
        let wrong: Vec<Told> = told.take_while(|told| !right(told)).collect();
        assert!(wrong.len() < TRIES, "{mode}: {wrong:#?}");
    }
    for mode in some(&GOOD, 4) {
        // A host that takes the CPU makes a program late itself, which is then no longer good.
        let tries = (0..TRIES).map(|_| recorded(&program, place.path(), &[mode]));
        let mut late = 0;
        let good = tries.inspect(|told| late += u64::from(told.late > 0)).find(|told| told.late == 0);
        let good = good.unwrap_or_else(|| panic!("{mode} itself was late, {late} times"));
        assert_ne!(good.outcome, Some(Outcome::Fail), "{mode}: {:?}", good.reasons);
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_chain_of_threads_is_measured_from_end_to_end_and_one_that_is_not_seen_does_not_pass() {
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run("a_chain_of_threads_is_measured", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "hidden");
    let of = |chain: &str| recorded_with(&program, place.path(), &["chain"], &["--chain", chain]);
    let right = |told: &Told| {
        let whole = told.reasons.iter().any(|reason| reason.starts_with("first>second>last: "));
        told.outcome == Some(Outcome::Fail) && whole && told.longest.0.abs_diff(told.max.0) * 20 <= told.max.0
    };
    let tries = (0..TRIES).map(|_| of("first,second,last"));
    let wrong: Vec<Told> = tries.take_while(|told| !right(told)).collect();
    assert!(wrong.len() < TRIES, "{wrong:#?}");
    let told = of("first,last");
    assert_ne!(told.outcome, Some(Outcome::Pass));
    let named =
        told.reasons.iter().any(|reason| reason.contains("no wake-up of 'last' by 'first' shows the link"));
    assert!(named, "{:?}", told.reasons);
}

#[test]
#[ignore = "root: run by make test"]
fn of_several_calls_that_wait_in_one_place_the_one_where_jobs_begin_can_be_chosen() {
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run("of_several_calls_that_wait_in_one_place", lacks_bpf().or_else(one_cpu)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "hidden");
    for mode in ["halfperiod", "steps"] {
        let told = recorded(&program, place.path(), &[mode]);
        assert_ne!(told.outcome, Some(Outcome::Pass), "{mode}: {:?}", told.reasons);
        let run = read(&place.path().join("run"));
        let task = run.tasks.iter().find(|task| task.thread.comm == mode).unwrap();
        let calls = task.other_turns.iter().filter(|other| other.call.is_some());
        let longest = calls.max_by_key(|other| other.longest_ns).unwrap();
        let choice = format!("{}@{}", longest.place, longest.call.as_deref().unwrap());
        // A host may take the CPU between the program's look at the clock and its wait, and a kernel hide the worst job.
        let told = || recorded_with(&program, place.path(), &[mode], &["--activation", &choice]);
        let right = |told: &Told| {
            told.outcome == Some(Outcome::Fail) && told.longest.0.abs_diff(told.max.0) * 20 <= told.max.0
        };
        let wrong: Vec<Told> = (0..TRIES).map(|_| told()).take_while(|told| !right(told)).collect();
        assert!(wrong.len() < TRIES, "{mode}: {wrong:#?}");
    }
}
