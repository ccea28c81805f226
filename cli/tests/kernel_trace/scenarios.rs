//! Causes made on purpose, recorded by `lathunt trace`, and found by `lathunt explain`.
//!
//! The programs are those of the recorded cases (core/tests/data/cases): each says itself who holds what for how long.
//! Here the *constructed* interval is asked for, by its number, and must be explained by what the program did; times
//! of this machine are not compared. A busy machine can spoil a try (the thread that should hold the lock runs too
//! late), so there are several.

use std::path::{Path, PathBuf};
use std::process::Command;

use lathunt_host::knob::Knobs;
use serde_json::Value;

use super::{directory, lathunt, lathunt_ok, may_trace, shown};

const TRIES: usize = 5;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/data/cases")
}

fn build(name: &str, directory: &Path) -> PathBuf {
    let program = directory.join(name);
    let built = Command::new("cc")
        .args(["-O1", "-w", "-o"])
        .arg(&program)
        .arg(cases().join(format!("{name}.c")))
        .args(["-lpthread", "-lutil", "-lrt"])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// Words, each of which must be said of the interval; those between bars are alternatives.
type Words<'a> = &'a [&'a str];

/// Records the program of case `name` with `events` (and options behind it) and gives what is said of its constructed
/// interval.
fn said(name: &str, events: &str) -> String {
    let truth = std::fs::read_to_string(cases().join(format!("{name}.truth.json"))).unwrap();
    let truth: Value = serde_json::from_str(&truth).unwrap();
    let place = directory();
    let program = build(name, place.path());
    let out = place.path().join("trace");
    let recorded = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["trace", "--events"])
        .args(events.split_whitespace())
        .args(["-o", shown(&out), "--", shown(&program)])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let mut asked = vec!["explain", shown(&out), "--worst", "100", "--json"];
    asked.extend(truth["cmdline"].as_str().unwrap().split_whitespace());
    let answers: Value = serde_json::from_str(&lathunt_ok(&asked)).unwrap();
    let wanted = truth["worst_arg0"].to_string();
    let intervals = answers["passages"].as_array().unwrap();
    let interval = intervals.iter().find(|interval| interval["key"].as_str() == Some(&wanted));
    interval.unwrap_or_else(|| panic!("{name}: no interval {wanted} in {answers:#}")).to_string()
}

fn missing<'w>(said: &str, words: Words<'w>) -> Option<&'w str> {
    let said = said.to_lowercase();
    words.iter().copied().find(|words| !words.split('|').any(|word| said.contains(&word.to_lowercase())))
}

/// Within a few tries, all `words` are said of the constructed interval of case `name`.
fn explains(name: &str, events: &str, words: Words) {
    if !may_trace(name) {
        return;
    }
    let mut told = String::new();
    for _ in 0..TRIES {
        told = said(name, events);
        match missing(&told, words) {
            None => return,
            Some(word) => eprintln!("{name}: a try without '{word}'"),
        }
    }
    panic!("{name}: '{}' is not said in {told}", missing(&told, words).unwrap_or_default());
}

#[test]
#[ignore = "root: run by make test"]
fn a_cold_page_of_a_mapped_file_is_named_with_its_file_inode_disk_interrupt_and_reschedule() {
    let words = [
        "page fault",
        "pf.data",
        "inode ",
        "offset 0x309000",
        "hard IRQ|softirq BLOCK",
        "virtio|nvme|ahci|block",
        "regler",
    ];
    explains("page_fault", "rt", &words);
}

#[test]
#[ignore = "root: run by make test"]
fn a_serial_reader_waits_for_a_work_item_whose_worker_waits_for_a_lower_task() {
    let words = ["flush_to_ldisc", "kworker", "bremser", "priority inversion", "sender"];
    if !may_trace("pty_worker") {
        return;
    }
    // On a quiet machine the worker would go to the CPU that the hog leaves free.
    let journal = directory();
    let (mut knobs, _) = Knobs::open(journal.path()).unwrap();
    knobs.set(Path::new("/sys/devices/virtual/workqueue/cpumask"), "2").unwrap();
    explains("pty_worker", "rt", &words);
    drop(knobs); // put back
}

