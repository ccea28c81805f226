//! Applications that know the truth about themselves.

use lathunt_core::application::State;
use lathunt_core::series::Series;

use super::*;

#[test]
#[ignore = "root: run by make test"]
fn a_command_is_recorded_from_its_beginning_under_its_own_name_and_its_failure_is_told() {
    if !may_run("a_command_is_recorded_from_its_beginning_under_its_own_name", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let sleeps = ["sleep", "0.3"];
    let ended = command(&["record", "-q", "--"]).args(sleeps).current_dir(&place).output().unwrap();
    assert!(matches!(ended.status.code(), Some(0 | 3)), "{}", said(&ended));
    let made: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).collect();
    let name = made[0].file_name().unwrap().to_string_lossy().into_owned();
    let digits = name.chars().filter(char::is_ascii_digit).count();
    assert!(made.len() == 1 && name.starts_with("lathunt-") && digits == 14, "{made:?}");
    let run = read(&made[0]);
    assert!(run.conditions.started.is_some());
    assert!(run.tasks.iter().all(|task| task.thread.comm == "sleep"), "{:?}", run.tasks);

    let output = place.path().join("failed");
    let output = output.to_str().unwrap();
    for (ends, told) in [
        ("exit 7", "sh ended with exit code 7"),
        ("exit 255", "sh ended with exit code 255"),
        ("kill -SEGV $$", "sh was killed by signal 11"),
    ] {
        let failed = lathunt(&["record", "-o", output, "--", "sh", "-c", &format!("sleep 0.1; {ends}")]);
        assert_eq!(failed.status.code(), Some(3), "{}", said(&failed));
        assert!(String::from_utf8_lossy(&failed.stdout).contains(told), "{failed:?}");
    }
    let aside = lathunt(&["record", "--json", "-o", output, "--", "sh", "-c", "echo spoken; sleep 0.1"]);
    assert!(Run::from_json(&String::from_utf8_lossy(&aside.stdout)).is_ok(), "{aside:?}");
    assert!(said(&aside).contains("spoken"), "{aside:?}");
    let absent = lathunt(&["record", "-o", output, "--", "/nonexistent/program"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(
        said(&absent).contains("/nonexistent/program") && said(&absent).lines().count() == 1,
        "{}",
        said(&absent)
    );
}

/// Builds a program of tests/record.
pub(super) fn build(place: &Path, name: &str) -> PathBuf {
    let program = place.join(name);
    let source = format!("{}/tests/record/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let built =
        Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    program
}

#[test]
#[ignore = "root: run by make test"]
fn threads_that_migrate_overrun_or_sleep_on_a_clock_that_is_set_have_the_figures_they_count_themselves() {
    let one_cpu = || (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs");
    if !may_run("threads_that_migrate_overrun_or_sleep_on_a_clock_that_is_set", lacks_bpf().or_else(one_cpu))
    {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "truths"), place.path().join("run"));
    let truth = place.path().join("truth");
    let ended = command(&["record", "-q", "-o", output.to_str().unwrap(), "--"])
        .args([program.as_os_str(), truth.as_os_str(), "400".as_ref()])
        .output()
        .unwrap();
    assert!(matches!(ended.status.code(), Some(0 | 3)), "{}", said(&ended));
    let (run, truth) = (read(&output), fs::read_to_string(truth).unwrap());
    for line in truth.lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let [turns, overruns]: [u64; 2] = std::array::from_fn(|_| words.next().unwrap().parse().unwrap());
        let task = run.tasks.iter().find(|task| task.thread.comm == name).unwrap_or_else(|| panic!("{name}"));
        let told = format!(
            "{line}: {} activations, {} not recorded, {} late sleeps, {} misses, {:?} {:?}",
            task.activations, task.not_recorded, task.late_sleeps, task.misses, task.miss_max_ns, task.period
        );
        eprintln!("{told}, worst {}", task.largest());
        // The last turn ends with the thread, and what was not recorded is said. When the host stops the machine between
        // its look at the clock and its sleep, the thread does not know of that overrun.
        let unknown = 2 + 2 * task.not_recorded;
        let doubt = task.not_recorded + 2 + turns / 100;
        assert!(task.late_sleeps.abs_diff(overruns) <= doubt, "{told}");
        let counted = task.activations + unknown;
        assert!(task.activations <= turns && counted >= turns, "{told}");
        if name == "steps" {
            assert!(task.largest() < Ns::from_ms(300), "{told}: {}", task.largest());
            continue;
        }
        if name == "shortly" {
            let count = |of: Quantity| task.of(of).map_or(0, |series| series.histogram.count());
            let on_the_way = count(Quantity::TimerWakeup).saturating_sub(count(Quantity::Wakeup));
            assert!(on_the_way > turns / 10, "{on_the_way} on the way to sleep: {told}");
            continue;
        }
        let period = task.period.as_ref().unwrap();
        assert!(
            period.missed <= unknown.min(doubt),
            "a release is late, or on time, and never left out: {told}"
        );
        // What overran before a turn that was not recorded is no miss whose size is known; on a busy host it is many.
        let least = if task.not_recorded == 0 { overruns } else { overruns * 3 / 4 };
        assert!(task.misses <= overruns + doubt && task.misses + doubt >= least, "{told}");
        if name == "overruns" {
            assert!(overruns >= 80 && task.miss_max_ns.unwrap() >= Ns::from_us(2_900), "{told}");
        }
    }
    assert_eq!(truth.lines().count(), 4);
    // Where the kernel hid a wake-up of a thread, the figures of its CPU say so, too.
    let hidden: u64 = run.tasks.iter().map(|task| task.not_recorded).sum();
    let lost: u64 = run.of(Quantity::Wakeup).map(|series| series.lost).sum();
    assert!(hidden < 3 || lost > 0, "{hidden} of threads, {lost} of CPUs: {:?}", run.losses);
}

/// What a thread of counts.c says of itself.
struct Counted {
    name: String,
    turns: u64,
    at_once: u64,
    faults: u64,
}

#[test]
#[ignore = "root: run by make test"]
fn threads_driven_by_descriptors_semaphores_sockets_and_yields_have_the_turns_they_count_themselves() {
    if !may_run("threads_driven_by_descriptors_semaphores_sockets_and_yields", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "counts"), place.path().join("run"));
    let truth = place.path().join("truth");
    let ended = command(&["record", "-q", "-o", output.to_str().unwrap(), "--"])
        .args([program.as_os_str(), truth.as_os_str()])
        .output()
        .unwrap();
    assert!(matches!(ended.status.code(), Some(0 | 3)), "{}", said(&ended));
    let (run, truth) = (read(&output), fs::read_to_string(truth).unwrap());
    let counted = truth.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [turns, at_once, faults]: [u64; 3] = std::array::from_fn(|nth| words[1 + nth].parse().unwrap());
        Counted { name: words[0].to_owned(), turns, at_once, faults }
    });
    let mut names = Vec::new();
    for Counted { name, turns, at_once, faults } in counted.filter(|counted| counted.turns > 0) {
        let task = run.tasks.iter().find(|task| task.thread.comm == name).unwrap_or_else(|| panic!("{name}"));
        let told = format!(
            "{name}: {turns} turns, {at_once} at once, {faults} faults; found {} activations, {} late, {} not recorded, {} faults, {} misses, {:?}",
            task.activations, task.late_sleeps, task.not_recorded, task.page_faults, task.misses, task.period
        );
        eprintln!("{told}");
        // The first and the last turn are not whole; a turn after one that was not recorded has no known begin.
        let unknown = 3 + 2 * task.not_recorded;
        // Where something comes just as the thread goes to wait for it, its own count may be off.
        let doubt = unknown + 2 + turns / 50;
        // A timer's expiry is seen where its read returns at once, too; what is queued elsewhere is not.
        let seen = if name == "timerfd" { turns } else { turns - at_once };
        assert!(task.activations.abs_diff(seen) <= doubt, "{told}");
        match name.as_str() {
            "timerfd" => {
                assert!(at_once >= 30 && task.late_sleeps.abs_diff(at_once) <= doubt, "{told}");
                assert!(
                    task.misses + doubt >= 2 * at_once,
                    "an overrun is late, and so is what it delays: {told}"
                );
            }
            "yields" => {
                assert_eq!((task.policy.as_str(), task.timer_driven), ("SCHED_DEADLINE", true), "{told}");
                assert_eq!(task.waits_in.as_deref(), Some("sched_yield"), "{told}");
                let period = task.period.as_ref().unwrap_or_else(|| panic!("{told}")).median_ns;
                assert!(period.0.abs_diff(5_000_000) < 50_000, "{told}");
            }
            _ => assert_eq!(task.late_sleeps, 0, "{told}"),
        }
        if name == "faults" && cfg!(target_arch = "x86_64") {
            // It has some more on its way out, after it looked.
            assert!((faults..=faults + 2 * unknown + 3).contains(&(task.page_faults + unknown)), "{told}");
        }
        names.push(name);
    }
    // A kernel may have no bandwidth for a deadline task; all others must be there.
    assert!(names.len() >= 5, "{names:?}");
}

