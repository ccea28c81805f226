//! Box and responder over channels that need a kernel of our own: GPIO lines that the kernel simulates, vsock.

use lathunt_core::latency_box::counts::Counts;
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::Ns;

use crate::boot::Outcome;

fn of(outcome: &Outcome, name: &str) -> Run {
    let text = outcome.text(&format!("{name}.json"));
    Run::from_json(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{}", said(outcome, name)))
}

/// What both ends said.
fn said(outcome: &Outcome, name: &str) -> String {
    [format!("{name}.talk"), format!("{name}.respond")].map(|file| outcome.text(&file)).join("\n")
}

fn roundtrips(run: &Run) -> (&Series, Counts) {
    let series = run.of(Quantity::Roundtrip).next().expect("round trips");
    (series, series.counts.expect("counts of a box"))
}

/// What the wire itself counted: answers, dropped ones, doubled ones.
fn wire(outcome: &Outcome, name: &str) -> [u64; 3] {
    let text = outcome.text(&format!("{name}.wire"));
    let counts: Vec<u64> = text.split_whitespace().map(|count| count.parse().unwrap()).collect();
    counts.try_into().unwrap()
}

#[test]
#[ignore = "lab: run by make lab-potential"]
fn over_gpio_lines_each_answer_is_counted_and_a_known_delay_is_measured() {
    let Some(outcome) = Outcome::of("gpio", "lab: box and responder over GPIO") else { return };
    let mut medians = Vec::new();
    for name in ["plain", "delayed", "rising"] {
        let run = of(&outcome, name);
        let (series, counts) = roundtrips(&run);
        println!("{name}: {counts:?}, wire {:?}", wire(&outcome, name));
        assert!(counts.sent > 80, "{name}: {counts:?} {}", said(&outcome, name));
        assert_eq!((counts.answered, counts.lost), (counts.sent, 0), "{name}: {}", said(&outcome, name));
        assert_eq!((counts.duplicated, counts.damaged, counts.foreign), (0, 0, 0), "{name}: {counts:?}");
        assert_eq!(series.histogram.count(), counts.answered);
        assert_eq!(outcome.text(&format!("{name}-status")).trim(), "0", "{}", said(&outcome, name));
        medians.push(series.histogram.quantile(0.5).unwrap());
    }
    // In virtual time. The wire, a shell script, takes a time of its own, and not the same in each run: as with the two without a
    // delay, to within 100 µs.
    println!("medians {medians:?}");
    let wire = medians[1].0 - 5_000_000;
    let (least, most) = (medians[0].0.min(medians[2].0), medians[0].0.max(medians[2].0));
    assert!((least - 100_000..=most + 100_000).contains(&wire), "{medians:?}");
}

#[test]
#[ignore = "lab: run by make lab-potential"]
fn edges_that_a_wire_drops_or_doubles_are_those_that_are_reported() {
    let Some(outcome) = Outcome::of("gpio", "lab: a faulty GPIO line") else { return };
    let run = of(&outcome, "faulty");
    let (series, counts) = roundtrips(&run);
    let [answers, dropped, doubled] = wire(&outcome, "faulty");
    println!("{counts:?}, wire {:?}", [answers, dropped, doubled]);
    assert!(dropped > 5 && doubled > 5);
    assert_eq!((counts.sent, counts.lost, counts.duplicated), (answers, dropped, doubled), "{counts:?}");
    assert_eq!((series.histogram.count(), series.lost), (counts.answered, dropped));
    assert_eq!(outcome.text("faulty-status").trim(), "3", "{}", said(&outcome, "faulty"));
}

#[test]
#[ignore = "lab: run by make lab-potential"]
fn a_gpio_line_that_is_silent_busy_absent_or_loses_edges_is_told_so() {
    let Some(outcome) = Outcome::of("gpio", "lab: GPIO lines that fail") else { return };
    assert_ne!(outcome.text("silent-status").trim(), "0", "{}", outcome.text("silent.talk"));
    let gap = said(&outcome, "gap");
    println!("gap: {gap}");
    assert_eq!(outcome.text("gap-status").trim(), "3", "{gap}");
    let (_, counts) = roundtrips(&of(&outcome, "gap"));
    println!("{counts:?}");
    // 1500 pulses while the box could not read; the kernel keeps 1024.
    assert!(counts.damaged > 0 && counts.damaged + counts.duplicated >= 1_499, "{counts:?}");
    for (lines, says) in [
        ("0,1", "cannot take line 1 of"),
        ("2,3", "cannot take line 2 of"),
        ("0,8", "the chip has no such line"),
        ("99,3", "the chip has no such line"),
        ("gone", "no such GPIO chip"),
    ] {
        let told = outcome.text(&format!("refused.{lines}"));
        assert!(told.contains(says) && told.trim().lines().count() == 1, "{lines}: {told}");
        assert_eq!(outcome.text(&format!("refused.{lines}-status")).trim(), "1", "{lines}: {told}");
    }
}

#[test]
#[ignore = "lab: run by make lab-potential"]
fn over_vsock_each_answer_is_counted() {
    let Some(outcome) = Outcome::of("vsock", "lab: box and responder over vsock") else { return };
    let run = Run::from_json(&outcome.text("run.json")).unwrap();
    let (series, counts) = roundtrips(&run);
    println!("{counts:?}");
    assert!(counts.sent > 100, "{counts:?}");
    assert_eq!((counts.answered, counts.lost, counts.foreign), (counts.sent, 0, 0), "{counts:?}");
    assert!(series.histogram.max().is_some_and(|max| max > Ns(0)));
    assert_eq!(outcome.text("box-status").trim(), "0", "{}", outcome.text("talk"));
}
