//! CPU slices from events.

use super::notation;
use crate::explain::cpu::Context;
use crate::explain::record::Record;
use crate::time::{Cpu, Mono, Tid};

/// Contexts of CPU 1 up to `until` with their time in µs, each as often as it changes.
fn contexts(record: &Record, until: u64) -> Vec<(Context, u64)> {
    let mut found: Vec<(Context, u64)> = Vec::new();
    for slice in record.slices(Cpu(1), Mono(0), Mono(until * 1_000)) {
        let length = slice.length().0 / 1_000;
        match found.last_mut() {
            Some((context, sum)) if *context == slice.context => *sum += length,
            _ => found.push((slice.context, length)),
        }
    }
    found
}

const THREAD: Context = Context::Thread(Tid(50));

#[test]
fn an_interrupt_goes_on_behind_one_that_interrupted_it() {
    let nested = "
          0 c1 switch idle > rt/50@95
        100 c1 irq+ 30 slow
        200 c1 irq+ 23 quick
        210 c1 irq- 23
       5100 c1 irq- 30
       5200 c1 switch rt/50@95:S > idle
    ";
    let seen = |events: &str| contexts(&Record::new(&notation::window(events)), 5_200);
    let (slow, quick) = (Context::HardIrq(30), Context::HardIrq(23));
    let expected = [(THREAD, 100), (slow, 100), (quick, 10), (slow, 4_890), (THREAD, 100)];
    assert_eq!(seen(nested), expected);
    // Without its exit it is not known how long it was.
    let open = nested.replace("5100 c1 irq- 30", "");
    assert_eq!(seen(&open), [(THREAD, 100), (Context::Unknown, 100), (quick, 10), (Context::Unknown, 4_990)]);
    let inner = nested.replace("210 c1 irq- 23", "");
    assert_eq!(seen(&inner), [(THREAD, 100), (slow, 100), (Context::Unknown, 4_900), (THREAD, 100)]);
}

#[test]
fn what_one_buffer_lost_is_unknown_though_another_goes_on() {
    let events = "
             0 c1 switch idle > rt/50@95
          1000 c1 other marker
          2000 c1 irq+ 30 slow
          3000 c1 irq- 30
          8000 c1 irq+ 30 slow
          8100 c1 irq- 30
          9000 c1 lost 4 after 1500
          9500 c1 switch rt/50@95:S > idle
    ";
    let irq = |length| (Context::HardIrq(30), length);
    let lost = |length| (Context::Lost, length);
    let expected = [(THREAD, 1_500), lost(500), irq(1_000), lost(5_000), irq(100), lost(900), (THREAD, 500)];
    assert_eq!(contexts(&Record::new(&notation::window(events)), 9_500), expected);
}

#[test]
fn an_interrupt_whose_exit_was_lost_without_a_word_ends_where_the_thread_itself_acts() {
    let seen = |events: &str| contexts(&Record::new(&notation::window(events)), 3_000);
    let tick = Context::Vector(crate::trace::event::Vector::LocalTimer);
    let ends = |level: &str, act: &str| {
        seen(&format!(
            "
               0 c1 switch idle > rt/50@95
            1000 c1 vec+ local_timer ^{level}
            2000 c1 {act}
            2500 c1 vec+ local_timer ^hard
            2600 c1 vec- local_timer ^hard
            3000 c1 switch rt/50@95:S > idle
            "
        ))
    };
    let unknown = [(THREAD, 1_000), (Context::Unknown, 1_000), (THREAD, 500), (tick, 100), (THREAD, 400)];
    assert_eq!(ends("hard", "call 39"), unknown);
    assert_eq!(ends("hard", "other event ^thread"), unknown);
    // The same without its entry: it may have begun right after the last event of the thread.
    let exit = "0 c1 switch idle > rt/50@95\n1000 c1 other x ^hard\n2000 c1 vec- local_timer ^hard\n3000 c1 switch rt/50@95:S > idle";
    assert_eq!(seen(exit), [(Context::Unknown, 2_000), (THREAD, 1_000)]);
}

#[test]
fn a_timer_outside_any_recorded_interrupt_does_not_last_until_the_next_one() {
    let events = "
          0 c1 switch idle > rt/50@95
          5 c1 call 39
        100 c1 timer+ tick_nohz_handler
       1100 c1 vec+ local_timer
       1101 c1 timer+ tick_nohz_handler
       1102 c1 timer-
       1110 c1 vec- local_timer
       3000 c1 switch rt/50@95:S > idle
    ";
    let tick = Context::Vector(crate::trace::event::Vector::LocalTimer);
    let expected = [(THREAD, 100), (Context::Unknown, 1_000), (tick, 10), (THREAD, 1_890)];
    assert_eq!(contexts(&Record::new(&notation::window(events)), 3_000), expected);
}

#[test]
fn two_ticks_whose_exit_and_entry_were_lost_are_not_one_long_interrupt() {
    let events = "
          0 c1 switch idle > rt/50@95
       1000 c1 vec+ local_timer
       1001 c1 timer+ tick_nohz_handler
       1002 c1 timer-
       3001 c1 timer+ tick_nohz_handler
       3002 c1 timer-
       3010 c1 vec- local_timer
       4000 c1 switch rt/50@95:S > idle
    ";
    let tick = Context::Vector(crate::trace::event::Vector::LocalTimer);
    let expected = [(THREAD, 1_000), (tick, 2), (Context::Unknown, 1_999), (tick, 9), (THREAD, 990)];
    assert_eq!(contexts(&Record::new(&notation::window(events)), 4_000), expected);
}
