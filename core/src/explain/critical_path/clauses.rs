//! The clauses of the sentence: one for each cause of a relevant part of the interval.

use super::running::{hidden, Hidden};
use crate::explain::segment::Segment;
use crate::series::Thread;
use crate::time::Ns;

/// Type of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Intended by the thread: its own sleep.
    Wanted,
    /// Its own computation.
    Own,
    /// It encloses the clauses that follow: never a cause by itself.
    Frame,
    /// A cause.
    Blame,
}

/// One clause.
#[derive(Clone, Debug)]
pub struct Clause {
    /// Its type.
    pub weight: Weight,
    /// Net time.
    pub net: Ns,
    /// The text; [`AMOUNT`] is replaced by the amount, [`WHY`] by `why`.
    pub text: String,
    /// A reason that is said once in a sentence.
    pub why: String,
    /// Short name for rankings.
    pub cause: String,
    /// How to fix it.
    pub advice: String,
    /// Counts of interrupts and faults within it.
    pub hidden: Hidden,
}

impl Clause {
    /// Whether the times of both are added up.
    fn is_like(&self, other: &Clause) -> bool {
        (&self.text, &self.why) == (&other.text, &other.why)
    }
}

impl Weight {
    /// Whether it is the thread's own sleep or computation.
    fn is_wanted(self) -> bool {
        matches!(self, Weight::Wanted | Weight::Own)
    }
}

/// Place of the amount in a text: no thread has such a name.
pub const AMOUNT: &str = "\0amount";
/// Place of the reason in a text.
pub const WHY: &str = "\0why";

/// Minimum share of a clause, of the interval or of the time in which its thread did not sleep.
const WORTH: f64 = 0.05;
/// Minimum time next to a long sleep, for a clause and for a cause.
const TOLD: Ns = Ns::from_us(100);
const A_CAUSE: Ns = Ns::from_ms(1);
/// A thread's own time is the cause of an interval if it is this many times that of all others.
const OWN: u64 = 4;
/// A thread that sleeps this often in one interval, for most of it, polls for something.
const POLLS: u32 = 10;
/// Maximum number of clauses in a sentence.
const MOST: usize = 6;

/// Where in the chain a clause belongs.
#[derive(Debug)]
struct Place {
    /// In the order of the walk: where it came first or, if another wait began since, where it took most.
    order: usize,
    /// The most that it took at once.
    net: Ns,
    /// How often it came.
    times: u32,
}

/// Clauses in time order; equal ones are added up.
#[derive(Debug, Default)]
pub struct Clauses {
    all: Vec<Clause>,
    places: Vec<Place>, // of each
    pushed: usize,
    last_wait: usize, // the order of the last new one
    last: usize,      // the one pushed last
    slept: Ns,
    is_job: bool,
    usual: Ns,
    is_lossy: bool,
    may_spin: bool,
    backlog: Ns,
}

impl Clauses {
    /// In a job the thread's own computation and sleeps can be the cause, but for the computation that is `usual`.
    pub fn of_job(&mut self, usual: Ns) {
        (self.is_job, self.usual) = (true, usual);
    }

    /// The trace lost events without reporting it: a cause must weigh more than any other with all of the unexplained time.
    pub fn of_lossy(&mut self) {
        self.is_lossy = true;
    }

    /// The thread was in the kernel, where it may have waited for another CPU: the events that show that may be lost.
    pub fn may_spin(&mut self) {
        self.may_spin = true;
    }

    /// Sets the time of backlog.
    pub fn backlog(&mut self, net: Ns) {
        self.backlog = net;
    }

    /// Adds intended sleep of the thread: its delay may be a small part of the interval then.
    pub fn slept(&mut self, net: Ns) {
        if !self.is_job {
            self.slept = self.slept + net;
        }
    }

