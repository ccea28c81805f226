//! Response times of tasks: one field per task, with its deadline.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::super::history::{History, Row};
use super::super::window::{SeriesKey, UnixMs};
use super::plain;
use crate::comm::Comm;
use crate::series::Quantity;

/// Every task that ever had a job in a window has a field.
pub(super) fn names(history: &History) -> Vec<Comm> {
    let keys = history.alltime.iter().map(|alltime| alltime.key);
    let known = keys.filter(|key| key.quantity == Quantity::Response).filter_map(|key| key.whose.task());
    known.collect::<BTreeSet<Comm>>().into_iter().collect()
}

/// Letters, digits and `_`, and other bytes as numbers, so that names stay distinct.
fn field(name: Comm) -> String {
    let mut field = "task_".to_owned();
    for byte in name.text().bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => field.push(char::from(byte)),
            _ => field.push_str(&format!("_{byte:02x}")),
        }
    }
    field
}

fn rows(history: &History, name: Comm) -> impl Iterator<Item = &Row> {
    let key = SeriesKey::of_task(Quantity::Response, name);
    history.rows.iter().filter(move |row| row.key == key)
}

/// The configuration of each field; the deadline is that of the last window.
pub(super) fn fields(text: &mut String, history: &History) {
    for name in names(history) {
        let (field, label) = (field(name), plain(&name.text()).replace('#', "_"));
        let _ = write!(text, "{field}.label {label}\n{field}.type GAUGE\n{field}.min 0\n");
        let held = rows(history, name).last().and_then(|row| row.held);
        if let Some(held) = held {
            let _ = writeln!(text, "{field}.warning {:.9}", held.deadline.as_secs());
        }
    }
}

/// The longest response time of the windows that ended after `from`, and the cause of the worst.
pub(super) fn values(text: &mut String, history: &History, from: UnixMs) {
    for name in names(history) {
        let recent = rows(history, name).filter(|row| row.end > from);
        let worst = recent.filter(|row| row.figures.count > 0).max_by_key(|row| row.figures.max);
        let value = worst.and_then(|row| row.figures.max);
        let value = value.map_or_else(|| "U".to_owned(), |max| format!("{:.9}", max.as_secs()));
        let field = field(name);
        let _ = writeln!(text, "{field}.value {value}");
        if let Some(culprit) = worst.and_then(|row| row.culprit.as_ref()) {
            let _ = writeln!(text, "{field}.extinfo {}", plain(culprit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::Alltime;
    use super::super::super::window::Held;
    use super::super::{config, fetch, Node};
    use super::*;
    use crate::time::Ns;

    #[test]
    fn a_task_has_its_longest_job_and_its_deadline() {
        let mut history = crate::monitor::history::tests::example();
        let name = Comm::cut("io-1");
        let key = SeriesKey::of_task(Quantity::Response, name);
        let held = Some(Held { deadline: Ns::from_us(500), misses: 1 });
        history.rows.push(Row { key, held, ..history.rows[2].clone() });
        history.alltime.push(Alltime { key, ..history.alltime[0].clone() });
        let node = Node { multigraph: true, dirtyconfig: false };
        let told = config(&history, node, UnixMs(610_000));
        let graph = told.split("multigraph lathunt_response\n").nth(1).unwrap();
        assert!(
            graph.contains("task_io_2d1.label io-1\n") && graph.contains("task_io_2d1.warning 0.000500000\n")
        );
        let values = fetch(&history, node, UnixMs(610_000));
        assert!(
            values.contains("task_io_2d1.value 0.004321000\ntask_io_2d1.extinfo irqs off: vnd/812\n"),
            "{values}"
        );
        assert_ne!(field(Comm::cut("io-1")), field(Comm::cut("io_1")));
    }
}
