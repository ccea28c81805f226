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