#[test]
#[ignore = "root: run by make test"]
#[cfg(target_arch = "x86_64")]
fn calls_with_the_numbers_of_32_bit_programs_have_their_own_names() {
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "compat"), place.path().join("run"));
    let works = Command::new(&program).status().unwrap().success();
    let lacks = || (!works).then_some("needs a kernel with IA32_EMULATION");
    if !may_run("calls_with_the_numbers_of_32_bit_programs", lacks_bpf().or_else(lacks)) {
        return;
    }
    let ended =
        command(&["record", "-q", "-o", output.to_str().unwrap(), "--"]).arg(program).output().unwrap();
    assert!(matches!(ended.status.code(), Some(0 | 3)), "{}", said(&ended));
    let run = read(&output);
    let task = run.tasks.iter().find(|task| task.thread.comm == "compat").unwrap();
    // By the other table they would be readlinkat and sync.
    assert_eq!(task.waits_in.as_deref(), Some("clock_nanosleep TIMER_ABSTIME"), "{task:?}");
    let waits: Vec<_> = task.blocking.iter().map(|wait| (wait.class, wait.place.as_str())).collect();
    assert!(waits.contains(&(Class::Sleep, "nanosleep")), "{waits:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn an_application_with_more_threads_than_are_kept_does_not_pass() {
    if !may_run("an_application_with_more_threads_than_are_kept_does_not_pass", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "many"), place.path().join("run"));
    let ended = command(&["record", "-q", "--deadline", "10s", "-o", output.to_str().unwrap(), "--"])
        .arg(program)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(3), "{}", said(&ended));
    let run = read(&output);
    let reasons = &run.verdict.as_ref().unwrap().reasons;
    assert!(reasons.iter().any(|reason| reason.contains("threads_beyond_limit")), "{reasons:?}");
    // All that is not kept apart is added up: no wake-up of a CPU is in the figures of no thread.
    let others = run.tasks.iter().find(|task| task.thread.comm == OTHERS).expect("the others are a row");
    assert!(others.worst.is_some(), "their worst case has its circumstances");
    let count = |series: &Series| series.histogram.count();
    let wakeups = [Quantity::Wakeup, Quantity::SharedPrio];
    let of_tasks: u64 = run
        .tasks
        .iter()
        .flat_map(|task| &task.series)
        .filter(|of| wakeups.contains(&of.quantity))
        .map(count)
        .sum();
    let of_cpus: u64 = wakeups.iter().flat_map(|&quantity| run.of(quantity)).map(count).sum();
    assert!(of_tasks <= of_cpus && of_tasks + 100 >= of_cpus, "{of_tasks} of tasks, {of_cpus} of CPUs");
}

