//! The names of tasks that have series of their own: a bounded number, whatever programs call themselves.

use std::collections::BTreeSet;

use lathunt_core::comm::Comm;

/// Name for tasks whose own names arrived after the last admitted one. No thread has this name by chance.
pub const OTHERS: &str = "(others)";

/// Names that have series of their own.
#[derive(Debug)]
pub(super) struct Names {
    limit: usize,
    admitted: BTreeSet<Comm>,
}

impl Names {
    /// Admits at most `limit` names.
    pub(super) fn at_most(limit: usize) -> Names {
        Names { limit, admitted: BTreeSet::new() }
    }

    /// The name for the series of tasks called `comm`.
    pub(super) fn of(&mut self, comm: &str) -> Comm {
        let name = as_text(Comm::cut(comm));
        if self.admitted.len() < self.limit {
            self.admitted.insert(name);
        }
        self.known(comm)
    }

    /// The same, for admitted tasks or those without a series of their own.
    pub(super) fn known(&self, comm: &str) -> Comm {
        let name = as_text(Comm::cut(comm));
        if self.admitted.contains(&name) || self.admitted.len() < self.limit {
            name
        } else {
            Comm::cut(OTHERS)
        }
    }
}

/// A name that is displayed the same and survives re-reading. Programs choose the bytes of their names, and 15 of them may
/// end within a character: names that differ only in such bytes would be two series of one name.
fn as_text(mut name: Comm) -> Comm {
    loop {
        match Comm::cut(&name.text()) {
            same if same == name => return name,
            cut => name = cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_what_is_no_text_are_one() {
        let mut names = Names::at_most(2);
        // Bytes 15 and up fall within the last character of each.
        let first = names.of("\u{fffd}motion call\u{20ac}");
        assert_eq!(first, names.of("\u{fffd}motion call\u{fffd}"));
        assert_eq!(Comm::cut(&first.text()), first, "as it is read back");
        assert_eq!((names.of("motion"), names.of("late")), (Comm::cut("motion"), Comm::cut(OTHERS)));
        for bytes in [[0xff; 16], *b"\xe2\x82aaaaaaaaaaa\xc3\xa9\xa9", *b"aaaaaaaaaaaaa\xf0\x9f\x98"] {
            let name = as_text(Comm::new(bytes));
            assert_eq!((Comm::cut(&name.text()), as_text(name)), (name, name));
        }
    }
}
