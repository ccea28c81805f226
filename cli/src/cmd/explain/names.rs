//! Suggests threads of a trace for a query about a thread that it does not have.

use lathunt_core::explain::intervals::Whose;
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
    if threads.iter().any(|thread| whose.fits(thread.tid, &thread.comm)) {
        return None;
    }
    let wanted = whose.comm.as_deref().unwrap_or_default();
    let mut all: Vec<_> = threads.iter().map(|thread| (distance(wanted, &thread.comm), thread)).collect();
    if whose.comm.is_some() {
        all.sort_by_key(|(distance, _)| *distance); // stable: among equals, the one with most running time first
    }
    let listed: Vec<String> =
        all.iter().take(LISTED).map(|(_, thread)| format!("{}/{}", thread.comm, thread.tid)).collect();
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
    use super::distance;

    #[test]
    fn the_distance_of_names_is_that_of_levenshtein() {
        let of = |a, b| distance(a, b);
        assert_eq!(
            (of("contrl", "control"), of("kitten", "sitting"), of("", "abc"), of("a", "a")),
            (1, 3, 3, 0)
        );
    }
}
