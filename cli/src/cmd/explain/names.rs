//! Suggests threads of a trace for a query about a thread that it does not have.

use std::iter;

use lathunt_core::explain::intervals::Whose;
use lathunt_core::explain::summary::OfThread;
use lathunt_core::trace::source::Source;

use super::cores::by_all;

/// Maximum number of names listed.
const LISTED: usize = 16;

/// `no thread of this trace is called 'contrl'; the nearest: control/7, …`; `None` if there is such a thread, or none
/// was named.
pub fn absent(source: &dyn Source, whose: &Whose) -> Option<String> {
    if whose.comm.is_none() && whose.tid.is_none() {
        return None;
    }
    let threads = by_all(source).threads;
    let names =
        |thread: &OfThread| iter::once(&thread.comm).chain(&thread.earlier).cloned().collect::<Vec<_>>();
    if threads.iter().any(|thread| names(thread).iter().any(|name| whose.fits(thread.tid, name))) {
        return None;
    }
    let wanted = whose.comm.as_deref().unwrap_or_default();
    let nearest = |thread: &OfThread| {
        let by_distance = names(thread).into_iter().map(|name| (distance(wanted, &name), name));
        by_distance.min_by_key(|(distance, _)| *distance).unwrap_or_default()
    };
    let mut all: Vec<_> = threads.iter().map(|thread| (nearest(thread), thread.tid)).collect();
    if whose.comm.is_some() {
        all.sort_by_key(|((distance, _), _)| *distance); // stable: among equals, the one with most running time first
    }
    let listed: Vec<String> =
        all.iter().take(LISTED).map(|((_, name), tid)| format!("{name}/{tid}")).collect();
    let more = all.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more (--summary)") } else { String::new() };
    let what = match (&whose.comm, whose.tid) {
        (Some(comm), _) => format!("is called '{comm}'"),
        (None, Some(tid)) => format!("has the id {tid}"),
        (None, None) => return None,
    };
    Some(format!("no thread of this trace {what}; there are {}{more}", listed.join(", ")))
}

/// Characters to insert, delete or replace (Levenshtein 1966); names of threads have at most 15.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use lathunt_core::explain::intervals::Whose;
    use lathunt_core::trace::ftrace_text::FtraceText;

    use super::{absent, distance};

    #[test]
    fn a_thread_is_found_by_every_name_that_it_had() {
        let switch = |us: u32, comm: &str| {
            format!(
                "{comm}-50 [001] d..2. 1.{us:06}: sched_switch: prev_comm={comm} prev_pid=50 prev_prio=49 prev_state=S \
                 ==> next_comm=other next_pid=7 next_prio=120\n"
            )
        };
        let text = [switch(100, "sh"), switch(200, "control"), switch(300, "last")].concat();
        let source = FtraceText::open(text.as_bytes()).unwrap();
        let of = |comm: &str| absent(&source, &Whose { comm: Some(comm.to_owned()), tid: None });
        for name in ["sh", "control", "last", "o*"] {
            assert_eq!(of(name), None, "{name}");
        }
        let said = of("contrl").unwrap();
        assert!(said.contains("is called 'contrl'; there are control/50"), "{said}");
    }

    #[test]
    fn the_distance_of_names_is_that_of_levenshtein() {
        let of = |a, b| distance(a, b);
        assert_eq!(
            (of("contrl", "control"), of("kitten", "sitting"), of("", "abc"), of("a", "a")),
            (1, 3, 3, 0)
        );
    }
}
