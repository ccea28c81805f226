//! What the sentence is made of: one clause for each thing that took a worthwhile part of the interval.

use super::running::{hidden, Hidden};
use crate::explain::segment::Segment;
use crate::series::Thread;
use crate::time::Ns;

/// How a clause counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// What the thread itself wanted: its own sleep.
    Wanted,
    /// What it did itself on the CPU.
    Own,
    /// It frames what follows and is made of it: never a cause by itself.
    Frame,
    /// A cause.
    Blame,
}

/// One clause.
#[derive(Clone, Debug)]
pub struct Clause {
    /// How it counts.
    pub weight: Weight,
    /// Net time.
    pub net: Ns,
    /// The text; `{}` stands for the amount.
    pub text: String,
    /// Short name for rankings.
    pub cause: String,
    /// What to do.
    pub advice: String,
    /// What came within it, counted.
    pub hidden: Hidden,
}

impl Weight {
    /// Of the thread's own will: its sleep, or what it did itself.
    fn is_wanted(self) -> bool {
        matches!(self, Weight::Wanted | Weight::Own)
    }
}

/// Below this share of the interval, or of what its thread did not sleep of it, a clause is left out.
const WORTH: f64 = 0.05;
/// Beside a long sleep, what takes less is not told, or not the cause.
const TOLD: Ns = Ns::from_us(100);
const A_CAUSE: Ns = Ns::from_ms(1);
/// A thread's own time is the cause of an interval if it is this many times the time of all others.
const OWN: u64 = 4;
/// Most clauses in a sentence.
const MOST: usize = 6;

/// Clauses in the order of the interval; equal ones are added up.
#[derive(Debug, Default)]
pub struct Clauses {
    all: Vec<Clause>,
    last: usize, // the one pushed last
    slept: Ns,
    is_job: bool,
    backlog: Ns,
}

impl Clauses {
    /// What the thread does of itself in a job, its sleeps included, makes it long as anything else does.
    pub fn of_job(&mut self) {
        self.is_job = true;
    }

    /// So long the job before it went on.
    pub fn backlog(&mut self, net: Ns) {
        self.backlog = net;
    }

    /// So long the thread of the interval slept because it wanted to: what came on top may be a small part of the whole.
    pub fn slept(&mut self, net: Ns) {
        if !self.is_job {
            self.slept = self.slept + net;
        }
    }

    /// One more.
    pub fn push(&mut self, clause: Clause) {
        self.last = match self.all.iter().position(|known| known.text == clause.text) {
            Some(place) => {
                self.all[place].net = self.all[place].net + clause.net;
                place
            }
            None => {
                self.all.push(clause);
                self.all.len() - 1
            }
        };
    }

    /// What came within the one pushed last.
    pub fn came_within(&mut self, more: Hidden) {
        if let Some(Clause { hidden, .. }) = self.all.get_mut(self.last) {
            hidden.interrupts = hidden.interrupts.saturating_add(more.interrupts);
            hidden.faults = hidden.faults.saturating_add(more.faults);
        }
    }

