//! Length that the jobs of a thread would have if only one of several call sites in a place, or one of several sources
//! that end a wait, started them.
//!
//! A place is a system call with its arguments. A job that also sleeps in the place where it started waits there twice,
//! and if that sleep ends at a fraction of the period, the releases are regular: it looks like two jobs of half the
//! period. Only the call site differs ([`Activation::site`]). So, in a place with several sites, the longest span from
//! a release at a site to the next wait there is kept.
//!
//! Coroutines may share the call site, but have their own stacks. In a wait for several events (poll, epoll, a set of
//! signals), the second part of a job starts with another source: another timer or thread. A [`Key`] has all of these.
//!
//! In many programs, several threads post to one semaphore or pipe, each with its own jobs. Only if they always
//! alternate may one have woken the thread within the other's jobs ([`Sites::report_turns`]). The same holds for packets of
//! the machine itself, which are interrupts in the context of their sender. Several timers can end a
//! read only on a signalfd.
//!
//! A site is a hash of likely return addresses, and one call may have two if another value on the stack looked like
//! one. Then the releases at one site fill the gaps of the other on its period: such a span is not a job. A wait within
//! a job does not affect the releases at the job's first wait.
//!
//! [`Activation::site`]: crate::trace::activation::Activation::site

use std::collections::VecDeque;

use super::cycles::is_regular;
use super::places::{Id, Places};
use super::point::{Class, Place};
use super::sums::PERIODIC;
use super::task::OtherSpans;
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, Via};

/// Distinguishes waits in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub place: Id,
    /// [`Activation::site`]
    pub call: u32,
    pub stack: u16,
    /// Source that ended a wait for several events.
    pub source: Option<Source>,
}

/// Source that ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A timer, by a hash of its address; 0: the timeout of the call.
    Timer(u16),
    Thread(Tid),
    Interrupt,
}

impl Key {
    /// Key of the wait in `place` (`what`) between `before` and `after`.
    pub fn of(place: Id, what: &Place, before: &Activation, after: &Activation) -> Key {
        let source = match after.via {
            Via::Timer => Source::Timer(after.source),
            Via::Thread => Source::Thread(after.waker.tid),
            Via::Interrupt | Via::Unknown => Source::Interrupt,
        };
        let source =
            (what.class == Class::Wait || after.via == Via::Timer && what.is_read()).then_some(source);
        Key { place, call: before.site, stack: before.stack, source }
    }

    /// Key by the waking thread; all other sources share one key. Packets of the machine itself arrive in a softirq that
    /// runs in their sender; the thread that another interrupt meets is random, and does not alternate.
    pub fn of_waker(place: Id, after: &Activation) -> Key {
        let other = after.waker.tid != after.thread.tid && after.waker.tid != Tid::IDLE;
        let is_thread = after.via != Via::Timer && other;
        Key { place, call: u32::from(is_thread), stack: 0, source: Some(Source::Thread(after.waker.tid)) }
    }
}

/// Maximum number of sites per thread.
const SITES: usize = 16;
/// Number of later waits after which a site that occurred once is replaced.
const OLD: u64 = 64;
/// Number of spans of a site that give its period and are compared with it.
const RECENT: usize = 16;
/// Minimum number of spans for a known period.
const KNOWN: usize = 3;
/// Number of spans with the same number of other releases that shows that sites alternate; one in [`STEADY`] may
/// differ.
const STEADY: u64 = 8;
/// Maximum number of releases at other sites per span.
const BETWEEN: usize = 64;

/// Sites of one thread.
#[derive(Clone, Default)]
pub(super) struct Sites {
    known: Vec<Site>,
    waits: u64,
}

#[derive(Clone)]
struct Site {
    key: Key,
    count: u64,
    last: u64,
    /// Release of the current span, and offsets of the other releases in the place, ns.
    open: Option<(Mono, Vec<u64>)>,
    spans: VecDeque<Span>,
    longest: Option<Ns>,
    /// Spans with the same number of other releases as the one before, and the rest.
    steady: u64,
    unsteady: u64,
    between: usize,
}

/// From a release to the next one at the site.
#[derive(Clone)]
struct Span {
    /// To the wait that the next release ends.
    length: Ns,
    distance: u64,
    others: Vec<u64>,
}

impl Sites {
    /// Resets the figures; the numbers of places change.
    pub fn begin_window(&mut self) {
        self.known.clear();
    }

    /// Activations are missing: no span across them is known.
    pub fn forget(&mut self) {
        self.known.iter_mut().for_each(|site| site.open = None);
    }

