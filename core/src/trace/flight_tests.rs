use proptest::prelude::*;

use super::*;

fn record(at: u64, seq: u64, kind: u8) -> Vec<u8> {
    let mut r = vec![0u8; RECORD_BYTES];
    r[..8].copy_from_slice(&at.to_le_bytes());
    r[8..12].copy_from_slice(&(seq as u32).wrapping_add(1).to_le_bytes());
    r[12] = kind;
    r
}

/// A switch from `prev` to `next`.
fn switch(at: u64, seq: u64, prev: i32, next: i32, name: &[u8]) -> Vec<u8> {
    let mut r = record(at, seq, 1);
    r[16..20].copy_from_slice(&prev.to_le_bytes());
    r[20..24].copy_from_slice(&next.to_le_bytes());
    r[24..26].copy_from_slice(&120i16.to_le_bytes());
    r[26..28].copy_from_slice(&4i16.to_le_bytes());
    r[28..32].copy_from_slice(&1u32.to_le_bytes());
    r[32..32 + name.len()].copy_from_slice(name);
    r
}

fn header(cpu: u32, id: u64, begin: u64, first_seq: u64, records: usize) -> Header {
    Header {
        cpu: Cpu(cpu),
        trigger: TRIGGER_USER,
        id,
        begin: Mono(begin),
        frozen: Mono(begin + 1_000),
        first_seq,
        records: records as u32,
        ..Header::default()
    }
}

fn chunk(head: Header, records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = head.to_bytes().to_vec();
    records.iter().for_each(|r| bytes.extend(r));
    bytes
}

/// A chunk with a record of every kind, a gap in the switches between them apart.
pub(super) fn all_kinds() -> Vec<u8> {
    let mut records = vec![switch(200, 0, 10, 20, b"cyclic")];
    for kind in 2..=27 {
        let seq = records.len() as u64;
        let mut r = record(200 + 10 * seq, seq, kind);
        r[16..20].copy_from_slice(&20i32.to_le_bytes());
        r[20..24].copy_from_slice(&30i32.to_le_bytes());
        r[28..32].copy_from_slice(&2u32.to_le_bytes());
        r[32..40].copy_from_slice(b"abcdefg\0");
        r[40..48].copy_from_slice(&(5u64 << 32 | 7).to_le_bytes());
        records.push(r);
    }
    let mut preempted = switch(900, records.len() as u64, 20, 0, b"swapper");
    preempted[13] = 1;
    records.push(preempted);
    chunk(header(1, 1, 100, 0, records.len()), &records)
}

/// Between the two switches a lean recorder left out others; the thread that leaves then blocks.
pub(super) fn left_out() -> Vec<u8> {
    let mut late = switch(900, 2, 77, 20, b"victim");
    late[13] = SKIPPED;
    chunk(header(0, 1, 100, 0, 3), &[switch(200, 0, 20, 10, b"a"), record(300, 1, 14), late])
}

/// The task switched out at the end is not the one switched in.
pub(super) fn not_seen_to_come() -> Vec<u8> {
    let records = [switch(200, 0, 10, 20, b"a"), record(300, 1, 14), switch(400, 2, 21, 10, b"b")];
    chunk(header(0, 1, 100, 0, 3), &records)
}

/// A chunk of one switch, 50 ns after its start.
pub(super) fn one_switch(cpu: u32, id: u64, begin: u64, prev: i32, next: i32) -> Vec<u8> {
    chunk(header(cpu, id, begin, 0, 1), &[switch(begin + 50, 0, prev, next, b"a")])
}

fn lost(window: &Window) -> Vec<Option<u64>> {
    let losses = window.events.iter().filter_map(|event| match event.kind {
        Kind::Lost { count, .. } => Some(count),
        _ => None,
    });
    losses.collect()
}

#[test]
fn a_header_survives_the_round_trip() {
    let victim = Victim {
        total: Ns(500_123),
        switched_in: Mono(77),
        tid: Tid(4242),
        prio: Prio(4),
        comm: *b"victim\0\0\0\0\0\0\0\0\0\0",
    };
    let head =
        Header { victim: Some(victim), overwritten: 9, stacks: 3, ..header(7, 5, 1 << 40, 1 << 33, 11) };
    assert_eq!(Header::parse(&head.to_bytes()), Ok(head));
}

#[test]
fn a_switch_is_read_with_its_tasks() {
    let bytes = chunk(header(1, 1, 100, 6, 1), &[switch(200, 6, 10, 20, b"cyclic")]);
    let window = decode(&bytes, |_| None).unwrap();
    let [Event {
        at: Mono(200),
        cpu: Cpu(1),
        current: Some(Tid(10)),
        level: Level::Unsaid,
        kind: Kind::Switch { prev, left_as, next },
    }] = window.events[..]
    else {
        panic!("{:?}", window.events)
    };
    assert_eq!((prev.tid, prev.prio, prev.comm), (Tid(10), Some(Prio(120)), None));
    assert_eq!(left_as, LeftAs::Blocked(1));
    assert_eq!((next.tid, next.prio), (Tid(20), Some(Prio(4))));
    assert_eq!(window.strings.get(next.comm.unwrap()), "cyclic");
    assert_eq!(window.complete_from[&Cpu(1)], Mono(100));
}

