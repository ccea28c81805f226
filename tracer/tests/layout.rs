//! The shared memory has one layout, known in three places: the tracer's structures, the C header, and the consumer's
//! offsets.

use std::mem::{offset_of, size_of};

use lathunt_core::trace::user_ring as consumer;
use lathunt_tracer::layout::{self as tracer, Control, Packet, Ring};

type Word = std::sync::atomic::AtomicU64;

#[test]
fn the_consumer_knows_the_tracers_offsets() {
    macro_rules! same {
        ($($struct:ident.$field:ident = $offset:expr),* $(,)?) => {
            $(assert_eq!(offset_of!($struct<Word>, $field), $offset, stringify!($field));)*
        };
    }
    use consumer::{control, ring};
    same!(
        Control.magic = control::MAGIC,
        Control.version = control::VERSION,
        Control.pid = control::PID,
        Control.start_ticks = control::START_TICKS,
        Control.created_ns = control::CREATED_NS,
        Control.clock = control::CLOCK,
        Control.tick_q32 = control::TICK_Q32,
        Control.events = control::EVENTS,
        Control.rings = control::RINGS,
        Control.declared_bytes = control::DECLARED_BYTES,
        Control.no_ring = control::NO_RING,
        Control.lazy_claims = control::LAZY_CLAIMS,
        Control.refused_events = control::REFUSED_EVENTS,
        Control.ended = control::ENDED,
        Control.comm = control::COMM,
        Ring.reserve = ring::RESERVE,
        Ring.committed = ring::COMMITTED,
        Ring.packet_words = ring::PACKET_WORDS,
        Ring.packet_mask = ring::PACKET_MASK,
        Ring.discarded = ring::DISCARDED,
        Ring.consumed = ring::CONSUMED,
        Ring.overwrite = ring::OVERWRITE,
        Ring.drained = ring::DRAINED,
        Ring.discarded_before = ring::DISCARDED_BEFORE,
        Ring.owner = ring::OWNER,
        Ring.bytes = ring::BYTES,
        Ring.events_before = ring::EVENTS_BEFORE,
        Ring.too_large = ring::TOO_LARGE,
        Packet.begin_counter = 8,
        Packet.begin_ns = 16,
        Packet.end_counter = 24,
        Packet.end_ns = 32,
        Packet.discarded = 40,
        Packet.used = 48,
        Packet.owner = 56,
        Packet.name = 64,
        Packet.events_before = 80,
    );
    assert_eq!(size_of::<Packet<Word>>(), 8 * consumer::PACKET_HEADER_WORDS);
    assert_eq!(
        (tracer::MAGIC, tracer::VERSION, tracer::EVENTS_MAX, tracer::RINGS_MAX, tracer::ENABLED_AT),
        (consumer::MAGIC, consumer::VERSION, consumer::EVENTS_MAX, consumer::RINGS_MAX, consumer::ENABLED_AT)
    );
    assert_eq!(
        (tracer::RING_TABLE_AT, tracer::DECLARATIONS_AT, tracer::CONTROL_BYTES, tracer::RING_HEADER_BYTES),
        (
            consumer::RING_TABLE_AT,
            consumer::DECLARATIONS_AT,
            consumer::CONTROL_BYTES,
            consumer::RING_HEADER_BYTES
        )
    );
}

#[test]
fn the_c_header_has_the_same_structures() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("layout.c");
    let event = lathunt_tracer::declare::Event::new(c"a:b", &[]);
    let at = |field: *const u8| field as usize - std::ptr::from_ref(&event) as usize;
    let checks = [
        ("struct lathunt_ring", "begin_counter", offset_of!(Ring<Word>, begin_counter)),
        ("struct lathunt_ring", "packet_words", offset_of!(Ring<Word>, packet_words)),
        ("struct lathunt_ring", "packet_mask", offset_of!(Ring<Word>, packet_mask)),
        ("struct lathunt_ring", "clock", offset_of!(Ring<Word>, clock)),
        ("struct lathunt_ring", "committed", offset_of!(Ring<Word>, committed)),
        ("struct lathunt_event", "fields", at((&raw const event.fields).cast())),
        ("struct lathunt_event", "field_count", at((&raw const event.field_count).cast())),
        ("struct lathunt_event", "id", at((&raw const event.id).cast())),
        ("struct lathunt_field", "size", offset_of!(lathunt_tracer::declare::Field, size)),
        ("struct lathunt_label", "value", offset_of!(lathunt_tracer::declare::Label, value)),
    ];
    let mut text = String::from("#include <lathunt/trace.h>\n");
    for (structure, field, offset) in checks {
        text += &format!("_Static_assert(offsetof({structure}, {field}) == {offset}, \"{field}\");\n");
    }
    text += &format!(
        "_Static_assert(sizeof(struct lathunt_event) == {}, \"event\");\n",
        size_of::<lathunt_tracer::declare::Event>()
    );
    std::fs::write(&source, text).unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let compiled = std::process::Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-I", include])
        .arg(&source)
        .output()
        .expect("a C compiler is needed");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}