#[test]
#[ignore = "root: run by make test"]
fn the_owner_of_a_pi_futex_that_is_preempted_itself_is_found() {
    explains("pi_preempted", "rt", &["paramstore", "vision", "boost", "inherit"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_mutex_without_inheritance_is_called_a_priority_inversion() {
    explains("inversion", "rt", &["paramstore", "vision", "futex", "priority inversion"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_thread_pinned_behind_another_is_told_from_one_that_had_no_cpu() {
    explains("affinity", "rt", &["motord", "pinned|affinity"]);
}

#[test]
#[ignore = "root: run by make test"]
fn throttling_is_named_although_it_has_no_event() {
    explains("throttling", "rt", &["throttl", "fair server|sched_rt_period", "batch"]);
}

#[test]
#[ignore = "root: run by make test"]
fn the_cpu_quota_of_a_cgroup_is_named() {
    explains("quota", "rt", &["worker", "CPU quota"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_flood_of_packets_is_charged_to_its_softirq_and_sender() {
    let _steering = Steering::of_loopback_to_cpu_1();
    explains("softirq_storm", "full", &["NET_RX", "flood", "packet"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_signal_leads_to_who_sent_it_and_why_that_was_late() {
    explains("signal", "rt", &["kicker", "lidar", "SIGUSR1|signal"]);
}

#[test]
#[ignore = "root: run by make test"]
fn an_munmap_waits_for_the_interrupts_it_sends_to_other_cpus() {
    explains("munmap_ipi", "rt", &["releaser", "IPI", "flush_tlb", "CPU 1"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_timer_is_traced_to_the_thread_that_armed_it() {
    explains("foreign_timer", "rt", &["armed by planner"]);
}

#[test]
#[ignore = "root: run by make test"]
fn an_fsync_is_followed_to_the_disk() {
    explains("fsync", "full", &["fsync", "block I/O|disk"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_migration_is_shown_with_what_drove_the_thread_away() {
    explains("migration", "rt", &["motord", "migrated"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_packet_that_wakes_is_followed_to_its_sender_and_what_held_that_one_up() {
    explains("udp_wake", "full", &["planner", "lidar", "net_rx|loopback|datagram|socket|packet"]);
}

#[test]
#[ignore = "root: run by make test"]
fn the_owner_of_a_mutex_that_waits_for_the_disk_is_followed_to_it() {
    explains("owner_io", "rt", &["logger", "futex", "block I/O"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_lock_of_the_kernel_leads_to_its_holder_and_to_what_preempted_that_one() {
    explains("kernel_lock", "rt", &["of the kernel, held by dumper", "vision", "priority inversion"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_contended_lock_of_the_kernel_is_told_from_the_threads_own_work() {
    explains("lock_spin", "rt", &["mutex of the kernel"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_timeout_of_its_own_is_not_blamed_on_the_softirq_that_ends_it() {
    explains("timeout", "rt", &["its own timeout"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_grace_period_of_rcu_is_called_by_its_name() {
    explains("grace_period", "rt", &["RCU grace period"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_thread_that_is_stopped_leads_to_who_stopped_it() {
    explains("stopped", "rt", &["stopped by a signal of operator"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_deadline_thread_beyond_its_budget_is_not_taken_for_a_cpu_slow_to_leave_idle() {
    explains("deadline", "rt", &["SCHED_DEADLINE budget"]);
}

#[test]
#[ignore = "root: run by make test"]
fn who_waits_for_a_child_is_told_what_held_the_child_up() {
    explains("child", "rt", &["job", "vision", "priority inversion"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_packet_that_a_soft_timer_sends_is_followed_to_who_armed_it() {
    explains("pacing", "full", &["tcp_pace_kick) armed by camera"]);
}

#[test]
#[ignore = "root: run by make test"]
fn timer_slack_is_not_taken_for_the_sleep_that_was_asked_for() {
    explains("timer_slack", "rt", &["longer than requested, by its timer slack"]);
}

#[test]
#[ignore = "root: run by make test"]
fn a_timer_that_signals_is_the_threads_own() {
    explains("soft_timer", "rt", &["its own timer", "posix_timer_fn"]);
}

#[test]
#[ignore = "root: run by make test"]
fn markers_and_futexes_are_in_the_flight_ring_too() {
    let lacks = lathunt_host::testing::lacks_bpf();
    if lathunt_host::testing::may_run("markers_and_futexes_are_in_the_flight_ring_too", lacks) {
        explains("inversion", "rt --flight", &["paramstore", "vision", "futex", "priority inversion"]);
    }
}

#[test]
#[ignore = "root: run by make test"]
fn who_lowers_a_priority_is_named() {
    explains("lowered", "rt", &["operator", "had lowered it from RT 60 to RT 10 (sched_setscheduler)"]);
}

#[test]
#[ignore = "root: run by make test"]
fn who_lowers_a_priority_is_in_the_flight_ring_too() {
    let lacks = lathunt_host::testing::lacks_bpf();
    if lathunt_host::testing::may_run("who_lowers_a_priority_is_in_the_flight_ring_too", lacks) {
        let words = ["operator", "had lowered it from RT 60 to RT 10 (sched_setscheduler)"];
        explains("lowered", "rt --flight", &words);
    }
}

#[test]
#[ignore = "root: run by make test"]
fn each_owner_of_a_chain_of_locks_is_told_with_its_own_priority() {
    explains("pi_chain", "rt", &["which is RT 20 by itself", "which is RT 10 by itself", "boosted to RT 80"]);
}

/// Receive packet steering of the loopback device, put back when dropped.
struct Steering {
    before: Option<String>,
}

const STEERING: &str = "/sys/class/net/lo/queues/rx-0/rps_cpus";

impl Steering {
    fn of_loopback_to_cpu_1() -> Steering {
        let before = std::fs::read_to_string(STEERING).ok();
        let set = std::fs::write(STEERING, "2");
        Steering { before: before.filter(|_| set.is_ok()) }
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = std::fs::write(STEERING, before.trim());
        }
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_recording_of_nothing_that_was_asked_for_says_so() {
    if !may_trace("a_recording_of_nothing_that_was_asked_for_says_so") {
        return;
    }
    let out = directory();
    lathunt_ok(&["trace", "-o", shown(out.path()), "-D", "0.1"]);
    let answer = lathunt(&["explain", shown(out.path()), "--between", "sys:998", "sys:999"]);
    let told = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.status.success() && told.contains("no such interval"), "{told}");
}
