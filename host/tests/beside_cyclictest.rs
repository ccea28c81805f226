//! The recorder beside cyclictest: the same activations of the same thread, seen by both.
//!
//! cyclictest reads the clock in user space, the recorder when its thread is switched in: they differ by the way back
//! to user space, which is small and steady.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_host::recorder::Recorder;
use lathunt_host::recording::Settings;
use lathunt_host::testing::{lacks_bpf, may_run};

const CPU: Cpu = Cpu(0);
const PERIOD: Ns = Ns(1_000_000);
const CYCLES: usize = 3_000;
/// The way to user space takes some µs; on a machine that is busy or instrumented longer, but steadily so.
const LONGEST_MEDIAN: Ns = Ns::from_us(50);

fn lacks_cyclictest() -> Option<&'static str> {
    let found = Command::new("cyclictest").arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_err().then_some("cyclictest (package rt-tests) is missing")
}

/// What cyclictest says of each of its cycles, in ns: `-v` prints `thread: cycle: latency`.
fn theirs(text: &str) -> Vec<Ns> {
    let row = |line: &str| {
        let numbers: Vec<u64> = line.split(':').map_while(|word| word.trim().parse().ok()).collect();
        (numbers.len() == 3).then(|| Ns(numbers[2]))
    };
    text.lines().filter_map(row).collect()
}

/// The expiry of each cycle, as cyclictest computes it: periods that have passed by then are skipped.
fn expiries(first: Mono, latencies: &[Ns]) -> Vec<Mono> {
    let mut expiry = first;
    let mut of = |latency: &Ns| {
        let this = expiry;
        expiry = expiry + Ns(PERIOD.0 * (latency.0 / PERIOD.0 + 1));
        this
    };
    latencies.iter().map(&mut of).collect()
}

#[test]
#[ignore = "root: run by make test"]
fn timer_and_wakeup_are_what_cyclictest_measures_less_the_way_to_user_space() {
    let name = "timer_and_wakeup_are_what_cyclictest_measures_less_the_way_to_user_space";
    if !may_run(name, lacks_bpf().or_else(lacks_cyclictest)) {
        return;
    }
    let settings = Settings::on(CpuSet::from_iter([CPU]));
    let mut recorder = Recorder::start(&settings.recorder(None)).unwrap_or_else(|error| panic!("{error}"));
    let cycles = CYCLES.to_string();
    let cyclictest = Command::new("cyclictest")
        .args(["-t1", "-a", "0", "-p", "95", "-m", "-i", "1000", "-N", "-v", "-l", &cycles])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = cyclictest.id() as i32;
    let mut ours: HashMap<Mono, Ns> = HashMap::new();
    let mut first: Option<Mono> = None;
    let reading = std::thread::spawn(move || cyclictest.wait_with_output().unwrap());
    while !reading.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(20));
        recorder.poll();
        let lost = recorder.activations(|a| {
            let its = a.tgid.0 == pid && a.thread.tid.0 != pid;
            if let Some((expires, _)) = a.timer.filter(|_| its) {
                first = Some(first.map_or(expires, |first| first.min(expires)));
                ours.insert(expires, a.latency());
            }
        });
        assert_eq!(lost, 0);
    }
    let theirs = theirs(&String::from_utf8_lossy(&reading.join().unwrap().stdout));
    let first = first.expect("its thread was recorded");
    let mut offsets: Vec<i64> = Vec::new();
    for (expiry, latency) in expiries(first, &theirs).iter().zip(&theirs) {
        if let Some(our) = ours.get(expiry) {
            offsets.push(latency.0 as i64 - our.0 as i64);
        }
    }
    offsets.sort_unstable();
    let quantile = |q: f64| offsets[((offsets.len() - 1) as f64 * q) as usize];
    let [p5, median, p95] = [0.05, 0.5, 0.95].map(quantile);
    eprintln!(
        "cyclictest - recorder: {} of {} cycles paired; p5 {p5} ns, median {median} ns, p95 {p95} ns; losses {:?}",
        offsets.len(),
        theirs.len(),
        recorder.losses()
    );
    // What is missing was not woken by its timer (the thread was still awake) or hidden by unseen switches.
    assert!(offsets.len() * 2 > theirs.len(), "{} of {} paired", offsets.len(), theirs.len());
    assert!(offsets[0] > 0, "the switch comes before user space: {} ns", offsets[0]);
    assert!(median < LONGEST_MEDIAN.0.cast_signed(), "median {median} ns");
}
