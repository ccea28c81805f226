//! Extreme jobs: no loss is unreported, and the worst is always explained.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use lathunt_core::application::Task;
use lathunt_core::explain::Kind;
use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;

use super::{alone, is_possible};

/// More than the recorder takes of any program.
const MEMORY_KB: u64 = 400 << 10;

/// What was recorded, what the program printed, and how much memory the recorder took.
struct Recorded {
    run: Run,
    jobs: u64,
    worst: u64,
    memory_kb: u64,
}

/// If the recorder's reader cannot keep up, lost events make the run inconclusive: then it is repeated.
fn recorded(mode: &str, amount: &str, deadline: &str) -> Recorded {
    let mut tries = (0..4).map(|_| tried(mode, amount, deadline));
    let whole = tries.find_map(Result::ok);
    whole.unwrap_or_else(|| panic!("{}", tried(mode, amount, deadline).err().unwrap_or_default()))
}

/// Or what was printed of a run that is inconclusive because of what it lost.
fn tried(mode: &str, amount: &str, deadline: &str) -> Result<Recorded, String> {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (place.path().join("extremes"), place.path().join("run"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jobs/extremes.c");
    let built =
        Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["record", "-q", "--deadline", deadline, "-o"]).arg(&output).arg("--").arg(&program);
    let (out, errors) = (place.path().join("out"), place.path().join("errors"));
    command.args([mode, amount]).stdout(fs::File::create(&out).unwrap());
    let mut child = command.stderr(fs::File::create(&errors).unwrap()).stdin(Stdio::null()).spawn().unwrap();
    let mut memory_kb = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse().ok());
        memory_kb = memory_kb.max(peak.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = fs::read_to_string(&out).unwrap();
    if ended.code() == Some(3) && text.contains("activations_overwritten") {
        return Err(text);
    }
    assert_eq!(ended.code(), Some(2), "{text}\n{}", fs::read_to_string(&errors).unwrap());
    let run = Run::from_json(&fs::read_to_string(output.join("run.lathunt.json")).unwrap()).unwrap();
    let printed = text.lines().find_map(|line| line.strip_prefix("jobs ")).unwrap();
    let numbers: Vec<u64> = printed.split(' ').filter_map(|word| word.parse().ok()).collect();
    Ok(Recorded { run, jobs: numbers[0], worst: numbers.get(1).copied().unwrap_or(0), memory_kb })
}

impl Recorded {
    fn task(&self, comm: &str) -> &Task {
        self.run.tasks.iter().find(|task| task.thread.comm == comm).unwrap()
    }

    fn jobs_of<'r>(&'r self, comm: &'r str) -> impl Iterator<Item = &'r Peak> {
        let jobs = self.run.peaks.iter().filter(|peak| peak.quantity == Quantity::Response);
        jobs.filter(move |peak| peak.victim.comm == comm)
    }

    /// The longest job of a thread is a case, as long as its series says, with parts that add up.
    fn worst_is_explained<'r>(&'r self, comm: &'r str) -> &'r Peak {
        let max = self.task(comm).of(Quantity::Response).unwrap().histogram.max().unwrap();
        let worst = self.jobs_of(comm).max_by_key(|peak| peak.total_ns).expect("its worst job is a case");
        assert_eq!(worst.total_ns, max, "{comm}");
        let told = worst.explanation.as_ref().expect("it is explained");
        assert!(told.tree.adds_up() && told.total_ns == max && !told.cause.is_empty(), "{told:?}");
        assert!(self.memory_kb < MEMORY_KB, "{} KB", self.memory_kb);
        worst
    }

    /// Every job of a thread that the program counted has a response, was overrun, or is known to be lost.
    fn accounts_for(&self, comm: &str, jobs: u64) {
        let task = self.task(comm);
        let response = task.of(Quantity::Response).unwrap();
        let known = response.histogram.count() + response.lost + task.late_sleeps;
        // The first begins before its first wait, and the last ends with the thread.
        assert!(known + 2 >= jobs, "{known} of {jobs}: {task:?}");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn of_ten_thousand_late_jobs_a_second_each_is_counted_and_the_worst_explained() {
    if !is_possible("of_ten_thousand_late_jobs_a_second_each_is_counted") {
        return;
    }
    let recorded = recorded("rate", "1", "10us");
    recorded.accounts_for("fast", recorded.jobs);
    let (task, response) = (recorded.task("fast"), recorded.task("fast").of(Quantity::Response).unwrap());
    // Each of them takes 20 µs.
    assert!(task.misses >= response.histogram.count(), "{task:?}");
    let causes: u64 = task.late_causes.iter().map(|cause| cause.jobs).sum();
    assert_eq!(causes, response.histogram.count(), "each late job has a cause: {:?}", task.late_causes);
    let worst = recorded.worst_is_explained("fast");
    let lost = response.lost + task.late_sleeps > 0;
    assert!(
        lost || worst.total_ns.0.abs_diff(recorded.worst) < 20_000,
        "{} {}",
        worst.total_ns,
        recorded.worst
    );
}

#[test]
#[ignore = "root: run by make test"]
fn a_job_of_seconds_beside_a_flood_of_events_is_explained_by_sums() {
    if !is_possible("a_job_of_seconds_beside_a_flood_of_events_is_explained_by_sums") {
        return;
    }
    let recorded = recorded("long", "2", "slow=100ms,*=none");
    let worst = recorded.worst_is_explained("slow");
    assert!(worst.total_ns.0.abs_diff(recorded.worst) * 20 < recorded.worst, "{}", worst.total_ns);
    let told = worst.explanation.as_ref().unwrap();
    // Half of it each. What a host takes from its CPU may be a part of either, or stands apart; where it hides the switch
    // with which the sleep began, the start of the sleep is reported as not recorded.
    let slept = told.sentence.split_once("slept ").map(|(_, rest)| rest).unwrap_or_default();
    let slept = match slept.split_once(' ').and_then(|(size, unit)| Some((size.parse::<f64>().ok()?, unit))) {
        Some((size, unit)) if unit.starts_with("ms") => size,
        Some((size, unit)) if unit.starts_with("s ") => size * 1000.0,
        _ => 0.0,
    };
    let stolen = told.tree.leaves().into_iter().filter(|leaf| leaf.kind == Kind::Stolen);
    let stolen = stolen.fold(0, |sum, leaf| sum + leaf.duration_ns.0) as f64 / 1e6;
    let unknown = told.tree.gaps.iter().filter(|gap| gap.label.contains("is not recorded"));
    let unknown = unknown.fold(0, |sum, gap| sum + gap.duration_ns.0) as f64 / 1e6;
    assert!(
        slept < 1100.0 && slept + stolen + unknown >= 950.0,
        "{} ({stolen} ms stolen, {unknown} ms not recorded): {:#?}",
        told.sentence,
        told.tree
    );
    assert!(told.sentence.contains(" itself"), "{}", told.sentence);
    let unexplained = told.unexplained_ns.0 as f64 / 1e6 - unknown;
    assert!(unexplained * 20.0 < told.total_ns.0 as f64 / 1e6, "{unexplained} ms");
}

#[test]
#[ignore = "root: run by make test"]
fn of_many_threads_each_late_once_every_one_is_named_with_its_cause() {
    if !is_possible("of_many_threads_each_late_once_every_one_is_named_with_its_cause") {
        return;
    }
    const THREADS: u64 = 200;
    const LATE: Option<Ns> = Some(Ns(60_000_000));
    let recorded = recorded("crowd", &THREADS.to_string(), "30ms");
    assert_eq!(recorded.jobs, 12 * THREADS);
    for nth in 0..THREADS {
        let name = format!("t{nth}");
        let (task, worst) = (recorded.task(&name), recorded.worst_is_explained(&name));
        recorded.accounts_for(&name, 12);
        // A kernel that hides a switch hides the job, too: it is known to be lost, and how long it may have been.
        let response = task.of(Quantity::Response).unwrap();
        assert!(task.misses >= 1 || response.lost_within_ns > LATE, "{task:?}");
        let culprit = worst.culprit.as_deref().unwrap_or_default();
        assert!(culprit.starts_with("its own sleep") || task.not_recorded > 0, "{name}: {culprit}");
    }
}
