//! Waits that went on after a waking: the last waker ended them.

use super::wakers::expect;

/// `rt` waits for a condition (glibc alternates between two words); `noisy` wakes it once without it, `giver` computes and
/// makes it true.
const CONDITION: &str = "
      0 c1 switch idle > rt/50@80
      0 c0 switch idle > giver/60@40
    100 c1 call 202 4096 393 0
    110 c1 switch rt/50@80:S > idle
    500 c0 switch giver/60@40:R > noisy/70@60
    505 c0 waking rt/50@80 c1
    510 c0 switch noisy/70@60:S > giver/60@40
    512 c1 switch idle > rt/50@80
    520 c1 ret 202
    530 c1 call 202 4100 393 0
    540 c1 switch rt/50@80:S > idle
    890 c0 call 202 4100 129
    900 c0 waking rt/50@80 c1
    905 c1 switch idle > rt/50@80
    910 c1 ret 202
   1000 c1 switch rt/50@80:S > idle
   1000 c0 switch giver/60@40:S > idle
";
const INTERVAL: (u64, u64) = (90, 950);
const UNSURE: &str = "whether its waking ended the wait is not certain: the trace lost events";

#[test]
fn who_wakes_a_thread_that_waits_for_the_same_again_did_not_end_its_wait() {
    let said =
        ["where noisy/70 (RT 60) woke it in vain: it waited there again", "giver/60 (RT 40) ran for 750 µs"];
    let explanation = expect(CONDITION, INTERVAL, &said, &["woken by noisy", "noisy depends"]);
    assert_eq!(explanation.cause, "waited for: giver");
    // In one word: a semaphore, whose count another thread took.
    let one = CONDITION.replace("4100", "4096");
    expect(&one, INTERVAL, &said, &["woken by noisy"]);
    // Descriptors that are polled, with and without a return from the call.
    let polls = CONDITION
        .replace("call 202 4096 393 0", "call 7 8192 2")
        .replace("call 202 4100 393 0", "call 7 8192 2");
    let polls = polls.replace("ret 202", "ret 7 1").replace("call 202 4100 129", "call 1 9");
    expect(&polls, INTERVAL, &said, &["until noisy"]);
    let inside = polls.replace("520 c1 ret 7 1", "").replace("530 c1 call 7 8192 2", "");
    expect(&inside, INTERVAL, &said, &["until noisy"]);
}

#[test]
fn the_holders_of_a_lock_and_the_senders_of_what_was_consumed_ended_the_first_wait() {
    let unsaid = ["in vain"];
    // A mutex that another thread took before the woken one, and a lock for readers or writers.
    for value in ["2", "3"] {
        let lock = CONDITION.replace("4096 393 0", &format!("4096 128 {value}"));
        let lock = lock.replace("4100 393 0", &format!("4096 128 {value}"));
        expect(&lock, INTERVAL, &["noisy/70 (RT 60)", "giver/60 (RT 40)"], &unsaid);
    }
    let reads =
        CONDITION.replace("call 202 4096 393 0", "call 0 3").replace("call 202 4100 393 0", "call 0 3");
    let reads = reads.replace("ret 202", "ret 0 1").replace("call 202 4100 129", "call 1 9");
    expect(&reads, INTERVAL, &["until noisy/70 (RT 60) woke it", "until giver/60 (RT 40) woke it"], &unsaid);
    // Work on what came first, or a call of its own, in between.
    let worked = CONDITION.replace("530 c1", "640 c1").replace("540 c1", "650 c1");
    expect(&worked, INTERVAL, &["woken by noisy", "released by giver"], &unsaid);
    let called = CONDITION.replace("530 c1", "522 c1 call 1 9\n 524 c1 ret 1\n 530 c1");
    expect(&called, INTERVAL, &["woken by noisy"], &unsaid);
    // It released the later waker itself.
    let released = CONDITION.replace("530 c1", "525 c1 waking giver/60@40 c0\n530 c1");
    expect(&released, INTERVAL, &["woken by noisy"], &unsaid);
}

/// As [`CONDITION`], with a read that a signal of noisy interrupts.
fn interrupted_reads() -> String {
    let reads =
        CONDITION.replace("call 202 4096 393 0", "call 0 3").replace("call 202 4100 393 0", "call 0 3");
    let reads = reads.replace("520 c1 ret 202", "520 c1 ret 0 -512\n522 c1 call 15\n524 c1 ret 15");
    reads.replace("910 c1 ret 202", "910 c1 ret 0 1").replace("call 202 4100 129", "call 1 9")
}

#[test]
fn a_call_that_a_signal_interrupts_and_that_is_made_again_is_one_wait() {
    let reads = interrupted_reads();
    let said = ["in read, where noisy/70 (RT 60) woke it in vain", "until giver/60 (RT 40) woke it"];
    expect(&reads, INTERVAL, &said, &["until noisy"]);
    let other = reads.replace("530 c1 call 0 3", "530 c1 call 0 4");
    expect(&other, INTERVAL, &["until noisy/70 (RT 60) woke it"], &["in vain"]);
    // A sleep goes on until its timer.
    let sleeps = reads.replace("call 0 3", "call 230 1 1").replace("ret 0 -512", "ret 230 -4");
    let sleeps = sleeps.replace("110 c1", "105 c1 arm 900\n110 c1");
    let sleeps = sleeps.replace("540 c1", "535 c1 arm 900\n540 c1");
    let sleeps = sleeps.replace("890 c0 call 1 9", "").replace(
        "900 c0 waking rt/50@80 c1",
        "900 c1 vec+ local_timer\n901 c1 timer+ hrtimer_wakeup 900\n902 c1 waking rt/50@80 c1\n903 c1 timer-\n904 c1 vec- local_timer",
    );
    let explanation = expect(&sleeps, INTERVAL, &["slept 755"], &["noisy", "giver"]);
    assert!(!explanation.cause.contains("noisy"), "{}", explanation.cause);
}

