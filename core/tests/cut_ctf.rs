//! Incomplete CTF streams: packets missing according to sequence numbers or LTTng's index are reported, and their time
//! is not attributed.

use lathunt_core::time::{Cpu, Mono};
use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::item::{Item, Loss, Span};
use lathunt_core::trace::source::Source;

const METADATA: &[u8] = include_bytes!("data/ctf/little/metadata");
const STREAM: &[u8] = include_bytes!("data/ctf/little/channel_0");

/// Number `place` (of 64 bits) of the context of the packet at `offset`: begin, end, bits of content and of all, number,
/// discarded; behind a header of 32 bytes.
fn context(stream: &[u8], offset: usize, place: usize) -> u64 {
    let at = offset + 32 + 8 * place;
    u64::from_le_bytes(stream[at..at + 8].try_into().unwrap())
}

fn packets(stream: &[u8]) -> Vec<usize> {
    let mut found = vec![0];
    loop {
        let last = found[found.len() - 1];
        let next = last + context(stream, last, 3) as usize / 8;
        if next >= stream.len() {
            return found;
        }
        found.push(next);
    }
}

/// As LTTng 2.13 writes it: version 1.1.
fn index(stream: &[u8]) -> Vec<u8> {
    let mut index: Vec<u8> = [0xc1f1_dcc1u32, 1, 1, 72].iter().flat_map(|word| word.to_be_bytes()).collect();
    for offset in packets(stream) {
        let [begin, end, content, size, number, discarded] =
            std::array::from_fn(|place| context(stream, offset, place));
        let entry = [offset as u64, size, content, begin, end, discarded, 0, 0, number];
        index.extend(entry.iter().flat_map(|word| word.to_be_bytes()));
    }
    index
}

/// Events, losses, and reported damage.
fn read(stream: &[u8], index: &[u8]) -> (usize, Vec<Loss>, Vec<String>) {
    let files = TraceFiles {
        metadata: METADATA,
        streams: vec![("channel_0".into(), stream)],
        indices: vec![("channel_0".into(), index)],
        ..TraceFiles::default()
    };
    let ctf = Ctf::open(&[files]).unwrap();
    let damage = ctf.info().damage.iter().map(ToString::to_string).collect();
    let (mut events, mut losses) = (0, Vec::new());
    let mut walk = ctf.events(Span::ALL);
    while let Some(item) = walk.next() {
        match item {
            Item::Event(_) => events += 1,
            Item::Lost(loss) => losses.push(loss),
            Item::Damage(_) => {}
        }
    }
    (events, losses, damage)
}

#[test]
fn packets_that_only_the_index_knows_are_a_loss() {
    let index = index(STREAM);
    let offsets = packets(STREAM);
    let (all, before, damage) = read(STREAM, &index);
    assert!(offsets.len() > 1 && all > 2 && damage.is_empty(), "{offsets:?} {damage:?}");
    let last = offsets.len() - 1;
    let cut = &STREAM[..offsets[last]];
    let (events, losses, damage) = read(cut, &index);
    assert!(
        events < all && damage.len() == 1 && damage[0].contains("the index names them: 1 packet"),
        "{damage:?}"
    );
    let told = losses.iter().find(|loss| !before.contains(loss)).expect("a loss");
    let end = |packet: usize| Mono(context(STREAM, offsets[packet], 1));
    assert_eq!((told.after, told.before, told.cpu), (Some(end(last - 1)), end(last), cpu()));
    // Without it, or with an invalid index, this is unknown.
    for none in [&b""[..], &[0; 100], &index[..16]] {
        assert!(read(cut, none).2.is_empty());
    }
    for len in 0..index.len() {
        let _ = read(cut, &index[..len]);
    }
}

fn cpu() -> Cpu {
    Cpu(u32::from_le_bytes(STREAM[80..84].try_into().unwrap()))
}

#[test]
fn the_end_of_a_packet_that_is_cut_is_a_loss() {
    let offsets = packets(STREAM);
    let (all, before, _) = read(STREAM, b"");
    // Into the last event of the last packet.
    let last = offsets[offsets.len() - 1];
    let content = context(STREAM, last, 2) as usize / 8;
    let (events, losses, damage) = read(&STREAM[..last + content - 1], b"");
    assert!(events < all && damage.len() == 1, "{damage:?}");
    let told = losses.iter().find(|loss| !before.contains(loss)).expect("a loss");
    assert_eq!(told.before, Mono(context(STREAM, last, 1)));
}

#[test]
fn a_packet_that_is_missing_by_its_number_is_a_loss_also_where_nothing_counts_events() {
    let offsets = packets(STREAM);
    // As if the second one were the third.
    let mut without = STREAM.to_vec();
    without[offsets[1] + 32 + 8 * 4] += 1;
    let (_, losses, _) = read(&without, b"");
    let told = losses.iter().any(|loss| {
        let within = loss.inferred_within.unwrap();
        within.from == Mono(context(STREAM, offsets[0], 1)) && loss.count.is_none()
    });
    assert!(told, "{losses:?}");
    // The event counter has another name in the metadata: losses are not counted.
    let mut metadata = METADATA.to_vec();
    let name = b"events_discarded";
    let at = metadata.windows(name.len()).position(|window| window == name).unwrap();
    metadata[at..at + 6].copy_from_slice(b"weight");
    let files = TraceFiles {
        metadata: &metadata,
        streams: vec![("channel_0".into(), &without)],
        ..TraceFiles::default()
    };
    let ctf = Ctf::open(&[files]).unwrap();
    let mut walk = ctf.events(Span::ALL);
    let mut lost = 0;
    while let Some(item) = walk.next() {
        lost += usize::from(matches!(item, Item::Lost(_)));
    }
    assert!(lost > 0, "the packets are numbered");
}
