//! Streams byte for byte.

use super::*;

const WRITER: Writer = Writer { vpid: 7, vtid: 8, procname: b"axis\0\0", cpu: 1, discarded: 3 };

#[test]
fn a_packet_reads_back_and_an_empty_one_leaves_no_trace() {
    let mut stream = StreamWriter::new([9; 16], 4, 10, Mono(0));
    stream.open_for(&WRITER, 0);
    stream.close(1);
    assert!(stream.bytes().is_empty());
    stream.open_for(&WRITER, 0);
    assert!(stream.event(5, Mono(1000), b"xy"));
    assert!(stream.bytes().is_empty(), "an open packet is not to be written");
    stream.close(77);
    let head = PacketHead::parse(stream.bytes(), [9; 16]).unwrap();
    let bytes = stream.bytes().len() as u64;
    assert_eq!(head, PacketHead { bytes, sequence: 10, end: Mono(1000), discarded: 3, position: 77 });
    assert_eq!(PacketHead::parse(stream.bytes(), [8; 16]), None);
}

#[test]
fn time_never_goes_backwards_and_a_packet_never_spans_half_the_range_of_its_stamps() {
    let mut stream = StreamWriter::new([9; 16], 0, 0, Mono(500));
    stream.open_for(&WRITER, 0);
    assert!(stream.event(0, Mono(100), b""));
    assert!(!stream.event(0, Mono(500 + SPAN_MAX_NS), b""));
    stream.close(0);
    assert_eq!(PacketHead::parse(stream.bytes(), [9; 16]).unwrap().end, Mono(500));
}

#[test]
fn texts_cannot_break_out_of_the_metadata() {
    assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c?d""#);
}
