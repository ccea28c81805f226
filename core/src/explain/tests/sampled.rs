//! Own time in a record of the flight ring, which has no system calls but those in which threads blocked.

use super::notation::window;
use super::told;
use crate::trace::window::Window;

fn ran(events: &str) -> (String, String, String) {
    let begin = "0 c1 switch other/60:S > control/50@80\n";
    let end = "3200 c1 switch control/50@80:S > idle\n";
    let window =
        Window { only_blocking_calls: true, is_selective: true, ..window(&format!("{begin}{events}{end}")) };
    let told = told(&window, 100, 3_100);
    (told.sentence, told.advice, told.cause)
}

#[test]
fn interrupts_show_the_system_call_of_the_threads_own_time() {
    let tick = |at: u32, what: &str| {
        format!("{at} c1 vec+ local_timer\n{} c1 {what}\n{} c1 vec- local_timer\n", at + 1, at + 3)
    };
    let (sentence, advice, cause) = ran(&(tick(1_000, "in-call 9") + &tick(2_000, "in-call 9")));
    assert!(
        sentence
            .contains("ran 2.994 ms (100 %) itself; each of 2 interrupts found it in the system call mmap"),
        "{sentence}"
    );
    assert!(advice.contains("first the system call mmap"), "{advice}");
    assert_eq!(cause, "its own running");
    let (sentence, advice, _) = ran(&(tick(1_000, "in-call 9") + &tick(2_000, "in-call")));
    assert!(
        !sentence.contains("mmap") && advice.contains("its system calls are not recorded"),
        "{sentence}: {advice}"
    );
}

#[test]
fn a_thread_found_in_futex_spins_for_the_owner_of_a_lock() {
    let tick = |at: u32| {
        format!("{at} c1 vec+ local_timer\n{} c1 in-call 202\n{} c1 vec- local_timer\n", at + 1, at + 3)
    };
    let (_, advice, cause) = ran(&(tick(1_000) + &tick(2_000)));
    assert_eq!(cause, "a lock whose owner runs, or its own code");
    assert!(advice.contains("shorten what is done with that lock"), "{advice}");
}

/// 230 is clock_nanosleep, with a timer in the past.
#[test]
fn the_timer_of_a_sleep_that_is_over_says_nothing_of_the_rest() {
    let own = |at: u32| {
        let expiry = format!("{} c1 timer+ hrtimer_wakeup {at}\n{} c1 timer-", at + 2, at + 3);
        format!(
            "{at} c1 vec+ local_timer\n{} c1 in-call 230\n{expiry}\n{} c1 vec- local_timer\n",
            at + 1,
            at + 4
        )
    };
    let (sentence, advice, _) = ran(&(own(1_000) + &own(2_000)));
    assert!(
        !sentence.contains("clock_nanosleep") && !advice.contains("clock_nanosleep"),
        "{sentence}: {advice}"
    );
}

#[test]
fn interrupts_show_page_faults_where_the_threads_own_time_was() {
    let tick = |at: u32, what: &str| {
        format!("{at} c1 vec+ local_timer\n{} c1 {what}\n{} c1 vec- local_timer\n", at + 1, at + 3)
    };
    let in_faults = tick(1_000, "in-call -2") + &tick(2_000, "in-call -2");
    let (sentence, advice, cause) = ran(&in_faults);
    let said = "itself; each of 2 interrupts found it at an instruction that caused a page fault";
    assert!(sentence.contains(said), "{sentence}");
    assert!(advice.contains("mlockall") && cause == "page faults or its own code", "{cause}: {advice}");
    // Half of them are not most.
    let (sentence, _, cause) = ran(&(tick(1_000, "in-call -2") + &tick(2_000, "in-call")));
    assert!(!sentence.contains("page fault") && cause == "its own running", "{cause}: {sentence}");
}

#[test]
fn a_handler_without_a_recorded_end_is_possible_and_not_certain() {
    let (sentence, _, cause) = ran("600 c1 handler 10\n");
    let said = "ran 3.000 ms (100 %) itself, up to 2.500 ms of it in the handler of signal 10 (SIGUSR1), whose end is not recorded";
    assert!(sentence.contains(said), "{sentence}");
    assert_eq!(cause, "signal handler or its own code");
    let (sentence, _, cause) = ran("2900 c1 handler 10\n");
    assert!(
        !sentence.contains("handler") && cause == "its own running",
        "too late for most of it: {sentence}"
    );
}