/// The frozen thread makes no call between its interrupted read and the next one: nothing is missing there.
#[test]
fn a_read_that_a_stop_interrupts_goes_on_after_it() {
    let stopped = |how: &str| {
        let events = CONDITION.replace("100 c1 call 202 4096 393 0", "100 c1 call 0 3");
        let events = events.replace("530 c1 call 202 4100 393 0\n    540 c1", "715 c1");
        let events =
            events.replace("910 c1 ret 202", "910 c1 ret 0 1").replace("call 202 4100 129", "call 1 9");
        events.replace(
            "    520 c1 ret 202\n",
            &format!(
                "    520 c1 ret 0 -512
             525 c1 switch rt/50@80:{how} > idle
             695 c0 switch giver/60@40:R > noisy/70@60
             700 c0 waking rt/50@80 c1
             701 c0 switch noisy/70@60:S > giver/60@40
             705 c1 switch idle > rt/50@80
             710 c1 call 0 3\n"
            ),
        )
    };
    let said =
        ["in read, where noisy/70 (RT 60) woke it in vain", "until giver/60 (RT 40) woke it", "stopped"];
    expect(&stopped("T"), INTERVAL, &said, &["until noisy/70 (RT 60) woke it", UNSURE]);
    let freezer =
        stopped("S").replace("500 c0", "499 c0 switch giver/60@40:R > noisy/70@60\n500 c0 call 1 9\n#");
    let freezer = freezer.replace("700 c0", "698 c0 ret 1\n699 c0 call 1 9\n700 c0");
    expect(&freezer, INTERVAL, &said, &["until noisy/70 (RT 60) woke it", UNSURE]);
}

/// `events` where others were lost: two calls of another thread have no end.
pub(super) fn with_losses(events: &str) -> String {
    let others = "
          1 c2 switch idle > any/9
          2 c2 call 39
          3 c2 ret 39
        100 c2 call 39
        200 c2 call 39
        300 c2 call 39
    ";
    let mut lines: Vec<&str> =
        events.lines().chain(others.lines()).filter(|line| !line.trim().is_empty()).collect();
    lines.sort_by_key(|line| line.split_whitespace().next().unwrap().parse::<u32>().unwrap());
    lines.join("\n")
}

#[test]
fn a_signal_ends_no_wait_for_a_lock_and_its_handler_may_do_what_it_likes() {
    for (op, value) in [(128, 2), (134, 0)] {
        let lock = CONDITION.replace("4096 393 0", &format!("4096 {op} {value}"));
        let lock = lock.replace("4100 393 0", &format!("4096 {op} {value}"));
        let handler = "520 c1 ret 202 -512\n521 c1 call 1 9\n522 c1 ret 1\n527 c1 call 15\n528 c1 ret 15";
        let lock = lock.replace("520 c1 ret 202", handler);
        let said = ["where noisy/70 (RT 60) woke it in vain", "giver/60 (RT 40) ran for"];
        expect(&lock, INTERVAL, &said, &["held by noisy"]);
        // A handler that computes for long.
        let long = lock.replace("527 c1", "660 c1").replace("528 c1", "661 c1").replace("530 c1", "662 c1");
        let long = long.replace("540 c1", "664 c1");
        expect(&long, INTERVAL, &said, &["held by noisy"]);
        let without_return = long.replace("660 c1 call 15\n661 c1 ret 15", "");
        assert_ne!(long, without_return);
        expect(&without_return, INTERVAL, &said, &["held by noisy"]);
    }
}

#[test]
fn where_events_are_missing_nobody_ended_a_wait_that_may_have_gone_on() {
    let reads = interrupted_reads();
    let whole = with_losses(&reads);
    expect(&whole, INTERVAL, &["in read, where noisy/70 (RT 60) woke it in vain"], &["until noisy"]);
    let unsure = [UNSURE];
    for lost in [
        &["520 c1 ret 0 -512"][..],
        &["520 c1 ret 0 -512", "522 c1 call 15"],
        &["520 c1 ret 0 -512", "522 c1 call 15", "524 c1 ret 15"],
        &["520 c1 ret 0 -512", "530 c1 call 0 3"],
    ] {
        let thin = lost.iter().fold(whole.clone(), |text, line| text.replace(line, ""));
        expect(&thin, INTERVAL, &unsure, &["until noisy", "in vain"]);
    }
    // One such loss is certain by itself, in a record without others.
    for lost in ["520 c1 ret 0 -512", "530 c1 call 0 3"] {
        expect(&reads.replace(lost, ""), INTERVAL, &unsure, &["until noisy", "in vain"]);
    }
    // The result of the call shows that it was over; so does another call.
    let over =
        with_losses(&reads.replace("ret 0 -512", "ret 0 1").replace("522 c1 call 15\n524 c1 ret 15", ""));
    expect(&over, INTERVAL, &["until noisy/70 (RT 60) woke it"], &unsure);
    let moved_on = over.replace("520 c1 ret 0 1", "520 c1 call 1 9\n522 c1 ret 1");
    expect(&moved_on, INTERVAL, &["until noisy/70 (RT 60) woke it"], &unsure);
    // What it read may be missing, between two calls that do not consume anything.
    let polls = CONDITION.replace("call 202 4096 393 0", "call 7 8192 2");
    let polls = polls.replace("call 202 4100 393 0", "call 7 8192 2").replace("ret 202", "ret 7 1");
    expect(&with_losses(&polls), INTERVAL, &unsure, &["until noisy", "in vain"]);
}