#[test]
fn a_torn_record_is_said_to_be_lost_before_the_next_one() {
    let mut records: Vec<_> = (0..4).map(|i| record(200 + i, 6 + i, 14)).collect();
    records[2][8] ^= 1;
    let window = decode(&chunk(header(0, 1, 100, 6, 4), &records), |_| None).unwrap();
    let kinds: Vec<_> = window.events.iter().map(|e| (e.at.0, matches!(e.kind, Kind::Lost { .. }))).collect();
    assert_eq!(kinds, [(200, false), (201, false), (203, true), (203, false)]);
    assert_eq!(lost(&window), [Some(1)]);
}

#[test]
fn a_switch_that_does_not_follow_the_last_one_says_that_events_are_missing() {
    let of = |from: i32| {
        let records =
            [switch(200, 0, 10, 20, b"a"), switch(300, 1, from, 10, b"b"), switch(400, 2, 10, 30, b"c")];
        lost(&decode(&chunk(header(0, 1, 100, 0, 3), &records), |_| None).unwrap())
    };
    assert_eq!(of(20), []);
    assert_eq!(of(21), [None]);
}

#[test]
fn switches_that_a_lean_recorder_left_out_are_a_gap_after_the_last_one_and_the_one_replaced_has_a_name() {
    let mut late = switch(900, 1, 77, 20, b"victim");
    late[13] = SKIPPED | 1;
    let mut name = record(900, 3, COMM);
    name[20..24].copy_from_slice(&77i32.to_le_bytes());
    name[32..39].copy_from_slice(b"culprit");
    let mut nmi = record(880, 2, 12); // noted beside the ring, and filed between the two
    nmi[32..40].copy_from_slice(&15u64.to_le_bytes());
    let records = [switch(200, 0, 20, 10, b"a"), late, nmi, name];
    let window = decode(&chunk(header(0, 1, 100, 0, 4), &records), |_| None).unwrap();
    let gaps: Vec<Mono> =
        window.events.iter().filter(|e| matches!(e.kind, Kind::Lost { .. })).map(|e| e.at).collect();
    assert_eq!(gaps, [Mono(201)], "and none at the switch");
    let left = window.events.iter().find_map(|event| match event.kind {
        Kind::Switch { prev, left_as, .. } if event.at == Mono(900) => Some((prev, left_as)),
        _ => None,
    });
    let (prev, left_as) = left.unwrap();
    assert_eq!((prev.tid, left_as), (Tid(77), LeftAs::Runnable));
    assert_eq!(prev.comm.map(|comm| window.strings.get(comm)), Some("culprit"));
    assert_eq!(window.comms[&Tid(77)], "culprit");
}

#[test]
fn consecutive_chunks_join_and_others_leave_a_gap() {
    let of = |id, begin| chunk(header(0, id, begin, 0, 1), &[record(begin + 5, 0, 14)]);
    let joined = decode(&[of(1, 100), of(2, 200)].concat(), |_| None).unwrap();
    assert_eq!((lost(&joined), joined.complete_from[&Cpu(0)]), (vec![], Mono(100)));
    let apart = decode(&[of(1, 100), of(3, 300)].concat(), |_| None).unwrap();
    assert_eq!((lost(&apart), apart.complete_from[&Cpu(0)]), (vec![None], Mono(300)));
}

#[test]
fn an_overwritten_ring_is_complete_from_its_oldest_record() {
    let head = Header { overwritten: 1, ..header(0, 1, 100, 1, 1) };
    let window = decode(&chunk(head, &[record(150, 1, 14)]), |_| None).unwrap();
    assert_eq!(window.complete_from[&Cpu(0)], Mono(150));
}

#[test]
fn a_stack_drops_the_recorders_own_frames_and_keeps_what_has_no_name() {
    let mut stack = vec![0u8; STACK_BYTES];
    stack[8..12].copy_from_slice(&9i32.to_le_bytes());
    (stack[12], stack[14]) = (1, 3);
    for (i, address) in [1u64, 2, 3].into_iter().enumerate() {
        stack[16 + 8 * i..24 + 8 * i].copy_from_slice(&address.to_le_bytes());
    }
    let head = Header { stacks: 1, ..header(0, 1, 100, 0, 0) };
    let symbol = |address| match address {
        1 => Some("bpf_trace_run2+0x8".to_owned()),
        2 => Some("do_work+0x10".to_owned()),
        _ => None,
    };
    let window = decode(&chunk(head, &[stack]), symbol).unwrap();
    assert_eq!(window.stacks[0].frames, ["do_work+0x10", "0x3"]);
    assert_eq!((window.stacks[0].tid, window.stacks[0].in_user), (Tid(9), None));
}

