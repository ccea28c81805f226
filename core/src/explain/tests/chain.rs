//! The chain of waits: names, order and length, and what each wait was for.

use super::notation;
use super::told;
use super::wakers::expect;
use crate::explain::record::Record;
use crate::time::{Mono, Ns, Tid};

/// `rt` waits for `read` of a pipe that its child, created as `rt`, writes as `tool`.
const CHILD: &str = "
      0 c1 switch idle > rt/50@80
    100 c1 fork rt/50@80 rt/60
    101 c1 new rt/60 c0
    110 c1 call 0 3
    112 c1 switch rt/50@80:S > idle
    115 c0 switch idle > rt/60
    900 c0 waking rt/50@80 c1
    905 c1 switch idle > rt/50@80
    920 c0 switch tool/60:X > idle
   1000 c1 switch rt/50@80:S > idle
";

#[test]
fn a_thread_in_the_chain_has_the_name_that_it_had_then() {
    let unsaid = ["rt/60", "rt depends on rt"];
    let said = ["until tool/60 (nice 0) woke it", "tool/60 (nice 0) ran for", "rt depends on tool"];
    expect(CHILD, (105, 910), &said, &unsaid);
    // With the event of the change, from then on; before its own first run nobody has its name.
    let renamed = CHILD.replace("900 c0", "300 c0 rename 60 tool\n900 c0");
    let window = notation::window(&renamed);
    let record = Record::new(&window);
    let name = |us: u64| record.thread_by_id(Tid(60), Mono(us * 1_000)).comm;
    assert_eq!([name(50), name(100), name(299), name(950)], ["tool"; 4]);
    // A name that it had for long was its name.
    let late = CHILD.replace(
        "900 c0",
        "300 c0 other x\n120100 c0 rename 60 tool\n120200 c0 switch tool/60:X > idle\n900 c0",
    );
    let window = notation::window(&late);
    let record = Record::new(&window);
    let name = |us: u64| record.thread_by_id(Tid(60), Mono(us * 1_000)).comm;
    assert_eq!(name(950), "tool", "no event with the old name after its first run");
}

/// As a program that exec starts: its first µs on the CPU have its old name.
#[test]
fn who_holds_the_cpu_has_the_name_with_which_it_leaves_it() {
    let renamed = "
          0 c1 switch idle > before/60@99
        100 c1 waking rt/50@80 c1
        200 c1 vec+ local_timer
        210 c1 vec- local_timer
        250 c1 rename 60 after
        400 c1 vec+ local_timer
        410 c1 vec- local_timer
        900 c1 switch after/60@99:S > rt/50@80
       1000 c1 switch rt/50@80:S > idle
    ";
    expect(renamed, (105, 910), &["after/60 (RT 99), of equal or higher priority"], &["before"]);
    // Also if its next run has another name again.
    let again =
        renamed.replace("1000 c1 switch rt/50@80:S > idle", "1000 c1 switch rt/50@80:S > third/60@99");
    expect(&again, (105, 910), &["after/60 (RT 99), of equal or higher priority"], &["before", "third"]);
}

#[test]
fn threads_of_one_name_are_told_apart_by_their_ids() {
    let same = CHILD.replace("tool/60", "rt/60");
    expect(&same, (105, 910), &["rt/50 depends on rt/60: shorten"], &["rt depends on rt"]);
}

/// `rt` joins `helper`, which ends; the C library waits for its id at the address, in a shared futex.
const JOIN: &str = "
      0 c0 switch idle > helper/60@40
      5 c1 switch idle > rt/50@80
    100 c1 call 202 4096 265 60
    110 c1 switch rt/50@80:S > idle
    890 c0 call 60 0
    900 c0 waking rt/50@80 c1
    905 c1 switch idle > rt/50@80
    920 c0 switch helper/60@40:X > idle
   1000 c1 switch rt/50@80:S > idle
";

#[test]
fn the_end_of_a_thread_that_is_joined_is_not_a_lock() {
    let said =
        ["in pthread_join (FUTEX_WAIT_BITSET 0x1000) until helper/60 (RT 40) woke it, which ended there"];
    expect(JOIN, (90, 950), &said, &["mutex", "a lock", "held by", "released by"]);
    // In a container, the program knows another id; older C libraries wait with FUTEX_WAIT.
    expect(&JOIN.replace("265 60", "0 7"), (90, 950), &["in pthread_join (FUTEX_WAIT 0x1000)"], &["a lock"]);
    // Without the call of the helper, its id is enough.
    expect(&JOIN.replace("890 c0 call 60 0", ""), (90, 950), &["in pthread_join"], &["a lock"]);
    // A private futex, a robust mutex with waiters, and a value released by a call of its holder are something else.
    for other in
        ["265 60", "137 60", "0 2147483708"].iter().zip(["call 202 4096 1", "call 60 0", "call 60 0"])
    {
        let events = JOIN.replace("265 60", other.0).replace("call 60 0", other.1);
        expect(&events, (90, 950), &["in futex"], &["pthread_join"]);
    }
}

#[test]
fn why_a_thread_stays_on_its_cpu_is_said_once() {
    let events = "
          0 c0 switch rcu/9 > idle
          0 c1 switch idle > rt/50@40
        100 c1 switch rt/50@40:R > hog/60@60
        400 c1 switch hog/60@60:S > rt/50@40
        500 c1 switch rt/50@40:R > pig/61@60
        800 c1 switch pig/61@60:S > rt/50@40
        900 c1 switch rt/50@40:S > idle
       1000 c0 switch idle > rcu/9
    ";
    let explanation = told(&notation::window(events), 10, 850);
    let sentence = &explanation.sentence;
    assert_eq!(sentence.matches("it must be pinned to CPU 1").count(), 1, "{sentence}");
    assert!(sentence.contains("hog/60 (RT 60), while CPU 0 was idle: it must"), "{sentence}");
    assert!(sentence.contains("occupied by pig/61 (RT 60), while CPU 0 was idle"), "{sentence}");
    assert!(!sentence.contains("{why}"), "{sentence}");
}

