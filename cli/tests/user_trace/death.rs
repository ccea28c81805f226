//! Death at any instruction, of the program and of the consumer: every event is in the trace, or counted.

use std::time::Duration;

use crate::lab::{babeltrace, Lab};
use crate::stream;

/// A small generator (splitmix64): the moments of death differ, and a failure names its seed.
struct Moments(u64);

impl Moments {
    fn next(&mut self, below_us: u64) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_micros((z ^ (z >> 31)) % below_us)
    }
}

fn counters(path: &std::path::Path) -> Vec<(u64, u64)> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap());
    bytes.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect()
}

/// Kills `victims` emitters at random moments and checks each trace against what the program itself knew.
fn kill_programs(victims: usize, arguments: &[&str]) {
    let seed = std::process::id().into();
    let mut moments = Moments(seed);
    let lab = Lab::new();
    let program = lab.program("emitter");
    let out = lab.path("out");
    lab.trace_ok(&["start", "-o", out.to_str().unwrap(), "--ring", "256K"]);
    let mut killed = Vec::new();
    for victim in 0..victims {
        let counter = lab.path(&format!("counters-{victim}"));
        let mut all = vec![counter.to_str().unwrap()];
        all.extend(arguments);
        let mut child = lab.spawn(&program, &all);
        wait_until_it_emits(&counter);
        std::thread::sleep(moments.next(15_000));
        child.kill().unwrap();
        child.wait().unwrap();
        killed.push((child.id(), counter));
    }
    std::thread::sleep(Duration::from_millis(200));
    let _ = lab.trace(&["stop"]); // exit code 3 where a death left an event unfinished: that is counted below
    for (pid, counter) in killed {
        let content = lab
            .traces("out")
            .iter()
            .find(|dir| dir.file_name().unwrap().to_str().unwrap().starts_with(&format!("emitter-{pid}-")))
            .map_or_else(Default::default, |dir| stream::read(dir));
        let (begun, finished) =
            counters(&counter).iter().fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        let accounted = content.events() + content.discarded;
        assert!(
            finished <= accounted && accounted <= begun,
            "seed {seed}: {pid} finished {finished}, began {begun}: recorded {} and discarded {}",
            content.events(),
            content.discarded
        );
        for (thread, numbers) in &content.numbers {
            assert!(
                numbers.windows(2).all(|pair| pair[0] < pair[1]),
                "seed {seed}: thread {thread} out of order"
            );
        }
        assert!(begun > 0, "seed {seed}: {pid} was killed before it began");
    }
    assert_no_memory_is_left(&lab);
}

fn assert_no_memory_is_left(lab: &Lab) {
    let of_users = std::fs::read_dir(lab.memory()).unwrap().flatten().filter(|entry| entry.path().is_dir());
    let left: Vec<_> = of_users
        .flat_map(|user| std::fs::read_dir(user.path()).unwrap().flatten())
        .map(|file| file.path())
        .collect();
    assert!(left.is_empty(), "the dead leave no memory behind: {left:?}");
}

