//! Events lost without a word: the time is unknown, and nobody is blamed for it.

use super::notation;
use super::wakers::expect;
use crate::explain::record::Record;
use crate::time::{Mono, Ns};
use crate::trace::window::Window;

#[test]
fn a_waking_before_a_lost_switch_in_is_not_one_on_the_way_to_sleep() {
    let events = "
          0 c0 switch idle > hog/60
         10 c1 switch idle > rt/50@80
         50 c1 switch rt/50@80:S > other/70
        100 c0 waking rt/50@80 c1
        120 c1 call 0 3
        130 c1 switch rt/50@80:S > other/70
        900 c1 switch other/70:R > rt/50@80
       1000 c1 switch rt/50@80:S > idle
    ";
    let said = ["blocked in read: the waking is not recorded"];
    let explanation = expect(
        &events.replace("120 c1", "110 c1 runs rt/50@80\n120 c1"),
        (140, 950),
        &said,
        &["other/70 (nice 0)"],
    );
    assert_eq!(explanation.unexplained_ns, Ns::from_us(760));
}

/// Each waking ends a sleep: between two of them the thread ran and slept, unseen.
#[test]
fn a_thread_that_is_woken_twice_did_not_wait_for_the_cpu_in_between() {
    let events = |first: u64| {
        format!(
            "
          0 c0 switch idle > hog/60
         10 c1 switch idle > rt/50@80
         50 c1 switch rt/50@80:S > other/70@90
         {first} c0 waking rt/50@80 c1
        800 c0 waking rt/50@80 c1
        900 c1 switch other/70@90:S > rt/50@80
       1000 c1 switch rt/50@80:S > idle
            "
        )
    };
    let said = ["the activity of rt/50 (RT 80) is not recorded"];
    let explanation = expect(&events(100), (60, 950), &said, &[]);
    assert_eq!((explanation.cause.as_str(), explanation.unexplained_ns), ("unexplained", Ns::from_us(700)));
    let explanation = expect(&events(100), (200, 950), &said, &[]);
    assert_eq!(explanation.unexplained_ns, Ns::from_us(600), "the first one was before the interval");
    assert_eq!(expect(&events(790), (60, 950), &["occupied by other/70"], &[]).unexplained_ns, Ns::ZERO);
}

#[test]
fn an_idle_cpu_runs_no_thread_whose_switch_out_was_lost() {
    let events = "
          0 c0 switch idle > hog/60
         10 c1 switch idle > rt/50@80
        100 c1 idle+ 1
        600 c1 idle-
        610 c1 switch idle > rt/50@80
       1000 c1 switch rt/50@80:S > idle
    ";
    let said = ["CPU 1 was idle, and no switch of rt/50 (RT 80) away from it is recorded"];
    let explanation = expect(events, (50, 950), &said, &[]);
    assert_eq!(explanation.cause, "unexplained");
}

#[test]
fn the_way_of_a_packet_from_an_unknown_sender_starts_where_it_came() {
    let events = super::vain::with_losses(
        "
          0 c0 switch idle > hog/60
          0 c1 switch idle > rt/50@80
        100 c1 call 45 3
        110 c1 switch rt/50@80:S > idle
        300 c1 vec+ local_timer
        500 c1 vec- local_timer
        800 c1 soft+ NET_RX
        820 c1 received 5 eth0
        900 c1 waking rt/50@80 c1
        905 c1 soft- NET_RX
        910 c1 switch idle > rt/50@80
        920 c1 ret 45 10
       1000 c1 switch rt/50@80:S > idle
    ",
    );
    let said = ["the sender of the packet is not known: the trace lost events", "80.0", "softirq NET_RX"];
    let explanation = expect(&events, (105, 950), &said, &["local_timer"]);
    assert_eq!(explanation.unexplained_ns, Ns::from_us(710));
}

#[test]
fn a_waking_in_a_timer_interrupt_outside_its_timers_shows_a_loss() {
    let events = "
          0 c0 switch idle > hog/60
          0 c1 switch idle > rt/50@80
        100 c1 switch rt/50@80:S > other/70
        200 c1 vec+ local_timer
        201 c1 timer+ tick_nohz_handler
        202 c1 timer-
        203 c1 vec- local_timer
        900 c1 vec+ local_timer
        902 c1 waking rt/50@80 c1
        904 c1 vec- local_timer
        905 c1 switch other/70:R > rt/50@80
       1000 c1 switch rt/50@80:S > idle
    ";
    let said = ["the event of the timer that woke it is missing"];
    assert_eq!(expect(events, (50, 950), &said, &["waited for vector"]).cause, "unexplained");
    // A recording without timers has only the interrupt.
    let without = events.replace("201 c1 timer+ tick_nohz_handler", "").replace("202 c1 timer-", "");
    expect(&without, (50, 950), &["waited 802 µs (89 %) for vector local_timer"], &[]);
}

