//! Traces of old versions of lttng-modules, whose events differ from those of later ones.

use lathunt_core::explain::intervals::{find_realtime_wakeups, Whose};
use lathunt_core::time::Prio;
use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::event::Kind;
use lathunt_core::trace::item::{Item, Span};
use lathunt_core::trace::normalize::Normalizer;
use lathunt_core::trace::source::Source;

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
clock { name = monotonic; freq = 1000000000; offset = 0; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := ts_t;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { uint32_t magic; }; };
env { domain = \"kernel\"; tracer_name = \"lttng-modules\"; tracer_major = 2; tracer_minor = MINOR; tracer_patchlevel = PATCH; };
stream { event.header := struct { uint16_t id; ts_t timestamp; }; };
event { name = \"sched_wakeup\"; id = 0; fields := struct { int32_t _tid; int32_t _prio; int32_t _target_cpu; }; };
event { name = \"sched_switch\"; id = 1; fields := struct { int32_t _prev_tid; int32_t _prev_prio; int32_t _prev_state;
    int32_t _next_tid; int32_t _next_prio; }; };
";

/// A thread of real-time priority 59 is woken at 1 µs, and gets the CPU at 8 µs.
fn events(prio_of_wakeup: i32) -> Vec<u8> {
    let event = |id: u16, at: u64, fields: &[i32]| {
        let fields: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        [&id.to_le_bytes()[..], &at.to_le_bytes(), &fields].concat()
    };
    let magic = 0xc1fc_1fc1u32.to_le_bytes();
    [&magic[..], &event(0, 1_000, &[7, prio_of_wakeup, 0]), &event(1, 8_000, &[0, 20, 0, 7, -60])].concat()
}

#[test]
fn wake_ups_before_2_7_1_have_the_priority_of_the_kernel() {
    for (minor, patch, prio_of_wakeup) in [(0, 0, 40), (5, 3, 40), (7, 0, 40), (7, 1, -60), (13, 0, -60)] {
        let metadata = METADATA.replace("MINOR", &minor.to_string()).replace("PATCH", &patch.to_string());
        let events = events(prio_of_wakeup);
        let files = TraceFiles {
            name: "kernel".to_owned(),
            metadata: metadata.as_bytes(),
            streams: vec![("channel0_0".to_owned(), &events)],
            ..TraceFiles::default()
        };
        let ctf = Ctf::open(&[files]).unwrap();
        let (mut normalizer, mut walk) = (Normalizer::new(&ctf), ctf.events(Span::ALL));
        let mut prios = Vec::new();
        while let Some(item) = walk.next() {
            let Item::Event(record) = item else { panic!("{item:?}") };
            match normalizer.event(&record).kind {
                Kind::Wakeup { task, .. } | Kind::Switch { next: task, .. } => prios.push(task.prio),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(prios, [Some(Prio(40)); 2], "2.{minor}.{patch}");
        let found = find_realtime_wakeups(&ctf, &Whose::default());
        assert_eq!(found.intervals.first().map(|one| one.total().0), Some(7_000), "2.{minor}.{patch}");
    }
}
