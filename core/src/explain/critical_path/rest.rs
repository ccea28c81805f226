//! A time that is divided into successive parts.

use crate::time::Mono;

/// The rest of a time: each part starts where the one before it ended, so that no time is in two parts.
pub(super) struct Rest {
    from: Mono,
    end: Mono,
}

impl Rest {
    /// All of `[a, b)`.
    pub fn of((a, b): (Mono, Mono)) -> Rest {
        Rest { from: a, end: b.max(a) }
    }

    /// The next part, up to `at`: empty if `at` is before the rest, all of the rest if it is after it.
    pub fn until(&mut self, at: Mono) -> (Mono, Mono) {
        let from = self.from;
        self.from = at.clamp(from, self.end);
        (from, self.from)
    }

    /// Its start.
    pub fn from(&self) -> Mono {
        self.from
    }

    /// The last part.
    pub fn last(self) -> (Mono, Mono) {
        (self.from, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_wherever_their_ends_are() {
        let mut rest = Rest::of((Mono(10), Mono(50)));
        let parts = [20, 5, 30, 70].map(|at| rest.until(Mono(at)));
        let parts = parts.map(|(begin, end)| (begin.0, end.0));
        assert_eq!(parts, [(10, 20), (20, 20), (20, 30), (30, 50)]);
        assert_eq!(rest.last(), (Mono(50), Mono(50)));
    }
}