#[test]
fn the_owner_of_a_mutex_spun_for_is_the_thread_that_unlocks_it() {
    let events = "
          0 c0 switch idle > owner/60@90
         10 c1 switch idle > rt/50@80
        100 c1 call 202 4096 6
        300 c0 call 202 8192 7
        305 c0 ret 202
        700 c0 call 202 4096 7
        705 c0 ret 202
        710 c1 ret 202
       1000 c1 switch rt/50@80:S > idle
    ";
    let owner = "while its owner owner/60 (RT 90), which unlocks it in the end, runs";
    expect(events, (50, 950), &[owner], &[]);
    expect(
        &events.replace("700 c0 call 202 4096 7", "700 c0 call 202 8192 7"),
        (50, 950),
        &["while its owner runs"],
        &[],
    );
}

#[test]
fn a_spin_whose_end_was_lost_does_not_last_until_the_next_event() {
    let events = "
          0 c0 switch idle > hog/60
         10 c1 switch idle > rt/50@80
        100 c1 lock+ 1 1
        105 c1 lock- 1
        200 c1 lock+ 2 1
        900 c1 switch rt/50@80:R > hog/61@90
       1000 c1 switch hog/61@90:S > rt/50@80
    ";
    let whole = events.replace("900 c1", "300 c1 lock- 2\n900 c1");
    expect(&whole, (50, 950), &["it spun 100 µs (11 %) on the CPU for a spinlock of the kernel (0x2)"], &[]);
    let explanation = expect(events, (50, 950), &[], &["spins for"]);
    assert_eq!(explanation.cause, "its own running");
    // A recording without any ends.
    let without = events.replace("105 c1 lock- 1", "105 c1 call 39");
    expect(&without, (50, 950), &["(0x2)"], &[]);
}

#[test]
fn a_record_that_contradicts_itself_blames_nobody_by_the_absence_of_an_event() {
    let events = "
          0 c0 switch idle > hog/60
         10 c1 switch idle > rt/50@80
         20 c1 call 39
         30 c1 ret 39
         50 c1 switch rt/50@80:S > idle
        100 c0 waking rt/50@80 c1
        110 c1 switch idle > low/70
        900 c1 switch low/70:R > rt/50@80
       1000 c1 switch rt/50@80:S > idle
    ";
    let low = "where low/70 (nice 0), of lower priority, ran: not preempted";
    assert_eq!(expect(events, (20, 950), &[low], &["lost events"]).cause, "thread: low");
    // A recording without ends of calls has nothing to contradict.
    let starts = events.replace("30 c1 ret 39", "30 c1 call 39\n40 c1 call 39");
    assert_eq!(expect(&starts, (20, 950), &[low], &["lost events"]).cause, "thread: low");
    // Two other events contradict the ones before.
    let contradictory =
        events.replace("30 c1 ret 39", "25 c1 ret 39\n30 c1 call 39\n40 c1 call 39\n45 c1 call 39");
    let said = ["the trace lost events without reporting it: 2 contradictions in the interval"];
    assert_eq!(expect(&contradictory, (20, 950), &said, &[low]).cause, "unexplained");
}

/// A recorder of some threads leaves out the wakings of the others, and reports its own losses.
#[test]
fn a_recorder_of_some_threads_lacks_no_event_of_the_others() {
    let turns = "
          0 c1 switch idle > other/9
         20 c1 switch other/9:S > rt/50@80
         30 c1 call 3 1
         40 c1 call 3 1
         50 c1 switch rt/50@80:S > other/9
         60 c1 switch other/9:S > low/8
         70 c1 switch low/8:R > other/9
         75 c1 runs low/8
         80 c1 waking rt/50@80 c1
         90 c1 switch other/9:S > rt/50@80
        100 c1 switch rt/50@80:S > idle
    ";
    let lacks = |events: &str, is_selective: bool| {
        let window = Window { is_selective, ..notation::window(events) };
        Record::new(&window).lacks_events(Mono(0), Mono(200_000))
    };
    assert!(lacks(turns, false) && !lacks(turns, true));
    // The wakings of this thread are recorded elsewhere, but not these two.
    let without = turns.to_owned()
        + "110 c1 switch idle > rt/50@80\n120 c1 switch rt/50@80:S > idle\n130 c1 switch idle > rt/50@80\n";
    assert!(lacks(&without, true));
}
