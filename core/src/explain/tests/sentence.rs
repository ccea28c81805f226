//! The sentence of an interval, and its cause.

use super::wakers::expect;

/// `rt/50` sleeps 150 ms and then waits 5 ms behind one of its priority.
const SLEEPS_LONG: &str = "
         0 c1 switch idle > rt/50@50
        10 c1 call 230 1
        15 c1 arm 150000
        20 c1 switch rt/50@50:S > other/70@50
    150000 c1 vec+ local_timer
    150001 c1 timer+ hrtimer_wakeup 150000 150001
    150002 c1 waking rt/50@50
    150003 c1 timer-
    150004 c1 vec- local_timer
    155000 c1 switch other/70@50:S > rt/50@50
    155010 c1 switch rt/50@50:S > idle
";

#[test]
fn what_came_on_top_of_a_long_sleep_is_told_and_is_the_cause() {
    let said = ["slept 149.980 ms", "waited 4.996 ms (3 %) for CPU 1, occupied by other/70"];
    let told = expect(SLEEPS_LONG, (5, 155_005), &said, &["slept as long as it requested"]);
    assert_eq!(told.cause, "thread: other");
    // The way to the CPU that every wake-up has is neither.
    let short = SLEEPS_LONG.replace("155000 c1", "150090 c1");
    let told = expect(&short, (5, 150_095), &["slept as long as it requested"], &["waited"]);
    assert_eq!(told.cause, "its own sleep");
}

/// 40 threads have the CPU for 1 ms each.
#[test]
fn many_small_causes_are_added_up_and_none_of_them_stands_for_all() {
    let mut events = "0 c1 switch idle > work/100@60\n 10 c1 waking rt/50@20\n".to_owned();
    for turn in 1..40 {
        let (at, last) = (turn * 1_000, 99 + turn);
        events += &format!("{at} c1 switch work/{last}@60:S > work/{}@60\n", last + 1);
    }
    events += "40000 c1 switch work/139@60:S > rt/50@20\n 41500 c1 switch rt/50@20:S > idle";
    let said = ["39 more causes took 38.990 ms (94 %) together"];
    let told = expect(&events, (10, 41_500), &said, &[]);
    assert_eq!(told.cause, "thread: work and 39 more");
}

#[test]
fn of_a_chain_of_mutexes_the_one_that_has_all_others_wait_is_blamed() {
    let chain = "
         0 c1 switch idle > deep/70
       100 c1 switch deep/70:R > middle/60@30
       200 c1 call 202 8192 6
       205 c1 setprio deep/70 30
       210 c1 switch middle/60@30:S > deep/70@30
       300 c1 switch deep/70@30:R > rt/50@80
       310 c1 call 202 4096 6
       315 c1 setprio middle/60@30 80
       316 c1 setprio deep/70 80
       320 c1 switch rt/50@80:S > deep/70@80
      4700 c1 call 202 8192 7
      4710 c1 waking middle/60@80
      4720 c1 switch deep/70:R > middle/60@80
      4725 c1 ret 202
      5700 c1 call 202 4096 7
      5710 c1 waking rt/50@80
      5720 c1 switch middle/60@30:R > rt/50@80
      5725 c1 ret 202
      5800 c1 switch rt/50@80:S > idle
    ";
    let told = expect(chain, (305, 5_730), &["held by middle/60", "held by deep/70"], &[]);
    assert_eq!(told.cause, "PI mutex of deep");
    assert!(told.advice.contains("critical section of deep"), "{}", told.advice);
}

/// Who runs while real-time threads are throttled is not to blame, however many they are.
#[test]
fn throttling_is_one_cause_whoever_ran_meanwhile() {
    let throttled = "
          0 c1 switch idle > rt/50@40
      18000 c1 switch rt/50@40:R > cc/70
      26000 c1 switch cc/70:R > ld/71
      34000 c1 switch ld/71:R > as/72
      42000 c1 vec+ local_timer
      42001 c1 timer+ sched_rt_period_timer 42000 42001
      42003 c1 timer-
      42004 c1 vec- local_timer
      42010 c1 switch as/72:R > rt/50@40
      42500 c1 switch rt/50@40:S > idle
    ";
    let said = ["could not run for 24.0", "RT bandwidth: sched_rt_period_timer ends it", "cc/70", "ld/71"];
    let told = expect(throttled, (10_000, 42_100), &said, &["waited"]);
    assert_eq!(told.cause, "RT throttling");
}