#[test]
#[ignore = "root: run by make test"]
fn a_turn_that_is_never_over_is_told_and_is_no_pass() {
    if !may_run("a_turn_that_is_never_over_is_told_and_is_no_pass", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "hangs");
    for (what, code, state) in [
        ("ends", 3, State::Ended),
        ("spins", 2, State::Runs),
        ("starves", 2, State::Waits),
        ("relay", 2, State::Waits),
    ] {
        let output = place.path().join(what);
        let ended =
            command(&["record", "-D", "2s", "--deadline", "40ms", "-o", output.to_str().unwrap(), "--"])
                .args([program.as_os_str(), what.as_ref()])
                .output()
                .unwrap();
        let (told, run) = (String::from_utf8_lossy(&ended.stdout), read(&output));
        let task = run.tasks.iter().find(|task| task.thread.comm == "hangs").unwrap();
        eprintln!(
            "{what}: {:?}, {} activations, worst {}",
            task.unfinished,
            task.activations,
            task.largest()
        );
        let end = task.late_end().unwrap_or_else(|| panic!("{what}: {:?}\n{told}", task.unfinished));
        // On other than the last CPU of a busy machine the thread may have lost it at that moment, or been woken twice.
        let preempted = end.state == State::Preempted && state != State::Ended;
        assert!(end.state == state || preempted, "{what}: {end:?}");
        let least = if state == State::Ended { 50 } else { 900 };
        assert!(end.after_ns >= Ns::from_ms(least) && end.after_ns < Ns::from_ms(3_000), "{what}: {end:?}");
        assert_eq!(ended.status.code(), Some(code), "{what}: {told}");
        assert!(
            told.split_whitespace().collect::<Vec<_>>().join(" ").contains(&format!(": {end}")),
            "{told}"
        );
        if end.state == State::Waits {
            assert_eq!(task.largest(), end.after_ns, "its wait so far is its latency");
            let largest = run.peaks.iter().find(|peak| peak.victim.comm == "hangs").unwrap();
            // Not who had the CPU at that moment.
            assert_eq!(largest.culprit.as_deref(), Some("thread: hog"), "{what}: {:?}", largest.explanation);
            assert!(largest.explanation.as_ref().is_some_and(|why| why.tree.adds_up()), "{largest:?}");
        }
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_program_that_another_thread_than_the_first_begins_is_recorded() {
    if !may_run("a_program_that_another_thread_than_the_first_begins_is_recorded", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (begins, hangs) = (build(place.path(), "begins"), build(place.path(), "hangs"));
    let output = place.path().join("run");
    let ended = command(&["record", "-q", "-o", output.to_str().unwrap(), "--"])
        .args([begins.as_os_str(), hangs.as_os_str(), "ends".as_ref()])
        .output()
        .unwrap();
    let run = read(&output);
    let task = run.tasks.iter().find(|task| task.thread.comm == "hangs");
    let task = task.unwrap_or_else(|| panic!("{:?} {}", run.tasks, said(&ended)));
    let hidden: u64 =
        run.losses.iter().filter(|loss| loss.counter.ends_with("_not_seen")).map(|loss| loss.count).sum();
    eprintln!("{} activations, {} not recorded, {hidden} hidden", task.activations, task.not_recorded);
    // Of 100. How many the kernel hides depends on the machine: no others are missing, and each is seen or told to be lost.
    assert!(task.activations + task.not_recorded + hidden >= 98, "{task:?}");
    assert!(task.not_recorded <= hidden + 2, "{task:?} {:?}", run.losses);
    let wakeups = task.of(Quantity::TimerWakeup).unwrap();
    assert!(wakeups.histogram.count() + wakeups.lost >= 98, "{task:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_thread_that_is_stopped_waits_for_no_page() {
    if !may_run("a_thread_that_is_stopped_waits_for_no_page", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "hangs"), place.path().join("run"));
    let script =
        r#""$0" spins & sleep 1; kill -STOP $!; sleep 0.3; kill -CONT $!; sleep 0.2; kill -KILL $!; exit 0"#;
    let ended = command(&["record", "-q", "-o", output.to_str().unwrap(), "--", "sh", "-c", script])
        .arg(&program)
        .output()
        .unwrap();
    let run = read(&output);
    let task = run.tasks.iter().find(|task| task.thread.comm == "hangs");
    let task = task.unwrap_or_else(|| panic!("{}", said(&ended)));
    let longest = &task.blocking[0];
    eprintln!("{:?}", task.blocking);
    assert!(
        longest.place.starts_with("a stop by a signal") && longest.max_ns >= Ns::from_ms(290),
        "{longest:?}"
    );
    assert!(task.blocking.iter().all(|one| one.class != Class::PageFault || one.max_ns < Ns::from_ms(200)));
}

#[test]
#[ignore = "root: run by make test"]
fn a_signal_while_the_program_still_runs_is_told() {
    if !may_run("a_signal_while_the_program_still_runs_is_told", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let words = ["record", "-q", "-o", place.path().to_str().unwrap(), "--"];
    let program = ["sh", "-c", "while :; do sleep 0.01; done"];
    let recording = command(&[&words[..], &program].concat()).stdout(std::process::Stdio::null()).spawn();
    let recording = recording.unwrap();
    wait_until_it_records(place.path());
    let pid = recording.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    recording.wait_with_output().unwrap();
    let notes = read(place.path()).conditions.notes;
    assert!(notes.iter().any(|note| note.ends_with("of COMMAND, which still ran (SIGTERM)")), "{notes:?}");
}
