//! Wakers that the events around the waking do not show: in a gap of a CPU's record, and of a packet to this machine.

use super::notation;
use super::told;
use super::wakers::expect;
use crate::time::{Cpu, Mono};

#[test]
fn a_waking_in_a_thread_names_it_although_its_cpu_lost_the_events_around() {
    let events = "
          0 c1 switch idle > rt/50@95
       1000 c1 switch rt/50@95:S > idle
       3000 c0 runs holder/60
       4000 c0 waking rt/50@95 c1 ^thread
       4010 c1 switch idle > rt/50@95
       5000 c1 switch rt/50@95:S > idle
    ";
    let said = |events: &str| {
        let mut window = notation::window(events);
        window.complete_from.insert(Cpu(0), Mono(4_500_000));
        told(&window, 500, 4_500).sentence
    };
    assert!(said(events).contains("/60 woke it"), "{}", said(events));
    let unknown = said(&events.replace(" ^thread", ""));
    assert!(unknown.contains("context is not certain") && !unknown.contains("until"), "{unknown}");
}

#[test]
fn a_packet_to_this_machine_leads_to_its_sender_if_no_interrupt_can_have_brought_it() {
    let events = "
          0 c0 switch idle > sender/60
         10 c1 switch rt/50@95:S > idle
        100 c0 vec+ local_timer
        101 c0 vec- local_timer
        400 c0 soft+ NET_RX
        402 c0 waking rt/50@95 c1
        405 c0 soft- NET_RX
        410 c1 switch idle > rt/50@95
        600 c1 switch rt/50@95:S > idle
        600 c0 switch sender/60:S > idle
    ";
    let told =
        expect(events, (20, 500), &["until sender/60 (nice 0) woke it", "sender/60 (nice 0) ran for"], &[]);
    assert_eq!(told.unexplained_ns.0, 0);
    let at_once = events.replace("100 c0 vec+", "398 c0 vec+").replace("101 c0 vec-", "399 c0 vec-");
    let device = events.replace("100 c0 vec+ local_timer", "350 c0 irq+ 25 eth0");
    let device = device.replace(
        "101 c0 vec- local_timer",
        "352 c0 irq- 25\n 353 c1 vec+ local_timer\n 354 c1 vec- local_timer",
    );
    let other_cpu = events.replace("local_timer", "call_function_single");
    for unsure in [at_once, device, other_cpu] {
        expect(&unsure, (20, 500), &["softirq NET_RX"], &["until sender"]);
    }
}