    /// Sentence, cause and advice.
    #[must_use]
    pub fn conclude(&self, victim: &Thread, tree: &Segment) -> (String, String, String) {
        let total = tree.duration_ns;
        let unexplained = tree.total_unexplained();
        let mut chosen: Vec<usize> = (0..self.all.len()).collect();
        chosen.sort_by_key(|&place| std::cmp::Reverse((self.all[place].net, self.all[place].weight)));
        let largest = chosen.first().copied();
        let main = self.main(total, unexplained);
        let is_main = |place: usize| main.is_some_and(|main| std::ptr::eq(main, &self.all[place]));
        let is_told =
            |place: usize| self.is_worth(self.all[place].net, total, TOLD) || Some(place) == largest;
        chosen.retain(|&place| is_told(place) || is_main(place));
        chosen.sort_by_key(|&place| !is_main(place));
        chosen.truncate(MOST);
        chosen.sort_unstable();
        let (more, untold) = self.untold(&chosen);
        let told: Vec<String> = chosen.iter().map(|&place| said(&self.all[place], total)).collect();
        let mut sentence = format!("{victim} took {total}");
        if self.is_worth(self.backlog, total, TOLD) && self.backlog > Ns::ZERO {
            let (net, share) = (self.backlog, percent(self.backlog, total));
            sentence
                .push_str(&format!(", {net} ({share}) of it backlog of the previous job, which had overrun"));
        }
        if !told.is_empty() {
            sentence = format!("{sentence}: {}", told.join("; "));
        }
        if more > 1 && self.is_worth(untold, total, TOLD) {
            let share = percent(untold, total);
            sentence.push_str(&format!("; {more} more causes took {untold} ({share}) together"));
        }
        if self.is_worth(unexplained, total, TOLD) || told.is_empty() && unexplained > Ns::ZERO {
            let gaps = tree.all_gaps();
            let most = gaps.iter().max_by_key(|gap| gap.duration_ns).map_or("", |gap| &gap.label);
            sentence.push_str(&format!("; {unexplained} unexplained, most of it: {most}"));
        }
        let mut cause = main.map_or("unexplained", |clause| &clause.cause).to_owned();
        if main.is_some_and(|main| main.weight == Weight::Blame && main.net < untold) {
            cause.push_str(&format!(" and {more} more"));
        }
        if self.is_job && main.is_some_and(|main| main.weight.is_wanted() && main.hidden.faults > 0) {
            let often = main.and_then(|main| hidden(main.hidden, main.net));
            if often.is_some_and(|(text, _)| text.contains("page faults")) {
                cause = "page faults".to_owned();
            }
        }
        let advice = main.map_or("the record does not show the cause: see the limits below", |clause| {
            // Its own time, and what it can do about what is in it.
            let often = hidden(clause.hidden, clause.net).filter(|_| clause.weight.is_wanted());
            often.map_or(clause.advice.as_str(), |(_, advice)| advice)
        });
        (sentence, cause, advice.to_owned())
    }

    /// Whether something of this length is worth a word, or `least` of it and more is where most of the interval was slept.
    fn is_worth(&self, net: Ns, total: Ns, least: Ns) -> bool {
        net.share_of(total) >= WORTH
            || net >= least && net.share_of(total.saturating_sub(self.slept)) >= WORTH
    }

    /// How many causes are not among the `told` ones, and their time.
    fn untold(&self, told: &[usize]) -> (usize, Ns) {
        let is_untold = |(place, clause): &(usize, &Clause)| {
            clause.weight == Weight::Blame && clause.net > Ns::ZERO && !told.contains(place)
        };
        let untold = || self.all.iter().enumerate().filter(is_untold);
        (untold().count(), untold().map(|(_, clause)| clause.net).sum())
    }

    /// The cause: the largest blame, as long as it matters; a frame that holds more and has advice of its own (a
    /// page fault, a mutex) speaks for the waiting inside it, not for a third party that made it longer.
    fn main(&self, total: Ns, unexplained: Ns) -> Option<&Clause> {
        let largest = |is: fn(Weight) -> bool| {
            let clauses = self.all.iter().filter(move |clause| is(clause.weight));
            clauses.max_by_key(|clause| clause.net).filter(|clause| clause.net > Ns::ZERO)
        };
        let wanted = largest(Weight::is_wanted);
        // Many small ones may be what took the time.
        let (_, all) = self.untold(&[]);
        let blame = largest(|weight| weight == Weight::Blame).filter(|blame| {
            self.is_worth(blame.net, total, A_CAUSE) || wanted.is_none_or(|wanted| wanted.net < all)
        });
        match (blame, wanted) {
            (Some(blame), Some(wanted)) if self.is_job && wanted.net > blame.net.max(unexplained) => {
                Some(wanted)
            }
            // Most of the interval is what the thread did itself on the CPU: nobody else made it that long.
            (Some(blame), Some(wanted))
                if wanted.weight == Weight::Own && wanted.net.0 >= OWN * blame.net.max(all).0 =>
            {
                Some(wanted).filter(|wanted| wanted.net >= unexplained)
            }
            (Some(blame), _) if blame.net.max(all) >= unexplained => Some(self.framed(blame)),
            (_, Some(wanted)) if wanted.net >= unexplained => Some(wanted),
            _ => None,
        }
    }

