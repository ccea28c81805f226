//! What PREEMPT_RT does otherwise: interrupts only wake their threads, and a waiter for a mutex spins while its owner
//! runs. The events are those of LTTng on such a kernel (Linux 6.1), shortened.

use super::notation;
use crate::explain::record::Record;
use crate::explain::{explain_interval, Explanation, Interval};
use crate::time::{Cpu, Mono, Tid};
use crate::trace::window::{Mapped, Mapping, Window};

fn explained(window: &Window, begin: u64, end: u64) -> Explanation {
    let (begin, end) = (Mono(begin * 1000), Mono(end * 1000));
    let interval = Interval { tid: Tid(259), cpu: Cpu(1), begin, end };
    let explanation = explain_interval(&Record::new(window), &interval);
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    explanation
}

const FAULT: &str = "
     0 c0 switch idle > reader/258
    20 c0 disk+ 777
   100 c1 switch idle > worker/259@50
   300 c1 fault 20480
   310 c1 disk+ 50160
   320 c1 switch worker/259@50:D > idle
  9000 c1 irq+ 26 virtio0-req.1
  9010 c1 irq- 26
  9018 c1 waking irq/26-virtio0-/118@50
  9150 c1 switch idle:R > irq/26-virtio0-/118@50
  9180 c1 disk- 50160
  9200 c1 waking worker/259@50
  9300 c1 switch irq/26-virtio0-/118@50:S > worker/259@50
  9500 c1 switch worker/259@50:S > idle
  9501 c0 switch reader/258:R > idle
";

/// What an unlink on a file system with the option discard waits for.
#[test]
fn a_discard_is_not_called_a_write() {
    let discard = FAULT.replace("   300 c1 fault 20480\n", "").replace("disk+ 50160", "disk+ 50160 DS");
    let explanation = explained(&notation::window(&discard), 200, 9400);
    let (said, advice) = (&explanation.sentence, &explanation.advice);
    assert!(said.contains("the disk discard of 8 sectors at sector 50160"), "{said}");
    assert!(advice.contains("mount it without discard"), "{advice}");
}

#[test]
fn a_disk_request_is_followed_through_the_thread_of_its_interrupt() {
    let mut window = notation::window(FAULT);
    let file = "/data/model.bin".to_owned();
    window.mappings.push(Mapping {
        at: Mono(0),
        begin: 0x4000,
        end: 0x8000,
        offset: 0x1000,
        of: Mapped::File(file),
    });
    let explanation = explained(&window, 200, 9400);
    let said = &explanation.sentence;
    for words in [
        "page fault on the memory-mapped file /data/model.bin (offset 0x2000",
        "the disk read of 8 sectors at sector 50160",
        "until hard IRQ 26 (virtio0-req.1) (block I/O)",
        "a request of reader/258",
    ] {
        assert!(said.contains(words), "'{words}' in: {said}");
    }
    assert!(!said.contains("idle loop"), "{said}");
    // From the interrupt, which had ended the idle state, to the switch to its thread.
    assert_eq!(explanation.unexplained_ns.0, 132_000, "{explanation:#?}");
    assert_eq!(explanation.cause, "page fault");
    assert!(explanation.advice.contains("mapped file"), "{}", explanation.advice);
    window.mappings[0].of = Mapped::Memory("heap".to_owned());
    let of_heap = explained(&window, 200, 9400);
    assert!(of_heap.sentence.contains("page fault on heap, at address 0x5000"), "{}", of_heap.sentence);
    assert!(of_heap.advice.contains("swapped out"), "{}", of_heap.advice);
}

/// A thread woken at the exit of an interrupt is not woken by the interrupted task.
#[test]
fn an_interrupted_thread_is_not_taken_for_the_waker_of_the_interrupts_thread() {
    let busy = FAULT.replace("worker/259@50:D > idle", "worker/259@50:D > innocent/9");
    let busy = busy.replace("switch idle:R > irq/26", "switch innocent/9:R > irq/26");
    // On an emulated CPU the way out is long.
    let slow = busy.replace("9010 c1 irq-", "9002 c1 irq-").replace("9018 c1", "9148 c1");
    for events in [busy, slow] {
        let explanation = explained(&notation::window(&events), 200, 9400);
        let told = format!("{} {:?}", explanation.sentence, explanation.tree);
        assert!(explanation.sentence.contains("until hard IRQ 26"), "{}", explanation.sentence);
        assert!(!told.contains("until innocent") && !told.contains("innocent/9 (nice 0) runs"), "{told}");
    }
}