/// The waiting thread requested its own timeout, but not that of another thread.
#[test]
fn the_timeout_of_another_thread_is_a_cause() {
    let events = "
         0 c1 switch idle > rt/50@50
         0 c0 switch idle > slow/60
        10 c0 call 45 3
        15 c0 switch slow/60:S > idle
        20 c1 call 0 3
        25 c1 switch rt/50@50:S > idle
      9000 c0 soft+ TIMER
      9001 c0 wheel+ process_timeout
      9002 c0 waking slow/60
      9003 c0 wheel-
      9004 c0 soft- TIMER
      9010 c0 switch idle > slow/60
      9020 c0 waking rt/50@50
      9030 c1 switch idle > rt/50@50
      9100 c1 switch rt/50@50:S > idle
      9100 c0 switch slow/60:S > idle
    ";
    let told =
        expect(events, (22, 9_050), &["slow/60 (nice 0) waited 8.977 ms"], &["as long as it requested"]);
    assert_eq!(told.cause, "timeout of slow");
    let own = events.replace("slow/60", "x/1").replace("rt/50@50", "slow/60").replace("x/1", "rt/50@50");
    let own = own.replace(" c0", " c2").replace(" c1", " c0").replace(" c2", " c1");
    assert_eq!(expect(&own, (12, 9_015), &["as long as it requested"], &[]).cause, "its own timeout");
}

const FROZEN: &str = "
      0 c1 switch idle > rt/50@50
      0 c0 switch idle > boss/60
     10 c1 call 230 1
     20 c1 switch rt/50@50:S > idle
     90 c0 call 1 7
    100 c0 waking rt/50@50
    110 c1 switch idle > rt/50@50
    112 c1 ret 230
    115 c1 switch rt/50@50:D > idle
    130 c0 ret 1
   7000 c0 call 1 7
   7010 c0 waking rt/50@50
   7020 c1 switch idle > rt/50@50
   7030 c0 ret 1
   7900 c1 switch rt/50@50:S > idle
";

#[test]
fn a_thread_that_its_cgroups_freezer_stops_does_not_wait_for_who_thaws_it() {
    let said = [
        "was stopped as the freezer of its cgroup does it, by boss/60 (nice 0) for 6.895 ms",
        "until boss/60",
    ];
    let told = expect(FROZEN, (50, 7_500), &said, &["let it hand over", "until boss/60 (nice 0) woke it"]);
    assert_eq!(told.cause, "stopped");
    // One that asked for something since waits for it; one that was woken by no write was not frozen.
    for other in [
        FROZEN.replace("115 c1", "113 c1 call 0 7\n 115 c1"),
        FROZEN.replace("90 c0 call 1 7", "90 c0 call 202 7"),
    ] {
        expect(&other, (50, 7_500), &["until boss/60 (nice 0) woke it"], &["freezer"]);
    }
}

#[test]
fn a_handler_of_a_signal_is_told_with_who_sent_it() {
    let handled = "
          0 c1 switch idle > rt/50@50
          0 c0 switch idle > boss/60
        100 c0 signal rt/50@50 10
       6100 c1 call 15 0
       6900 c1 switch rt/50@50:S > idle
    ";
    let said = ["ran 6.850 ms (100 %) itself, up to 6.000 ms of it in the handler of signal 10 (SIGUSR1) from boss/60"];
    let told = expect(handled, (50, 6_900), &said, &[]);
    assert_eq!(told.cause, "its own signal handler");
    let taken = handled.replace("6100 c1 call", "600 c1 delivered 10\n 6100 c1 call");
    let said = ["itself, 5.500 ms of it in the handler of signal 10 (SIGUSR1) from boss/60"];
    expect(&taken, (50, 6_900), &said, &[]);
    for other in
        [handled.replace("rt/50@50 10", "other/70 10"), handled.replace("6100 c1 call 15", "6100 c1 call 16")]
    {
        assert_eq!(expect(&other, (50, 6_900), &[], &["handler"]).cause, "its own running");
    }
}