    /// A wait from `since` ended at `release`. If its call site is not known, it may be any.
    pub fn released(&mut self, key: Key, since: Mono, release: Mono) {
        self.waits += 1;
        let others = self.known.iter_mut().filter(|one| one.key.place == key.place && one.key != key);
        for (open, between) in others.filter_map(|one| one.open.as_mut()) {
            if between.len() < BETWEEN {
                between.push(release.since(*open).0);
            }
        }
        let Some(at) = (key.call != 0).then(|| self.of(key)).flatten() else { return };
        let waits = self.waits;
        let one = &mut self.known[at];
        (one.count, one.last) = (one.count + 1, waits);
        if let Some((begin, others)) = one.open.replace((release, Vec::new())) {
            let is_steady = !others.is_empty() && others.len() == one.between;
            *(if is_steady { &mut one.steady } else { &mut one.unsteady }) += 1;
            one.between = others.len();
            one.spans.push_back(Span {
                length: since.since(begin),
                distance: release.since(begin).0,
                others,
            });
        }
        if one.spans.len() > RECENT {
            let alone = !self.has_several(key.place);
            let pace = if alone { None } else { self.pace(&self.known[at]) };
            self.known[at].hold_first(pace, alone);
        }
    }

    fn of(&mut self, key: Key) -> Option<usize> {
        let known = self.known.iter().position(|one| one.key == key);
        if known.is_some() {
            return known;
        }
        if self.known.len() >= SITES {
            let old = |one: &Site| one.count == 1 && self.waits - one.last > OLD;
            let old = self.known.iter().position(old)?;
            self.known.swap_remove(old);
        }
        let (count, last, open, longest) = (0, 0, None, None);
        let (spans, steady, unsteady, between) = (VecDeque::new(), 0, 0, 0);
        self.known.push(Site { key, count, last, open, spans, longest, steady, unsteady, between });
        Some(self.known.len() - 1)
    }

    fn has_several(&self, place: Id) -> bool {
        self.known.iter().filter(|one| one.key.place == place).count() > 1
    }

    /// The period of `of`, or else the shortest period of a site in its place; `None`: no site has regular releases.
    fn pace(&self, of: &Site) -> Option<Ns> {
        let of_place =
            || self.known.iter().filter(|one| one.key.place == of.key.place).filter_map(Site::period).min();
        of.period().or_else(of_place)
    }

    /// The longest span of each site, in places with several sites.
    pub fn report(&self, places: &Places) -> Vec<OtherSpans> {
        self.report_those(places, |_| true)
    }

    /// [`Sites::report`] for the sites that alternate with others.
    pub fn report_turns(&self, places: &Places) -> Vec<OtherSpans> {
        self.report_those(places, |one| one.steady >= STEADY && one.unsteady <= one.steady.div_ceil(STEADY))
    }

    fn report_those(&self, places: &Places, of: fn(&Site) -> bool) -> Vec<OtherSpans> {
        let several = self.known.iter().filter(|one| of(one) && self.has_several(one.key.place));
        let longest = |one: &Site| {
            let (mut whole, pace) = (one.clone(), self.pace(one));
            while !whole.spans.is_empty() {
                whole.hold_first(pace, false);
            }
            whole.longest
        };
        let told = several.filter_map(|one| {
            let mut of_place = self.known.iter().filter(|other| other.key.place == one.key.place);
            let by_call = of_place.any(|other| other.key.call != one.key.call);
            let source = || one.key.source.map_or_else(|| "one stack".to_owned(), Source::text);
            Some(OtherSpans {
                place: places.get(one.key.place).name.clone(),
                after_timer: matches!(one.key.source, Some(Source::Timer(_))),
                longest_ns: longest(one)?,
                call: by_call.then(|| format!("{:08x}", one.key.call)),
                source: (!by_call).then(source),
            })
        });
        told.collect()
    }
}

impl Source {
    fn text(self) -> String {
        match self {
            Source::Timer(_) => "one timer".to_owned(),
            Source::Thread(tid) => format!("thread {tid}"),
            Source::Interrupt => "interrupts".to_owned(),
        }
    }
}

impl Site {
    /// The median interval between its releases, if they are regular. A missing release leaves a multiple.
    fn period(&self) -> Option<Ns> {
        let mut distances: Vec<u64> = self.spans.iter().map(|span| span.distance).collect();
        if distances.len() < KNOWN || !is_regular(&distances, 1) {
            return None;
        }
        distances.sort_unstable();
        distances.get(distances.len() / 2).copied().map(Ns)
    }

    /// `period`: the period its releases are compared with; `alone`: no other site in its place is known.
    fn hold_first(&mut self, period: Option<Ns>, alone: bool) {
        let Some(span) = self.spans.pop_front().filter(|_| !alone) else { return };
        if !period.is_some_and(|period| span.is_filled(period.0 as f64)) {
            self.longest = self.longest.max(Some(span.length));
        }
    }
}