/// Thread 50 waits for 100, that for 101, and so on; the last of `threads` runs for 5 ms. Each wakes the one before it 10 µs
/// after it was woken.
fn waits(threads: u32) -> String {
    let mut events =
        "0 c1 switch idle > rt/50@80\n20 c1 call 0 3\n30 c1 switch rt/50@80:S > idle\n".to_owned();
    let (cpu, last) = (|n: u32| n + 2, threads - 1);
    for n in 0..threads {
        events += &format!("0 c{} switch idle > link/{}@40\n", cpu(n), 100 + n);
        if n < last {
            events += &format!("1 c{} call 0 3\n2 c{} switch link/{}@40:S > idle\n", cpu(n), cpu(n), 100 + n);
        }
    }
    let mut at = 5_000;
    for n in (0..threads).rev() {
        let (woken, on) =
            if n == 0 { ("rt/50@80".into(), 1) } else { (format!("link/{}@40", 99 + n), cpu(n - 1)) };
        events += &format!("{at} c{} waking {woken} c{on}\n{} c{on} switch idle > {woken}\n", cpu(n), at + 4);
        at += 10;
    }
    let mut lines: Vec<&str> = events.lines().collect();
    lines.sort_by_key(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap());
    lines.join("\n")
}

#[test]
fn a_long_chain_is_followed_to_its_end_and_says_what_it_leaves_out() {
    let explanation = told(&notation::window(&waits(12)), 10, 5_114);
    let sentence = &explanation.sentence;
    assert_eq!(explanation.unexplained_ns, Ns::ZERO, "{sentence}");
    assert!(sentence.contains("link/111 (RT 40) ran for"), "{sentence}");
    assert!(sentence.contains("7 more waits of the chain, which the tree shows; link/111"), "{sentence}");
    let deep = told(&notation::window(&waits(20)), 10, 5_194);
    assert_eq!(deep.cause, "unexplained", "{}", deep.sentence);
    let stops = "the chain of waits is followed through 16 threads, not beyond link/115 (RT 40)";
    assert!(
        deep.sentence.contains(stops) || deep.sentence.contains("not beyond link/116"),
        "{}",
        deep.sentence
    );
    assert!(
        deep.limits.iter().any(|limit| limit.starts_with("the chain of waits is followed")),
        "{:?}",
        deep.limits
    );
}

#[test]
fn waits_for_locks_of_the_kernel_nest() {
    let events = "
          0 c0 switch idle > holder/60@40
          0 c1 switch idle > rt/50@80
        100 c1 call 10 4096
        110 c1 lock+ 1 32
        150 c1 lock+ 2 1
        250 c1 lock- 2
        400 c1 switch rt/50@80:D > idle
        890 c0 call 11 4096
        900 c0 waking rt/50@80 c1
        905 c1 switch idle > rt/50@80
        906 c1 lock- 1
        920 c1 ret 10
       1000 c1 switch rt/50@80:S > idle
    ";
    let said = [
        "in mprotect on a mutex of the kernel, held by holder/60 (RT 40)",
        "it spun 190 µs (22 %) on the CPU for a mutex of the kernel (0x1)",
        "it spun 100 µs (12 %) on the CPU for a spinlock of the kernel (0x2)",
    ];
    let explanation = expect(events, (90, 950), &said, &[]);
    let at = |part: &str| explanation.sentence.find(part).unwrap();
    assert!(at("(0x1)") < at("(0x2)") && at("(0x2)") < at("held by"), "{}", explanation.sentence);
}

#[test]
fn what_a_wait_encloses_comes_after_it_also_if_it_came_before_as_well() {
    let events = "
          0 c0 switch idle > low/60@40
          0 c1 switch idle > rt/50@80
        100 c1 call 202 4096 128 2
        110 c1 switch rt/50@80:S > idle
        200 c0 waking rt/50@80 c1
        205 c1 switch idle > rt/50@80
        210 c1 ret 202
        300 c1 call 202 8192 128 2
        310 c1 switch rt/50@80:S > idle
        890 c0 call 202 8192 129 1
        900 c0 waking rt/50@80 c1
        905 c1 switch idle > rt/50@80
       1000 c1 switch rt/50@80:S > idle
    ";
    let sentence = told(&notation::window(events), 90, 950).sentence;
    let at = |part: &str| sentence.find(part).unwrap_or_else(|| panic!("{part}: {sentence}"));
    assert!(at("0x1000") < at("0x2000") && at("0x2000") < at("low/60 (RT 40) ran for 680 µs"), "{sentence}");
}

#[test]
fn the_sender_of_ipis_to_the_70th_cpu_is_named() {
    let events = "
          0 c0 switch idle > sender/60@40
          0 c70 switch idle > rt/50@80
        100 c0 ipis 1,69-70
        110 c70 vec+ reschedule
        800 c70 vec- reschedule
       1000 c70 switch rt/50@80:S > idle
    ";
    expect(events, (50, 950), &["vector reschedule (IPIs sent by sender/60 (RT 40): 1×)"], &[]);
}

#[test]
fn the_system_call_of_the_thread_that_is_waited_for_is_told() {
    let ends = CHILD.replace("900 c0 waking", "200 c0 call 231\n    900 c0 waking");
    expect(
        &ends,
        (105, 910),
        &["tool/60 (nice 0) ran for 785 µs", ", 700 µs of it in the system call exit_group"],
        &[],
    );
}