#[test]
fn what_the_code_says_is_noted_of_the_interrupted_instruction_of_late_timers_alone() {
    let stack = |why: u8| {
        let mut stack = vec![0u8; STACK_BYTES];
        (stack[12], stack[14]) = (why, 4);
        for (i, address) in [5u64, 6, 7, 8].into_iter().enumerate() {
            stack[16 + 8 * i..24 + 8 * i].copy_from_slice(&address.to_le_bytes());
        }
        stack
    };
    let symbol = |address| match address {
        5 => Some("hrtimer_interrupt+0xf8".to_owned()),
        6 => Some("asm_sysvec_apic_timer_interrupt+0x1a".to_owned()),
        7 => Some("do_work+0x10".to_owned()),
        _ => None,
    };
    let head = Header { stacks: 2, ..header(0, 1, 100, 0, 0) };
    let plain = chunk(head, &[stack(1), stack(2)]);
    for (says, expected) in [(None, None), (Some(true), Some(true)), (Some(false), Some(false))] {
        let mut bytes = [plain.clone(), plain.clone()].concat();
        note_code(&mut bytes, symbol, |address| says.filter(|_| address == 7));
        let window = decode(&bytes, symbol).unwrap();
        let noted: Vec<Option<bool>> = window.stacks.iter().map(|stack| stack.enabled_there).collect();
        assert_eq!(noted, [expected, None, expected, None], "{says:?}");
        note_code(&mut bytes[..plain.len() + 100], symbol, |_| None); // a cut one is left alone
    }
}

#[test]
fn an_interrupt_of_user_code_is_the_outermost_frame() {
    let user = |frames: &[&str]| interrupted_user(&frames.iter().map(|&f| f.to_owned()).collect::<Vec<_>>());
    let timer = "asm_sysvec_apic_timer_interrupt+0x1a";
    assert_eq!(user(&["hrtimer_interrupt+0xf8", timer]), Some(true));
    assert_eq!(user(&[timer, "vfs_read+0x1", "entry_SYSCALL_64_after_hwframe+0x76"]), Some(false));
    assert_eq!(user(&[timer, "handle_softirqs+0xcd", timer]), Some(false));
    assert_eq!(user(&["0xffffffff81000000"]), None);
}

#[test]
fn a_cut_recording_says_how_many_records_are_missing() {
    let records: Vec<_> = (0..10).map(|i| record(200 + i, i, 14)).collect();
    let bytes = chunk(header(0, 1, 100, 0, 10), &records);
    let window = decode(&bytes[..HEADER_BYTES + 4 * RECORD_BYTES + 7], |_| None).unwrap();
    assert_eq!(window.events.len(), 5);
    assert_eq!(lost(&window), [Some(6)]);
    assert!(decode(&bytes[..100], |_| None).is_err());
}

proptest! {
    #[test]
    fn damage_never_panics_and_time_never_decreases(
        kinds in proptest::collection::vec(0u8..22, 0..40),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let records: Vec<_> = kinds.iter().enumerate().map(|(i, &k)| record(200 + i as u64, i as u64, k)).collect();
        let one = chunk(header(0, 1, 100, 0, records.len()), &records);
        let mut bytes = [one.clone(), one].concat();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(window) = decode(&bytes, |address| Some(format!("f{address}"))) {
            prop_assert!(window.events.windows(2).all(|pair| pair[0].at <= pair[1].at));
        }
        prop_assert!(headers(&bytes).len() <= 2 + bytes.len() / HEADER_BYTES);
    }
}

/// One record of its own: the switches before it keep the name they had.
#[test]
fn a_thread_that_takes_another_name_has_it_from_then_on() {
    let mut taken = record(300, 1, 23);
    taken[16..20].copy_from_slice(&20i32.to_le_bytes());
    taken[20..24].copy_from_slice(&20i32.to_le_bytes());
    taken[32..37].copy_from_slice(b"later");
    let records = [switch(200, 0, 10, 20, b"early"), taken, switch(400, 2, 20, 10, b"other")];
    let window = decode(&chunk(header(1, 1, 100, 0, records.len()), &records), |_| None).unwrap();
    let [came, named, _] = &window.events[..] else { panic!("{:?}", window.events) };
    let (Kind::Switch { next, .. }, Kind::Rename { tid, comm: Some(comm) }) = (came.kind, named.kind) else {
        panic!("{:?}", window.events)
    };
    assert_eq!((named.at, named.current, tid), (Mono(300), Some(Tid(20)), Tid(20)));
    assert_eq!(window.strings.get(comm), "later");
    assert_eq!(next.comm.map(|comm| window.strings.get(comm)), Some("early"));
}