impl Span {
    /// Whether another site has each release that is missing in this span by `period`.
    fn is_filled(&self, period: f64) -> bool {
        let missing = (self.distance as f64 / period).round() as usize;
        let near = |nth: usize| {
            let due = nth as f64 * period;
            self.others.iter().any(|&other| (other as f64 - due).abs() <= PERIODIC * period)
        };
        missing > 1 && (1..missing.min(BETWEEN)).all(near)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{name, SLEEP};
    use super::*;

    const MS: u64 = 1_000_000;

    fn key(place: Id, call: u32) -> Key {
        Key { place, call, stack: 0, source: None }
    }

    /// Waits of one thread in one place: how long after the one before it each ends, how long it works then, and the site
    /// of the wait behind that.
    fn of(waits: &[(u64, u64, u32)]) -> Vec<(u32, Ns)> {
        let mut places = Places::default();
        let (place, _) = places.of(SLEEP, name);
        let (mut sites, mut release, mut since, mut site) = (Sites::default(), 0, 0, 0);
        for (distance, works, next) in waits {
            release += distance;
            sites.released(key(place, site), Mono(since), Mono(release));
            (since, site) = (release + works, *next);
        }
        let told = sites.report(&places).into_iter();
        let told = told.map(|told| (u32::from_str_radix(&told.call.unwrap(), 16).unwrap(), told.longest_ns));
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        told
    }

    fn times(count: usize, waits: &[(u64, u64, u32)]) -> Vec<(u64, u64, u32)> {
        waits.iter().copied().cycle().take(count * waits.len()).collect()
    }

    #[test]
    fn a_sleep_at_half_the_period_is_another_call_and_the_job_has_its_length() {
        let job = [(50 * MS, 25 * MS, 1), (50 * MS, 20 * MS, 2)]; // released at site 2, 1, 2, 1 …
        assert_eq!(of(&times(50, &job)), [(1, Ns(75 * MS)), (2, Ns(70 * MS))]);
    }

    #[test]
    fn a_sleep_in_few_jobs_is_seen_also() {
        let mut waits = times(20, &[(100 * MS, 10 * MS, 1)]);
        waits.extend([(100 * MS, 10 * MS, 2), (50 * MS, 30 * MS, 1), (50 * MS, 10 * MS, 1)]);
        waits.extend(times(20, &[(100 * MS, 10 * MS, 1)]));
        waits.extend([(100 * MS, 10 * MS, 2), (50 * MS, 5 * MS, 1), (50 * MS, 10 * MS, 1)]);
        assert_eq!(of(&waits)[0], (1, Ns(80 * MS)));
    }

    #[test]
    fn one_call_with_two_hashes_has_no_longer_turns() {
        let mut dice = 5_u64;
        let mut waits = Vec::new();
        for _ in 0..400 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            waits.push((10 * MS, 4 * MS, if (dice >> 33).is_multiple_of(10) { 2 } else { 1 }));
        }
        assert!(of(&waits).iter().all(|(_, longest)| *longest == Ns(4 * MS)));
    }

    #[test]
    fn one_site_is_not_told_and_many_take_no_more_room() {
        assert_eq!(of(&times(50, &[(10 * MS, 4 * MS, 1)])), []);
        let many: Vec<(u64, u64, u32)> = (1..1_000).map(|site| (MS, MS / 2, site)).collect();
        assert_eq!(of(&many), [], "none of them twice");
        let mut sites = Sites::default();
        let mut places = Places::default();
        let (place, _) = places.of(SLEEP, name);
        (1..1_000).for_each(|site| sites.released(key(place, site), Mono(0), Mono(u64::from(site))));
        assert!(sites.known.len() <= SITES);
    }

    #[test]
    fn a_call_that_is_not_known_leaves_no_gap_in_the_turns_of_another() {
        let mut waits = times(20, &[(10 * MS, 4 * MS, 1)]);
        waits.extend([(10 * MS, 4 * MS, 0), (10 * MS, 4 * MS, 1), (5 * MS, MS, 2), (5 * MS, 2 * MS, 1)]);
        waits.extend(times(20, &[(10 * MS, 4 * MS, 1), (10 * MS, 4 * MS, 2)]));
        assert!(of(&waits).iter().all(|(_, longest)| *longest <= Ns(14 * MS)), "{:?}", of(&waits));
    }

    #[test]
    fn threads_that_post_to_one_semaphore_are_told_only_where_they_take_turns() {
        let told = |order: &[i32]| {
            let mut places = Places::default();
            let (place, _) = places.of(SLEEP, name);
            let mut sites = Sites::default();
            for (nth, tid) in (1..).zip(order.iter().cycle().take(200)) {
                let key = Key { place, call: 1, stack: 0, source: Some(Source::Thread(Tid(*tid))) };
                sites.released(key, Mono(nth * 50 * MS - 25 * MS), Mono(nth * 50 * MS));
            }
            sites.report_turns(&places).iter().map(|told| told.longest_ns).max()
        };
        assert_eq!(told(&[7, 8]), Some(Ns(75 * MS)));
        assert_eq!(told(&[7, 8, 8]), Some(Ns(125 * MS)), "asked once, answered twice");
        assert_eq!(told(&[7, 7, 8, 7, 8, 8, 8, 7, 9, 8, 7, 9, 9, 7, 8]), None);
        assert_eq!(told(&[7]), None);
    }
}
