//! Blocking on each CPU, labelled by its evidence: potential latencies if the kernel reports them, else an observed
//! estimate.

use crate::numbers::or_dash;
use crate::printable::{hanging, line};
use crate::run::{Interference, Run};
use crate::series::{Quantity, Series};
use crate::time::{Cpu, Ns};

/// Both parts; empty for a run with neither. Ends with an empty line.
#[must_use]
pub fn text(run: &Run, width: usize) -> String {
    let mut lines = potential(run);
    lines.extend(paths(run));
    let estimated: Vec<Cpu> = run.of(Quantity::Blocking).filter_map(|series| series.cpu).collect();
    if !estimated.is_empty() {
        lines.push(
            "Observed-blocking estimate (longest of each; observed only where a task waited or code ran: not a bound)"
                .to_owned(),
        );
        lines.extend(estimated.into_iter().flat_map(|cpu| estimate(run, cpu)));
    }
    let mut text = String::new();
    for line in &lines {
        text.extend(whole(line, width).iter().map(|line| format!("{}\n", line.trim_end())));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// The line, wrapped if it is longer than `width`.
fn whole(text: &str, width: usize) -> Vec<String> {
    match text.chars().count() > width {
        true => hanging(&" ".repeat(text.chars().take_while(|c| *c == ' ').count()), text, width),
        false => vec![line(text).into_owned()],
    }
}

fn paths(run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    for path in &run.path_analysis {
        if lines.is_empty() {
            lines.push(
                "Path analysis (longest section of each term, without interrupts; lathunt bound computes the bound)"
                    .to_owned(),
            );
        }
        let terms = [("POID", &path.poid), ("PAIE", &path.paie), ("PSD", &path.psd), ("DST", &path.dst)];
        for (name, longest) in terms {
            let Some(longest) = longest else { continue };
            let total = longest.ns.to_string();
            lines.push(format!("  CPU {} {name:<15}{total:>10}  {}", path.cpu, longest.thread));
            let (begins, ends) = longest.place.split_once("; ").unwrap_or((&longest.place, ""));
            let ends = Some(ends).filter(|ends| !ends.is_empty());
            lines.extend(Some(begins).into_iter().chain(ends).map(|place| format!("      {place}")));
        }
        if path.lost > 0 {
            lines
                .push(format!("  CPU {} {} executions or sections were lost: no bound", path.cpu, path.lost));
        }
    }
    lines
}

/// `off …; on …` on two lines: function names are long.
fn places(place: &str) -> Vec<String> {
    let place = place.strip_prefix("off ").unwrap_or(place);
    let (off, on) = place.split_once("; on ").unwrap_or((place, ""));
    let places = [("off", off), ("on", on)].into_iter().filter(|(_, place)| !place.is_empty());
    places.map(|(what, place)| format!("      {what:<3} {place}")).collect()
}

fn potential(run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    for peak in run.peaks.iter().filter(|peak| peak.quantity.is_potential()) {
        if lines.is_empty() {
            lines.push("Potential latencies (the longest of each; possibly no task waited)".to_owned());
        }
        let culprit = peak.culprit.as_deref().unwrap_or_default();
        let (who, place) = culprit.split_once(": off ").unwrap_or((culprit, ""));
        let (name, total) = (peak.quantity.name(), peak.total_ns.to_string());
        lines.push(format!("  CPU {} {name:<15}{total:>10}  {who}", peak.cpu));
        lines.extend(places(place));
    }
    lines
}

fn estimate(run: &Run, cpu: Cpu) -> [String; 4] {
    let max = |quantity: Quantity| -> Option<Ns> {
        let of_cpu = |series: &&Series| series.cpu == Some(cpu);
        run.of(quantity).filter(of_cpu).filter_map(|series| series.histogram.max()).max()
    };
    let longest = |kinds: &[&str]| -> String {
        let mine = |taken: &&Interference| {
            taken.cpu == cpu && kinds.iter().any(|kind| taken.source.starts_with(kind))
        };
        let longest = run.interference.iter().filter(mine).max_by_key(|taken| taken.max_ns);
        longest.map_or_else(|| "-".to_owned(), |taken| format!("{} ({})", taken.max_ns, taken.source))
    };
    [
        ("need_resched → scheduler entry", or_dash(max(Quantity::Blocking))),
        ("hard interrupt", longest(&["hard IRQ", "vector", "NMI"])),
        ("softirq", longest(&["softirq"])),
        ("timer late", or_dash(max(Quantity::Timer))),
    ]
    .map(|(what, longest)| format!("  CPU {cpu} {what:<31} {longest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::histogram::{Histogram, Layout};
    use crate::peak::Peak;
    use crate::series::Thread;
    use crate::time::Mono;

    fn series(quantity: Quantity, us: u64) -> Series {
        let mut histogram = Histogram::new(Layout::LATENCY);
        histogram.record(Ns::from_us(us));
        Series::new(quantity, Some(Cpu(1)), histogram)
    }

    #[test]
    fn a_potential_latency_has_its_places_on_lines_of_their_own() {
        let mut run = Run::new(Conditions::default());
        run.peaks = vec![Peak {
            quantity: Quantity::Irqsoff,
            cpu: Cpu(1),
            begin: Mono(0),
            total_ns: Ns::from_ms(20),
            victim: Thread::default(),
            culprit: Some(
                "driver/7 (RT 1): off in lock+0x1 < poll+0x2; on in unlock+0x3 < poll+0x4".to_owned(),
            ),
            explanation: None,
            no_evidence: None,
            context: None,
            during_action: false,
            counted_as: None,
        }];
        let said = text(&run, 60);
        assert!(said.contains(" 20.000 ms  driver/7 (RT 1)\n"), "{said}");
        assert!(
            said.contains("\n      off in lock+0x1 < poll+0x2\n      on  in unlock+0x3 < poll+0x4\n"),
            "{said}"
        );
    }

    #[test]
    fn every_part_of_the_estimate_has_its_name_and_none_of_it_is_said_unasked() {
        let mut run = Run::new(Conditions::default());
        run.series = vec![series(Quantity::Timer, 30)];
        let taken = |source: &str, us| Interference {
            cpu: Cpu(1),
            source: source.to_owned(),
            count: 1,
            total_ns: Ns::from_us(us),
            max_ns: Ns::from_us(us),
        };
        run.interference =
            vec![taken("softirq NET_RX", 9), taken("hard IRQ 5 (nic)", 7), taken("vector local_timer", 8)];
        assert_eq!(text(&run, 200), "");
        run.series.push(series(Quantity::Blocking, 200));
        let said = text(&run, 200);
        assert!(said.contains("not a bound") && said.ends_with("\n\n"), "{said}");
        let words: Vec<&str> = said.split_whitespace().collect();
        let said = words.join(" ");
        let parts =
            "CPU 1 need_resched → scheduler entry 200 µs CPU 1 hard interrupt 8.0 µs (vector local_timer) \
                     CPU 1 softirq 9.0 µs (softirq NET_RX) CPU 1 timer late 30.0 µs";
        assert!(said.contains(parts), "{said}");
    }
}