/// Waits until the first thread of an emitter has begun an event.
fn wait_until_it_emits(counter: &std::path::Path) {
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    while counters(counter).iter().all(|&(begun, _)| begun == 0) && std::time::Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_program_loses_nothing_that_it_had_committed() {
    kill_programs(110, &["2", "0", "50"]);
}

#[test]
fn a_program_killed_while_its_ring_is_full_has_counted_what_it_discarded() {
    kill_programs(50, &["1", "0", "1000000"]);
}

#[test]
fn a_program_killed_between_its_signal_handlers_loses_nothing_that_it_had_committed() {
    kill_programs(50, &["1", "0", "50", "signals"]);
}

#[test]
fn programs_that_are_killed_just_before_the_session_ends_leave_no_memory() {
    let lab = Lab::new();
    let program = lab.program("emitter");
    let out = lab.path("out");
    // Together more than the consumer reads of a user's dead in one round.
    lab.trace_ok(&["start", "-o", out.to_str().unwrap(), "--ring", "8M"]);
    let session = std::fs::read_to_string(session_file(&lab)).unwrap();
    let consumer: i32 =
        session.lines().find_map(|line| line.strip_prefix("consumer ")?.parse().ok()).unwrap();
    let tell = |signal| {
        // SAFETY: the consumer of this test's session, which runs until the test stops it.
        assert_eq!(unsafe { libc::kill(consumer, signal) }, 0);
    };
    tell(libc::SIGSTOP);
    for victim in 0..8 {
        let counter = lab.path(&format!("counters-{victim}"));
        let mut child = lab.spawn(&program, &[counter.to_str().unwrap(), "1", "0", "50"]);
        wait_until_it_emits(&counter);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    tell(libc::SIGTERM); // it waits until the consumer goes on
    tell(libc::SIGCONT);
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    while lab.trace_ok(&["status"]) != "no session\n" && std::time::Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(lab.traces("out").len(), 8);
    assert_no_memory_is_left(&lab);
}

#[test]
fn a_killed_consumer_is_replaced_and_every_event_comes_exactly_once() {
    let lab = Lab::new();
    let program = lab.program("emitter");
    let counter = lab.path("counters");
    let out = lab.path("out");
    let start = ["start", "-o", out.to_str().unwrap()];
    let mut moments = Moments(std::process::id().into());
    lab.trace_ok(&start);
    let mut child = lab.spawn(&program, &[counter.to_str().unwrap(), "2", "200000", "5"]);
    for _ in 0..200 {
        std::thread::sleep(moments.next(15_000));
        let session = std::fs::read_to_string(session_file(&lab)).unwrap();
        let consumer = session.lines().find_map(|line| line.strip_prefix("consumer ")).unwrap();
        let killed = std::process::Command::new("kill").args(["-9", consumer]).status().unwrap();
        assert!(killed.success());
        std::thread::sleep(moments.next(10_000));
        while !lab.trace(&start).status.success() {
            std::thread::sleep(Duration::from_millis(1)); // the dead one's lock goes with it
        }
    }
    assert!(child.wait().unwrap().success());
    std::thread::sleep(Duration::from_millis(100));
    lab.trace(&["stop"]);
    let traces = lab.traces("out");
    assert_eq!(traces.len(), 1, "{traces:?}");
    let content = stream::read(&traces[0]);
    for numbers in content.numbers.values() {
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "twice, or out of order");
    }
    assert_eq!(content.events() + content.discarded, 400_000, "{} discarded", content.discarded);
    babeltrace_counts(&lab, &content);
}

/// babeltrace2 sees the same number of events; it warns of discarded ones, and of nothing else.
fn babeltrace_counts(lab: &Lab, content: &stream::Content) {
    if content.discarded == 0
        && let Some(text) = babeltrace(&lab.path("out"))
    {
        assert_eq!(text.lines().count() as u64, content.events());
    }
}

#[test]
fn recover_writes_what_a_program_left_when_nobody_recorded_any_more() {
    let lab = Lab::new();
    let program = lab.program("emitter");
    let counter = lab.path("counters");
    let out = lab.path("out");
    lab.trace_ok(&["start", "-o", out.to_str().unwrap()]);
    let mut child = lab.spawn(&program, &[counter.to_str().unwrap(), "1", "0", "10"]);
    while counters(&counter).first().is_none_or(|&(begun, _)| begun < 100) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let session = std::fs::read_to_string(session_file(&lab)).unwrap();
    let consumer = session.lines().find_map(|line| line.strip_prefix("consumer ")).unwrap();
    std::process::Command::new("kill").args(["-9", consumer]).status().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lab.trace_ok(&["status"]).contains("has died"));
    lab.trace(&["recover"]);
    let content = stream::read(&lab.traces("out")[0]);
    let (begun, finished) = counters(&counter)[0];
    assert!((finished..=begun).contains(&(content.events() + content.discarded)));
    assert_eq!(content.numbers[&0], (0..content.events()).collect::<Vec<_>>());
    assert!(lab.trace_ok(&["status"]).contains("no session"));
    assert_eq!(left_of(&lab), [""; 0], "a session that has ended leaves no file");
}

/// Names of the files of a session: its rules, its lock, the report of its consumer.
fn left_of(lab: &Lab) -> Vec<String> {
    let names = std::fs::read_dir(lab.memory()).unwrap().flatten().map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    names.filter(|name| name.ends_with(".status") || name.ends_with(".session")).collect()
}

fn session_file(lab: &Lab) -> std::path::PathBuf {
    let entries = std::fs::read_dir(lab.memory()).unwrap().flatten();
    entries
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|kind| kind == "session"))
        .unwrap()
}
