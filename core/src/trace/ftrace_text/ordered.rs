//! Fields of events that print thread names: a program can choose a name that looks like a field.

/// Start and end of a field name in the text, and start of its value.
pub(super) type Place = (usize, usize, usize);

/// Such events, with their field names in the order in which the kernel prints them.
const ORDERED: [(&str, &[&str]); 8] = [
    ("sched_waking", WAKING),
    ("sched_wakeup", WAKING),
    ("sched_wakeup_new", WAKING),
    (
        "sched_switch",
        &["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"],
    ),
    ("sched_migrate_task", &["comm", "pid", "prio", "orig_cpu", "dest_cpu"]),
    ("sched_pi_setprio", &["comm", "pid", "oldprio", "newprio"]),
    ("sched_process_fork", &["comm", "pid", "child_comm", "child_pid"]),
    ("sched_process_exit", &["comm", "pid", "prio"]),
];
const WAKING: &[&str] = &["comm", "pid", "prio", "target_cpu"];

/// Drops from `places` the fields within the name of a thread. The usual case, none, costs one comparison per field.
pub(super) fn drop_names(event: &str, text: &str, places: &mut Vec<Place>) {
    let Some((_, order)) = ORDERED.iter().find(|(known, _)| *known == event) else { return };
    let name = |&(begin, equals, _): &Place| &text[begin..equals];
    if !places.iter().map(name).eq(order.iter().copied()) {
        keep_ordered(text, order, places);
    }
}

/// A thread's name precedes its numbers: the last of equal field names counts, from the end backwards.
fn keep_ordered(text: &str, order: &[&str], places: &mut Vec<Place>) {
    let name = |&(begin, equals, _): &Place| &text[begin..equals];
    let behind_arrow = |&(begin, ..): &Place| text[..begin].ends_with("==> ");
    let mut kept = Vec::new();
    let mut rest = places.len();
    for wanted in order.iter().rev() {
        let before = &places[..rest];
        let is_it = |place: &Place| name(place) == *wanted;
        let found = match wanted.ends_with("comm") {
            true => before
                .iter()
                .position(|place| is_it(place) && behind_arrow(place))
                .or_else(|| before.iter().position(is_it)),
            false => before.iter().rposition(is_it),
        };
        let Some(found) = found else { continue };
        kept.push(found);
        rest = found;
    }
    let (first, last) = (kept.last().copied().unwrap_or(0), kept.first().copied().unwrap_or(places.len()));
    let mut in_name = false;
    let mut index = 0;
    places.retain(|place| {
        let here = index;
        index += 1;
        let is_kept = kept.contains(&here);
        if is_kept {
            in_name = name(place).ends_with("comm");
        }
        is_kept || here < first || here > last || !in_name
    });
}
