//! The files of the PREEMPT_RT patch that `--latency-hist` writes.

use super::*;

/// The number in a line of the head of an old histogram.
fn head(path: &Path, what: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}: {text}"));
    line.split(' ').find_map(|word| word.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "root: run by make test"]
fn writing_reset_empties_its_directory_and_takes_nothing_from_the_run() {
    if !may_run("writing_reset_empties_its_directory", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (output, hist) = (place.path().join("run"), place.path().join("hist"));
    let mut victim = cyclic("0", "60");
    let mut record = command(&["record", "-q", "-c", "0", "-D", "7s", "-o"]);
    let mut record = record.arg(&output).arg("--latency-hist").arg(&hist).spawn().unwrap();
    // Loading the recorder takes its time on a slow machine.
    let begun = Instant::now();
    let is_above_0 = |word: &str| word.parse().is_ok_and(|count: u64| count > 0);
    let counts = |line: &str| line.starts_with("#Total samples") && line.split(' ').any(is_above_0);
    let has_samples = || {
        let text = fs::read_to_string(hist.join("timerandwakeup/CPU0"));
        text.is_ok_and(|text| text.lines().any(counts))
    };
    while !has_samples() && begun.elapsed() < Duration::from_secs(30) {
        sleep(Duration::from_millis(50));
    }
    sleep(Duration::from_millis(1_500));
    fs::write(hist.join("timerandwakeup/reset"), "1\n").unwrap();
    fs::write(hist.join("wakeup/pid"), "1234\n").unwrap();
    record.wait().unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    let run = read(&output);
    let whole = |quantity| run.of(quantity).map(|series| series.histogram.count()).sum::<u64>();
    let [wakeup, both] =
        ["wakeup/CPU0", "timerandwakeup/CPU0"].map(|path| head(&hist.join(path), "#Total samples"));
    assert_eq!(wakeup, whole(Quantity::Wakeup), "what was not reset is whole");
    let all = whole(Quantity::TimerWakeup);
    assert!(both > all / 5 && both < all * 4 / 5, "{both} of {all} came after the reset");
    // Head and worst case are of the time after the reset, too.
    let max = head(&hist.join("timerandwakeup/CPU0"), "#Maximum latency");
    let worst = fs::read_to_string(hist.join("timerandwakeup/max_latency-CPU0")).unwrap();
    let told: u64 = worst.split(' ').nth(2).unwrap().parse().unwrap();
    assert!(told <= max && max <= run.max_of(Quantity::TimerWakeup).unwrap().0 / 1_000, "{worst} {max}");
    assert_eq!(fs::read_to_string(hist.join("timerandwakeup/reset")).unwrap(), "");
    assert_eq!(fs::read_to_string(hist.join("wakeup/pid")).unwrap(), "0\n");
    let notes = &run.conditions.notes;
    assert!(notes.iter().any(|note| note.contains("wakeup/pid was written")), "{notes:?}");
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last = possible.trim().rsplit(['-', ',']).next().unwrap();
    assert!(hist.join(format!("wakeup/sharedprio/CPU{last}")).exists(), "every possible CPU has its file");
}
