//! What the monitor makes of a machine that sleeps.

use serde_json::Value;

use crate::boot::Outcome;

/// The kernel's clocks stop for two seconds, and the guest is slow.
const SLEPT_MS: std::ops::Range<f64> = 1_000.0..10_000.0;

#[test]
#[ignore = "lab: run by make test"]
fn a_sleep_of_the_machine_is_recorded_and_is_no_latency() {
    let Some(outcome) = Outcome::of("suspend", "lab: suspend") else { return };
    let json: Value = serde_json::from_str(&outcome.text("history.json")).unwrap();
    let events = json["events"].as_array().unwrap();
    let sleeps: Vec<&Value> = events.iter().filter(|event| event["kind"] == "suspend").collect();
    assert_eq!(sleeps.len(), 1, "{events:?}");
    let (woken, detail) = (sleeps[0]["at"].as_i64().unwrap(), sleeps[0]["detail"].as_str().unwrap());
    let seconds: f64 =
        detail.trim_start_matches("the machine slept for ").trim_end_matches(" s").parse().unwrap();
    assert!(SLEPT_MS.contains(&(seconds * 1e3)), "{detail}");

    let rows = json["rows"].as_array().unwrap();
    let (mut over, mut after) = (0, 0);
    // A guest that the host starves may have a first window with one lost sample and no other.
    let sampled = |row: &&Value| row["histogram"]["count"].as_u64() > Some(0);
    let of_cpu = rows.iter().filter(|row| row["quantity"] == "timer+wakeup" && row["cpu"] == 0);
    for row in of_cpu.filter(sampled) {
        let [begin, end, at] = ["begin", "end", "max_at"].map(|name| row[name].as_i64().unwrap());
        let max_ns = row["histogram"]["max_ns"].as_u64().unwrap();
        assert!(max_ns < 1_000_000_000, "{max_ns} ns: the sleep counts as latency");
        // The guest is slow, and closes a window late.
        assert!((begin - 5_000..end + 5_000).contains(&at), "{at} is not of {begin} to {end}");
        over += i32::from(begin < woken && woken <= end);
        after += i32::from(begin >= woken && row["whole"] == true);
        assert!(row["whole"] == false || begin >= woken || end < woken, "it slept in {begin} to {end}");
    }
    assert!(over == 1 && after > 0, "one window has the waking, and whole ones come after it: {rows:?}");
}