    /// Adds a clause.
    pub fn push(&mut self, clause: Clause) {
        self.pushed += 1;
        let mut place = Place { order: self.pushed, net: clause.net, times: 1 };
        self.last = match self.all.iter().position(|known| known.is_like(&clause)) {
            Some(known) => {
                self.places[known].times += 1;
                place.times = self.places[known].times;
                self.all[known].net = self.all[known].net + clause.net;
                if clause.weight != Weight::Frame && clause.net > self.places[known].net {
                    let before = self.places[known].order;
                    let order = if self.last_wait > before { place.order } else { before };
                    self.places[known] = Place { order, ..place };
                }
                known
            }
            None => {
                if clause.weight == Weight::Frame {
                    self.last_wait = self.pushed;
                }
                self.places.push(place);
                self.all.push(clause);
                self.all.len() - 1
            }
        };
    }

    /// Adds counts to the clause pushed last.
    pub fn came_within(&mut self, more: Hidden) {
        if let Some(Clause { hidden, .. }) = self.all.get_mut(self.last) {
            hidden.interrupts = hidden.interrupts.saturating_add(more.interrupts);
            hidden.faults.add(more.faults);
            hidden.wakings += more.wakings;
            for (call, net) in more.calls {
                let known = hidden.calls.entry(call).or_default();
                *known = *known + net;
            }
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
        let polling = self.polling(total);
        let main = polling.or_else(|| self.main(total, unexplained));
        let is_main = |place: usize| main.is_some_and(|main| std::ptr::eq(main, &self.all[place]));
        let is_large =
            |place: usize| self.is_worth(self.all[place].net, total, TOLD) || Some(place) == largest;
        chosen.retain(|&place| is_large(place) || is_main(place));
        chosen.sort_by_key(|&place| !is_main(place));
        chosen.truncate(MOST);
        chosen.sort_by_key(|&place| self.places[place].order);
        let (more, others_net) = self.others(&chosen);
        let texts = self.texts(&chosen, is_large, total);
        let mut sentence = format!("{victim} took {total}");
        if self.is_worth(self.backlog, total, TOLD) && self.backlog > Ns::ZERO {
            let (net, share) = (self.backlog, percent(self.backlog, total));
            sentence
                .push_str(&format!(", {net} ({share}) of it backlog of the previous job, which had overrun"));
        }
        if !texts.is_empty() {
            sentence = format!("{sentence}: {}", texts.join("; "));
        }
        if more > 1 && self.is_worth(others_net, total, TOLD) {
            let share = percent(others_net, total);
            sentence.push_str(&format!("; {more} more causes took {others_net} ({share}) together"));
        }
        if self.is_worth(unexplained, total, TOLD) || texts.is_empty() && unexplained > Ns::ZERO {
            let gaps = tree.all_gaps();
            let most = gaps.iter().max_by_key(|gap| gap.duration_ns).map_or("", |gap| &gap.label);
            sentence.push_str(&format!("; {unexplained} unexplained, most of it: {most}"));
        }
        let mut cause = main.map_or("unexplained", |clause| &clause.cause).to_owned();
        if main.is_some_and(|main| main.weight == Weight::Blame && main.net < others_net) {
            cause.push_str(&format!(" and {more} more"));
        }
        if self.is_job && main.is_some_and(|main| main.weight.is_wanted() && main.hidden.faults.count > 0) {
            let often = main.and_then(|main| hidden(&main.hidden, main.net));
            if let Some((_, Some(faults), _)) = often {
                cause = faults.to_owned();
            }
        }
        if polling.is_some() {
            let advice = format!(
                "{} polls: let it wait for the event itself (condition variable, futex, eventfd), whose wake-up then shows what was late",
                victim.comm
            );
            return (sentence, "polling with sleeps".to_owned(), advice);
        }
        let advice = main.map_or("the record does not show the cause: see the limits below", |clause| {
            // For its own time, advice on the interrupts or faults in it.
            let often = hidden(&clause.hidden, clause.net).filter(|_| clause.weight.is_wanted());
            often.map_or(clause.advice.as_str(), |(_, _, advice)| advice)
        });
        (sentence, cause, advice.to_owned())
    }

    /// Whether `net` is a relevant share of `total`, or, without the sleep, at least `least` and a relevant share of
    /// the rest.
    fn is_worth(&self, net: Ns, total: Ns, least: Ns) -> bool {
        net.share_of(total) >= WORTH
            || net >= least && net.share_of(total.saturating_sub(self.slept)) >= WORTH
    }

    /// The texts of `chosen`, in order. Where links of the chain are left out, their number.
    fn texts(&self, chosen: &[usize], is_large: impl Fn(usize) -> bool, total: Ns) -> Vec<String> {
        let is_link = |place: &usize| self.all[*place].weight == Weight::Frame && is_large(*place);
        let order = |place: &usize| self.places[*place].order;
        let left_out = (0..self.all.len()).filter(is_link).filter(|place| !chosen.contains(place));
        let left_out: Vec<usize> = left_out.map(|place| order(&place)).collect();
        let mut first_left_out = left_out.iter().min();
        let mut texts = Vec::new();
        for (nth, &place) in chosen.iter().enumerate() {
            if first_left_out.take_if(|first| **first < order(&place)).is_some() {
                let waits = if left_out.len() == 1 { "wait" } else { "waits" };
                texts.push(format!("{} more {waits} of the chain, which the tree shows", left_out.len()));
            }
            let earlier = &chosen[..nth];
            let is_new = earlier.iter().all(|&before| self.all[before].why != self.all[place].why);
            let clause = &self.all[place];
            let mut text = said(clause, is_new, total);
            if let (Weight::Wanted, times @ 2..) = (clause.weight, self.places[place].times) {
                text.push_str(&format!(", {times} times"));
            }
            texts.push(text);
        }
        texts
    }

    /// Number and time of the causes that are not in `chosen`.
    fn others(&self, chosen: &[usize]) -> (usize, Ns) {
        let is_other = |(place, clause): &(usize, &Clause)| {
            clause.weight == Weight::Blame && clause.net > Ns::ZERO && !chosen.contains(place)
        };
        let others = || self.all.iter().enumerate().filter(is_other);
        (others().count(), others().map(|(_, clause)| clause.net).sum())
    }

    /// The main cause: the largest blame if it is relevant; a larger frame with its own advice (a page fault, a mutex)
    /// represents the wait inside it, but not a third party that prolonged it.
    fn main(&self, total: Ns, unexplained: Ns) -> Option<&Clause> {
        let largest = |is: fn(Weight) -> bool| {
            let clauses = self.all.iter().filter(move |clause| is(clause.weight));
            clauses.max_by_key(|clause| clause.net).filter(|clause| clause.net > Ns::ZERO)
        };
        let wanted = largest(Weight::is_wanted);
        // Many small causes may have taken the time.
        let (_, all) = self.others(&[]);
        let blame = largest(|weight| weight == Weight::Blame).filter(|blame| {
            self.is_worth(blame.net, total, A_CAUSE) || wanted.is_none_or(|wanted| wanted.net < all)
        });
        let chosen = match (blame, wanted) {
            (Some(blame), Some(wanted))
                if self.is_job && self.unusual(wanted) > blame.net.max(unexplained) =>
            {
                Some(wanted)
            }
            // Most of the interval is the thread's own computation: it is the cause.
            (Some(blame), Some(wanted))
                if wanted.weight == Weight::Own && self.unusual(wanted).0 >= OWN * blame.net.max(all).0 =>
            {
                Some(wanted).filter(|wanted| wanted.net >= unexplained)
            }
            (Some(blame), _) if blame.net.max(all) >= unexplained => Some(blame),
            // What came after the sleep is the cause, if it is anything.
            (_, Some(wanted))
                if wanted.weight == Weight::Wanted && self.is_worth(unexplained, total, A_CAUSE) =>
            {
                None
            }
            (_, Some(wanted)) if wanted.net >= unexplained => Some(wanted),
            _ => None,
        };
        let chosen = chosen.filter(|chosen| !self.is_lossy || self.is_certain(chosen, unexplained));
        chosen.map(|chosen| if chosen.weight == Weight::Blame { self.framed(chosen) } else { chosen })
    }

    /// The thread's own sleeps, if they were many and most of the interval: each ended as requested, and what it waited for
    /// is not recorded.
    fn polling(&self, total: Ns) -> Option<&Clause> {
        let mut counted = self.all.iter().zip(&self.places);
        let is_it = |clause: &Clause, times| {
            clause.weight == Weight::Wanted && times >= POLLS && clause.net.0 > total.0 / 2
        };
        counted.find(|(clause, place)| is_it(clause, place.times)).map(|(clause, _)| clause)
    }

    /// The time of `wanted` that is not usual.
    fn unusual(&self, wanted: &Clause) -> Ns {
        if wanted.weight != Weight::Own {
            return wanted.net;
        }
        let own = self.all.iter().filter(|clause| clause.weight == Weight::Own).map(|clause| clause.net);
        wanted.net.min(own.sum::<Ns>().saturating_sub(self.usual))
    }

    /// Whether no other cause can weigh more than `chosen`, whatever the unexplained time was.
    fn is_certain(&self, chosen: &Clause, unexplained: Ns) -> bool {
        if chosen.weight == Weight::Own {
            let (_, others) = self.others(&[]);
            return !self.may_spin && chosen.net.0 >= OWN * (others + unexplained).0;
        }
        let others =
            self.all.iter().filter(|clause| clause.weight == Weight::Blame && clause.cause != chosen.cause);
        let most = others.map(|clause| clause.net).max().unwrap_or_default();
        chosen.net >= most + unexplained
    }

    fn framed<'c>(&'c self, blame: &'c Clause) -> &'c Clause {
        if !(blame.cause.starts_with("waited for") || blame.cause.starts_with("block I/O")) {
            return blame;
        }
        // Where the reason of an inner wait is missing, an outer one does not speak for it.
        let frames = self
            .all
            .iter()
            .filter(|clause| clause.weight == Weight::Frame && (self.is_lossy || !clause.advice.is_empty()));
        // The innermost one: in a chain of mutexes, the one of the last holder.
        let inner = frames.filter(|frame| frame.net >= blame.net).min_by_key(|frame| frame.net);
        inner.filter(|frame| !frame.advice.is_empty()).unwrap_or(blame)
    }
}

fn said(clause: &Clause, with_why: bool, total: Ns) -> String {
    let amount = format!("{} ({})", clause.net, percent(clause.net, total));
    let often = hidden(&clause.hidden, clause.net).map_or_else(String::new, |(often, ..)| often);
    let why = if with_why { clause.why.as_str() } else { "" };
    clause.text.replacen(AMOUNT, &amount, 1).replacen(WHY, why, 1)
        + &clause.hidden.in_call(clause.net)
        + &often
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
        let (why, hidden) = (String::new(), Hidden::default());
        Clause {
            weight,
            net: Ns::from_us(us),
            text: format!("{cause} took {AMOUNT}"),
            why,
            cause,
            advice,
            hidden,
        }
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
    fn running_that_each_job_has_is_not_why_one_is_late() {
        let cause = |usual_us, clauses: &[(Weight, u64, &str)]| {
            let mut all = Clauses::default();
            all.of_job(Ns::from_us(usual_us));
            clauses.iter().for_each(|(weight, us, cause)| all.push(clause(*weight, *us, cause, "")));
            let rest = Segment::leaf(Kind::Thread, "the rest", Mono(0), Ns::from_us(1_000));
            all.conclude(&Thread::default(), &rest).1
        };
        let throttled = [(Weight::Own, 520, "own"), (Weight::Blame, 480, "throttled")];
        assert_eq!([0, 520].map(|us| cause(us, &throttled)), ["own", "throttled"]);
        let longer = [(Weight::Own, 400, "a"), (Weight::Own, 401, "b"), (Weight::Blame, 199, "throttled")];
        assert_eq!([400, 700].map(|us| cause(us, &longer)), ["b", "throttled"], "401, 101 more than usual");
        assert_eq!(cause(600, &[(Weight::Own, 600, "own")]), "own", "there is nothing else");
    }

    #[test]
    fn many_sleeps_that_are_most_of_the_interval_are_polling() {
        let slept = |times, us| {
            let mut clauses = vec![clause(Weight::Wanted, us, "its own sleep", "as requested"); times];
            clauses.push(clause(Weight::Blame, 400, "timer late", "find the code"));
            concluded(0, clauses).0
        };
        assert_eq!(slept(20, 100), "polling with sleeps");
        assert_eq!(slept(9, 200), "timer late");
        assert_eq!(slept(20, 10), "timer late", "they are a small part");
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
