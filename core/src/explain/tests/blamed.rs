//! Attribution: a culprit has the CPU on which the thread is queued, and does what it is blamed for most of that time.

use super::wakers::expect;

#[test]
fn a_thread_waits_on_the_cpu_that_sched_wakeup_names() {
    // Woken by a thread of CPU 0; its wait is open at the end.
    let events = "
          0 c1 switch idle > hog/80@98
          0 c0 switch idle > waker/70
        100 c0 wakeup rt/50@95 c1
       9000 c0 switch waker/70:S > idle
      10000 c1 switch hog/80@98:S > other/81@97
    ";
    expect(events, (100, 10_000), &["hog/80 (RT 98)", "CPU 1"], &["throttling", "CPU 0 went idle"]);
}

/// Queued on CPU 0 behind `top`, and pulled to CPU 1 at a time that is not recorded.
const PULLED: &str = "
      0 c1 switch idle > fair/80
      0 c0 switch idle > top/70@99
    100 c0 waking rt/50@95 c0
    101 c0 wakeup rt/50@95 c0
    700 c1 switch fair/80:R > rt/50@95
   1100 c1 switch rt/50@95:S > fair/80
   2000 c0 switch top/70@99:S > idle
";

#[test]
fn who_runs_where_a_thread_is_pulled_to_did_not_keep_it_waiting() {
    let unsaid = ["fair/80 (nice 0), of lower priority", "not preempted", "throttling", "PREEMPT_RT"];
    expect(PULLED, (100, 700), &["unexplained"], &unsaid);
    // The migration shows when.
    let shown = PULLED.replace("700 c1 switch", "690 c1 migrate rt/50@95 0 1\n 700 c1 switch");
    expect(&shown, (100, 700), &["top/70 (RT 99)", "CPU 0"], &["throttling"]);
}

#[test]
fn without_a_timer_or_a_used_up_budget_nothing_is_called_throttling() {
    let events = "
          0 c1 switch idle > fair/80
          0 c0 switch idle > other/70
        100 c0 waking rt/50@95 c1
        600 c1 switch fair/80:S > fair2/81
       1100 c1 switch fair2/81:R > rt/50@95
       1200 c1 switch rt/50@95:S > fair2/81
    ";
    expect(events, (100, 1_100), &[], &["throttling", "budget"]);
}

#[test]
fn a_call_that_ends_at_once_is_not_where_the_thread_was_kept_waiting() {
    let events = "
          0 c1 switch idle > hog/80
         90 c1 call 1 1
        100 c0 waking rt/50@95 c1
        103 c1 ret 1 16
        550 c1 call 35 1
        600 c1 switch hog/80:R > rt/50@95
        700 c1 switch rt/50@95:S > hog/80
    ";
    expect(events, (100, 600), &["hog/80 (nice 0), of lower priority"], &["in write", "in nanosleep"]);
    let longer = events.replace("103 c1 ret", "500 c1 ret");
    expect(&longer, (100, 600), &["in write, with preemption off"], &[]);
}

#[test]
fn the_work_item_of_most_of_the_time_is_named() {
    let events = "
          0 c1 switch idle > kworker/80
         50 c1 work+ 1 vmstat_update
        100 c0 waking rt/50@95 c1
        103 c1 work- 1
        105 c1 work+ 2 slow_work
        600 c1 switch kworker/80:R > rt/50@95
        700 c1 switch rt/50@95:S > kworker/80
    ";
    expect(events, (100, 600), &["in work item slow_work"], &["vmstat_update"]);
}

/// 202 is futex; FUTEX_WAIT_REQUEUE_PI and FUTEX_WAIT, each private.
#[test]
fn a_condition_or_a_barrier_is_no_mutex() {
    let events = |wait: &str, wake: &str| {
        format!(
            "
          0 c1 switch idle > rt/50@95
         90 c1 call 202 4096 {wait}
        100 c1 switch rt/50@95:S > waker/80
        590 c1 call 202 4096 {wake}
        600 c1 waking rt/50@95 c1
        601 c1 switch waker/80:R > rt/50@95
        610 c1 ret 202
        700 c1 switch rt/50@95:S > waker/80
    "
        )
    };
    let any = ["(a lock, condition or semaphore without priority inheritance), released by waker/80"];
    let is_mutex = ["(PI)", "held by waker"];
    expect(&events("139 7", "140 1"), (90, 610), &any, &is_mutex);
    expect(&events("128 2", "129 2147483647"), (90, 610), &any, &is_mutex);
    expect(&events("128 2", "129 1"), (90, 610), &["without priority inheritance, held by waker"], &[]);
    expect(&events("134 0", "135 0"), (90, 610), &["held by waker"], &[]);
    // Signalled before, and then requeued to the mutex.
    expect(
        &events("139 7", "135 0"),
        (90, 610),
        &["a priority-inheritance (PI) mutex", "held by waker"],
        &[],
    );
}