/// memory.high: the kernel sleeps on the way back to the program, after the call's exit.
#[test]
fn a_pause_of_the_kernel_for_memory_is_not_the_threads_own_timeout() {
    let events = |before: &str, state: &str| {
        format!(
            "
          0 c0 switch idle > rt/50@95
         10 c0 call 0 3
         20 c0 ret 0 64
         {before}
         30 c0 switch rt/50@95:{state} > idle
       9000 c0 soft+ TIMER
       9001 c0 wheel+ process_timeout
       9002 c0 waking rt/50@95
       9003 c0 wheel-
       9004 c0 soft- TIMER
       9010 c0 switch idle > rt/50@95
       9100 c0 switch rt/50@95:S > idle
        "
        )
    };
    let held = expect(
        &events("", "D"),
        (25, 9050),
        &["the kernel paused it for 8.9", "memory.high"],
        &["its own timeout"],
    );
    assert_eq!(held.cause, "throttled memory of the cgroup");
    let faulted = expect(
        &events("25 c0 fault 8192", "D"),
        (22, 9050),
        &["in a page fault or after it"],
        &["its own timeout"],
    );
    assert_eq!(faulted.cause, "pause of the kernel for memory");
    expect(&events("", "S"), (25, 9050), &["its own timeout"], &["memory.high"]);
    expect(
        &events("", "D").replace("call 0 3", "call 600").replace("ret 0 64", "ret 600"),
        (25, 9050),
        &["its own timeout"],
        &["memory.high"],
    );
}

/// A lock that was asked for with a timeout: the thread did not ask for a sleep.
#[test]
fn a_futex_that_nobody_woke_in_time_is_told_with_who_woke_it_later() {
    let events = "
         0 c0 switch idle > rt/50@95
         0 c1 switch idle > owner/60
        10 c0 call 202 4096 9 2
        12 c0 arm 5000
        20 c0 switch rt/50@95:S > idle
      5000 c0 vec+ local_timer
      5001 c0 timer+ hrtimer_wakeup 5000
      5002 c0 waking rt/50@95
      5003 c0 timer-
      5004 c0 vec- local_timer
      5010 c0 switch idle > rt/50@95
      5020 c0 ret 202 -110
      9002 c1 call 202 4096 1
      9010 c1 ret 202
      9900 c0 switch rt/50@95:S > idle
      9900 c1 switch owner/60:S > idle
    ";
    let said = ["until its own timeout: owner/60 (nice 0) woke that futex 4.002 ms later"];
    expect(events, (5, 5_050), &said, &["as requested", "as it requested"]);
    let other = events.replace("call 202 4096 1", "call 202 8192 1");
    expect(
        &other,
        (5, 5_050),
        &["no wake of that futex is recorded within 4.9"],
        &["owner/60 (nice 0) woke"],
    );
}

#[test]
fn a_thread_that_was_preempted_when_its_cgroup_was_frozen_was_neither_kicked_nor_woken() {
    let events = "
         0 c1 switch idle > rt/50@30
        90 c1 waking boss/60@40 c1
       100 c1 switch rt/50@30:R > boss/60@40
       110 c1 call 1 5
      1000 c1 ret 1
      1010 c1 switch boss/60@40:S > rt/50@30
      1015 c1 switch rt/50@30:D > idle
      6990 c1 waking boss/60@40 c1
      7000 c1 switch idle > boss/60@40
      7010 c1 call 1 5
      7020 c1 waking rt/50@30
      7030 c1 ret 1
      7040 c1 switch boss/60@40:S > rt/50@30
      7900 c1 switch rt/50@30:S > idle
    ";
    let said = ["was stopped as the freezer of its cgroup does it, by boss/60 (RT 40) for 6.005 ms"];
    assert_eq!(expect(events, (50, 7_500), &said, &["let it hand over"]).cause, "stopped");
    let asleep = events.replace("110 c1 call 1 5", "110 c1 call 202 7");
    expect(&asleep, (50, 7_500), &["until boss/60 (RT 40) woke it"], &["freezer"]);
}

#[test]
fn timers_of_the_kernel_are_told_with_their_purpose() {
    let events = "
         0 c0 switch idle > rt/50@50
        10 c0 call 17 3
        20 c0 switch rt/50@50:D > idle
      9000 c0 soft+ TIMER
      9001 c0 wheel+ throtl_pending_timer_fn
      9002 c0 waking rt/50@50
      9003 c0 wheel-
      9004 c0 soft- TIMER
      9010 c0 switch idle > rt/50@50
      9100 c0 switch rt/50@50:S > idle
    ";
    let told = expect(
        events,
        (15, 9_050),
        &["the I/O limit of the cgroup, which holds requests back (throtl_pending_timer_fn"],
        &[],
    );
    assert_eq!(told.cause, "I/O limit of the cgroup");
}