/// Unless pinned, it runs where its interrupt is delivered.
#[test]
fn the_thread_of_an_interrupt_is_kept_from_an_idle_cpu_by_the_interrupts_affinity() {
    let behind = FAULT
        .replace("20 c0 disk+ 777", "20 c0 disk+ 777\n 30 c0 switch reader/258:S > idle")
        .replace("worker/259@50:D > idle", "worker/259@50:D > hog/300@70")
        .replace("9150 c1 switch idle:R >", "9150 c1 switch hog/300@70:S >")
        .replace("9000 c1", "1000 c1")
        .replace("9010 c1", "1010 c1")
        .replace("9018 c1", "1018 c1")
        .replace("9501 c0 switch reader/258:R > idle", "9501 c0 switch idle > reader/258");
    let explanation = explained(&notation::window(&behind), 200, 9400);
    let told = format!("{} {:?}", explanation.sentence, explanation.tree);
    assert!(
        told.contains(
            "while CPU 0 was idle: its affinity is that of the interrupt (/proc/irq/26/smp_affinity)"
        ),
        "{told}"
    );
    assert!(!explanation.sentence.contains("pinned"), "{told}");
}

#[test]
fn a_waiter_that_spins_for_a_mutex_and_never_blocks_is_seen() {
    let window = notation::window(
        "
         0 c0 switch idle > holder/257@10
       100 c1 switch idle > worker/259@50
       300 c1 call 202 4096 134
       310 c1 setprio holder/257 50
      4300 c1 ret 202
      4400 c1 call 202 4096 135
      4410 c1 ret 202
      4500 c1 switch worker/259@50:S > idle
      4510 c0 switch holder/257@10:S > idle
        ",
    );
    let explanation = explained(&window, 200, 4450);
    let said = &explanation.sentence;
    assert!(said.contains("spun 4.000 ms") && said.contains("holder/257"), "{said}");
    assert!(explanation.cause.contains("PI mutex"), "{}", explanation.cause);
    // An uncontended mutex costs only a call.
    let uncontended = notation::window(
        "
       100 c1 switch idle > worker/259@50
       300 c1 call 202 4096 134
       380 c1 ret 202
       500 c1 switch worker/259@50:S > idle
        ",
    );
    let said = explained(&uncontended, 200, 450).sentence;
    assert!(!said.contains("spun"), "{said}");
}

/// Softirqs are preempted there like any thread: their parts before and after belong together.
#[test]
fn a_softirq_that_loses_the_cpu_in_its_midst_goes_on_when_its_thread_does() {
    let window = notation::window(
        "
         0 c1 switch worker/259@50:S > hog/9@40
       100 c1 soft-raise TIMER
       110 c1 waking ktimers/1/28@1
       900 c1 switch hog/9@40:S > ktimers/1/28@1
       910 c1 soft+ TIMER
       950 c1 switch ktimers/1/28@1:R > other/8@30
       980 c1 switch other/8@30:S > ktimers/1/28@1
       990 c1 waking worker/259@50 c1
       995 c1 soft- TIMER
      1000 c1 switch ktimers/1/28@1:R > worker/259@50
      1100 c1 switch worker/259@50:S > idle
        ",
    );
    let explanation = explained(&window, 50, 1050);
    let said = &explanation.sentence;
    assert!(said.contains("softirq TIMER was deferred to ktimers/1/28 (RT 1)"), "{said}");
    assert!(said.contains("occupied by hog/9 (RT 40) (priority inversion"), "{said}");
    assert_eq!(explanation.unexplained_ns.0, 0, "{explanation:#?}");
}

/// An idle CPU omits events: the thread is seen running again right after its own switch-out.
#[test]
fn a_thread_that_runs_behind_its_own_switch_out_was_switched_in_unseen() {
    let window = notation::window(
        "
         0 c1 switch idle > worker/259@50
       100 c1 switch worker/259@50:S > idle
       110 c0 switch idle > giver/60@40
       250 c0 waking worker/259@50 c1
       300 c1 runs worker/259@50
       400 c1 switch worker/259@50:S > idle
       410 c0 switch giver/60@40:S > idle
        ",
    );
    let explanation = explained(&window, 50, 400);
    let runs: Vec<_> =
        explanation.tree.children.iter().filter(|part| part.label.contains(" runs on CPU 1")).collect();
    assert_eq!(runs.len(), 2, "{explanation:#?}");
    assert!(runs[1].begin == Mono(300_000) && runs[1].inferred, "{explanation:#?}");
}