    fn framed<'c>(&'c self, blame: &'c Clause) -> &'c Clause {
        if !(blame.cause.starts_with("waited for") || blame.cause.starts_with("block I/O")) {
            return blame;
        }
        let frames =
            self.all.iter().filter(|clause| clause.weight == Weight::Frame && !clause.advice.is_empty());
        // The innermost: of a chain of mutexes, that of the thread which had them all wait.
        frames.filter(|frame| frame.net >= blame.net).min_by_key(|frame| frame.net).unwrap_or(blame)
    }
}

fn said(clause: &Clause, total: Ns) -> String {
    let amount = format!("{} ({})", clause.net, percent(clause.net, total));
    let often = hidden(clause.hidden, clause.net).map_or_else(String::new, |(often, _)| often);
    clause.text.replacen("{}", &amount, 1) + &often
}

fn percent(net: Ns, total: Ns) -> String {
    match 100.0 * net.share_of(total) {
        share if share < 0.5 && net > Ns::ZERO => "< 1 %".to_owned(),
        share => format!("{share:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::segment::Kind;
    use crate::time::Mono;

    fn clause(weight: Weight, us: u64, cause: &str, advice: &str) -> Clause {
        let (cause, advice) = (cause.to_owned(), advice.to_owned());
        let hidden = Hidden::default();
        Clause { weight, net: Ns::from_us(us), text: format!("{cause} took {{}}"), cause, advice, hidden }
    }

    /// The cause of an interval of 1 ms of which so much is not explained.
    fn concluded(unexplained_us: u64, clauses: Vec<Clause>) -> (String, String) {
        let mut all = Clauses::default();
        clauses.into_iter().for_each(|clause| all.push(clause));
        let gap = Segment::unexplained(Kind::Lost, "events lost", Mono(0), Ns::from_us(unexplained_us));
        let rest = Segment::leaf(Kind::Thread, "the rest", Mono(0), Ns::from_us(1_000 - unexplained_us));
        let tree = Segment::group(Kind::Passage, "interval", Mono(0), Ns::from_us(1_000), vec![gap, rest]);
        let (sentence, cause, _) = all.conclude(&Thread::default(), &tree);
        (cause, sentence)
    }

    #[test]
    fn nobody_is_the_cause_of_less_than_is_unexplained() {
        let cause = |us| concluded(500, vec![clause(Weight::Blame, us, "thread: hog", "")]).0;
        assert_eq!([cause(499), cause(500)], ["unexplained", "thread: hog"]);
    }

    #[test]
    fn a_cause_that_came_twice_weighs_what_both_did() {
        let twice = || clause(Weight::Blame, 200, "thread: hog", "");
        let (cause, sentence) =
            concluded(0, vec![twice(), clause(Weight::Blame, 300, "idle exit", ""), twice()]);
        assert_eq!(cause, "thread: hog");
        assert!(sentence.contains("thread: hog took 400 µs (40 %)"), "{sentence}");
    }

    #[test]
    fn a_frame_speaks_for_the_waiting_in_it_only_where_it_holds_all_of_that() {
        let waited = || clause(Weight::Blame, 300, "waited for disk", "");
        let framed = |us| concluded(0, vec![clause(Weight::Frame, us, "page fault", "mlockall"), waited()]).0;
        assert_eq!([framed(299), framed(300)], ["waited for disk", "page fault"]);
    }
}
