//! The Munin plug-in: its answers to `munin-node` (`config`, no argument for values) as text.
//!
//! One graph per quantity (multigraph), one field per CPU, or, for response times, per task with its deadline as the
//! warning limit. A value is the largest latency of the windows that ended within the last five minutes, Munin's
//! interval, plus one minute, because Munin does not poll exactly on time: a maximum may be reported twice, but never
//! missed. With dirtyconfig the values are sent with the configuration, which saves a poll.

mod jobs;

use std::fmt::Write;

use super::history::History;
use super::window::{SeriesKey, UnixMs, QUANTITIES};
use crate::printable::line;
use crate::series::Quantity;
use crate::time::{Cpu, Ns};

/// Time span of the windows.
pub const REACH: Ns = Ns(360_000_000_000);

/// Capabilities of the node, from its environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node {
    /// `MUNIN_CAP_MULTIGRAPH`
    pub multigraph: bool,
    /// `MUNIN_CAP_DIRTYCONFIG`
    pub dirtyconfig: bool,
}

/// The answer to `config`. `history` must cover at least [`REACH`] before `now`.
#[must_use]
pub fn config(history: &History, node: Node, now: UnixMs) -> String {
    let mut text = String::new();
    for quantity in graphs(history, node) {
        let name = name(quantity);
        if node.multigraph {
            let _ = writeln!(text, "multigraph {name}");
        }
        let _ = write!(
            text,
            "graph_title Largest {} latency\ngraph_category system\ngraph_vlabel seconds\ngraph_args --base 1000 -l 0\n\
             graph_info {} Maxima of completed windows of lathunt monitor.\n",
            quantity.name(),
            quantity.facts().monitor.unwrap_or_default()
        );
        if quantity == Quantity::Response {
            jobs::fields(&mut text, history);
        }
        for cpu in cpus(history, quantity) {
            let _ = write!(text, "cpu{cpu}.label CPU {cpu}\ncpu{cpu}.type GAUGE\ncpu{cpu}.min 0\n");
        }
        if node.dirtyconfig {
            values(&mut text, history, quantity, now);
        }
    }
    text
}

/// The answer to a call without arguments.
#[must_use]
pub fn fetch(history: &History, node: Node, now: UnixMs) -> String {
    let mut text = String::new();
    for quantity in graphs(history, node) {
        if node.multigraph {
            let _ = writeln!(text, "multigraph {}", name(quantity));
        }
        values(&mut text, history, quantity, now);
    }
    text
}

fn values(text: &mut String, history: &History, quantity: Quantity, now: UnixMs) {
    let from = now.minus(REACH);
    if quantity == Quantity::Response {
        jobs::values(text, history, from);
    }
    for cpu in cpus(history, quantity) {
        let key = SeriesKey::of_cpu(quantity, cpu);
        let recent = history.rows.iter().filter(|row| row.key == key && row.end > from);
        let worst = recent.filter(|row| row.figures.count > 0).max_by_key(|row| row.figures.max);
        let value = worst.and_then(|row| row.figures.max);
        let value = value.map_or_else(|| "U".to_owned(), |max| format!("{:.9}", max.as_secs()));
        let _ = writeln!(text, "cpu{cpu}.value {value}");
        if let Some((victim, culprit)) = worst.and_then(|row| row.victim.as_ref().zip(row.culprit.as_ref())) {
            let said = format!("{victim} was late: {culprit}");
            let _ = writeln!(text, "cpu{cpu}.extinfo {}", plain(&said));
        }
    }
}

/// Untrusted text for the master, which puts it on its pages as it is: one line, without markup.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for character in line(text).chars() {
        match character {
            '<' | '>' | '&' | '"' => _ = write!(plain, "\\u{{{:x}}}", u32::from(character)),
            other => plain.push(other),
        }
    }
    plain
}

/// A node without multigraph gets one graph. Without a task with a deadline there is no graph of jobs.
fn graphs(history: &History, node: Node) -> impl Iterator<Item = Quantity> {
    let has_jobs = !jobs::names(history).is_empty();
    let all = QUANTITIES.into_iter().filter(move |quantity| has_jobs || *quantity != Quantity::Response);
    all.take(if node.multigraph { QUANTITIES.len() } else { 1 })
}

/// Every CPU that ever had a sample has a field.
fn cpus(history: &History, quantity: Quantity) -> Vec<Cpu> {
    let keys = history.alltime.iter().map(|alltime| alltime.key);
    keys.filter(|key| key.quantity == quantity).filter_map(|key| key.whose.cpu()).collect()
}

/// Letters, digits and `_`.
fn name(quantity: Quantity) -> String {
    format!("lathunt_{}", quantity.name().replace('+', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Node = Node { multigraph: true, dirtyconfig: true };

    #[test]
    fn the_largest_of_the_recent_windows_is_told_and_what_is_not_known_is_unknown() {
        let history = crate::monitor::history::tests::example();
        // Both windows are recent: CPU 0 had 40 and 4321 us, CPU 1 90 and 50.
        let text = fetch(&history, ALL, UnixMs(610_000));
        assert!(text.starts_with("multigraph lathunt_timer_wakeup\ncpu0.value 0.004321000\n"), "{text}");
        assert!(text.contains("cpu1.value 0.000090000\n") && text.contains("multigraph lathunt_wakeup\n"));
        // Later only the second one is.
        assert!(fetch(&history, ALL, UnixMs(700_000)).contains("cpu1.value 0.000050000\n"));
        let old = fetch(&history, ALL, UnixMs(5_000_000));
        assert!(old.contains("cpu0.value U\n") && !old.contains("extinfo"), "{old}");
    }

    #[test]
    fn a_name_is_no_markup_on_the_pages_of_the_master() {
        assert_eq!(plain("<b>\n&\"'x/7"), "\\u{3c}b\\u{3e} \\u{26}\\u{22}'x/7");
    }

    #[test]
    fn a_node_without_capabilities_gets_one_graph_and_no_values_with_its_configuration() {
        let history = crate::monitor::history::tests::example();
        let plain = config(&history, Node::default(), UnixMs(610_000));
        assert!(!plain.contains("multigraph") && !plain.contains(".value"), "{plain}");
        assert!(plain.contains("cpu1.label CPU 1\n") && plain.contains("graph_vlabel seconds\n"));
        let dirty = config(&history, ALL, UnixMs(610_000));
        assert!(dirty.contains("cpu0.value 0.004321000\n"), "{dirty}");
        // Whatever a program calls itself, it stays one line.
        assert!(dirty
            .lines()
            .filter(|line| line.contains("calc"))
            .all(|line| line.starts_with("cpu0.extinfo ")));
    }
}
