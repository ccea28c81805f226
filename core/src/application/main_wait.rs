//! Infers the main wait: the place where a thread waits for its next job.

use std::collections::HashMap;

use super::cycles::is_regular;
use super::grid::{asked, is_computed};
use super::places::{Id, Places};
use super::point::{Class, Place};
use crate::glob::fits;
use crate::time::Mono;
use crate::trace::activation::{Activation, Via};

/// Minimum number of intervals that show regular releases.
const FEW: usize = 3;
/// Maximum ratio of the total sleep in a job that polls to the total wait for its release.
const POLLS: u64 = 4;
/// Number of waits from which a place that cannot start jobs, such as a page fault, is excluded.
const OFTEN: usize = 16;

/// `at`: the place where each of `activations` blocked; `chosen`: the user's pattern for the place.
pub(super) fn main_wait(
    activations: &[Activation],
    at: &[Id],
    places: &Places,
    chosen: Option<&str>,
) -> Option<Id> {
    let mut count: HashMap<Id, (usize, usize)> = HashMap::new();
    // A call that returned at once was not a wait.
    let waits = |number: usize| activations.get(number).is_none_or(|one| !one.at_once);
    for (number, place) in at.iter().enumerate().filter(|(number, _)| waits(*number)) {
        let woken_by_timer = activations.get(number + 1).is_some_and(|next| next.via == Via::Timer);
        let (blocked, timed) = count.entry(*place).or_default();
        *blocked += 1;
        *timed += usize::from(woken_by_timer);
    }
    // A thread does not wait for a job in a page fault, in a write or in a call that migrates it, however often.
    let may_begin = |place: &Id| {
        let place = places.get(*place);
        place.class == Class::Lock || super::candidates::may_begin_jobs(place)
    };
    let often = |(place, &(blocked, _)): (&Id, &(usize, usize))| !may_begin(place) && blocked >= OFTEN;
    if chosen.is_none() && count.keys().any(may_begin) && count.iter().any(often) {
        count.retain(|place, _| may_begin(place));
    }
    let most = count.values().map(|&(blocked, _)| blocked).max()?;
    // A thread that is late sleeps until a time that has passed, and does not block.
    let late =
        activations.iter().filter_map(|one| one.late_sleeps).map(|late| late.count as usize).sum::<usize>();
    let timed = count.iter().filter(|&(_, &(_, timed))| timed > 0 && (timed + late) * 2 >= most);
    let name = |place: Id| std::cmp::Reverse(places.get(place).name.as_str());
    let fits = |place: &&Id| chosen.is_some_and(|pattern| fits(pattern, &places.get(**place).name));
    if let Some(&place) = count.keys().filter(fits).max_by_key(|&&place| (count[&place], name(place))) {
        return Some(place);
    }
    // A job may contain many relative sleeps; absolute sleeps until computed times start jobs.
    let is_steady = |place: Id| {
        let distances = distances(activations, at, place);
        distances.len() >= FEW && is_regular(&distances, 1)
    };
    let is_computed = |place: Id| is_computed(&distances(activations, at, place));
    let is_absolute = |place: Id| places.get(place).is_absolute_sleep();
    let regular = count.keys().filter(|&&place| is_absolute(place) && is_steady(place) && is_computed(place));
    if let Some(&place) = regular.max_by_key(|&&place| (count[&place], name(place))) {
        return Some(place);
    }
    let timed = timed.max_by_key(|&(place, &(_, timed))| (timed, name(*place)));
    let plain = count.iter().max_by_key(|&(place, &(blocked, _))| (blocked, name(*place)))?;
    let of_mutex = places.get(*plain.0).may_be_mutex();
    let on_purpose = count.iter().filter(|&(place, &(blocked, _))| {
        let place = places.get(*place);
        let enough = if place.class == Class::Io { most } else { most.div_ceil(2) };
        let waits = matches!(place.class, Class::Sleep | Class::Wait | Class::Lock | Class::Io);
        of_mutex && waits && !place.may_be_mutex() && blocked >= enough
    });
    let on_purpose = on_purpose.max_by_key(|&(place, &(blocked, _))| (blocked, name(*place)));
    // A short sleep in a loop that waits for work elsewhere: the main wait is the place with the longest total wait. A job
    // may also poll, with many sleeps, and wait for its regular release elsewhere.
    let waits = |place: Id| total(activations, at, place);
    let from_now =
        |place: Id| places.get(place).is_relative_sleep() || is_absolute(place) && !is_computed(place);
    let elsewhere = timed.filter(|&(&place, _)| from_now(place)).and_then(|(sleep, _)| {
        let others = count.iter().filter(|&(&place, &(blocked, _))| {
            let often = blocked * 2 >= most && waits(place) > waits(*sleep) * 2;
            let released = || waits(place) * POLLS > waits(*sleep) && is_steady(place);
            place != *sleep && may_release(places.get(place)) && (often || released())
        });
        others.max_by_key(|&(&place, _)| (waits(place), name(place)))
    });
    elsewhere.or(timed).or(on_purpose).or(Some(plain)).map(|(place, _)| *place)
}

/// Whether jobs may start there rather than at a relative sleep.
fn may_release(place: &Place) -> bool {
    super::candidates::may_begin_jobs(place) && !place.is_relative_sleep()
}

/// Whether more activations may show that `main` is within jobs: too few waits for the intervals between releases elsewhere,
/// of any kind if `main` is a relative sleep, else of absolute sleeps.
pub(super) fn may_be_within(main: Id, at: &[Id], places: &Places) -> bool {
    let few = |place: Id| at.iter().filter(|&&of| of == place).count() <= FEW + 1;
    let (polls, sleeps) = (places.get(main).is_relative_sleep(), places.get(main).is_absolute_sleep());
    let elsewhere = |&id: &Id| {
        let place = places.get(id);
        let releases = (polls && may_release(place)) || (!sleeps && place.is_absolute_sleep());
        id != main && releases && few(id)
    };
    at.iter().any(elsewhere)
}

/// Intervals between the ends of waits in `place`, ns.
fn distances(activations: &[Activation], at: &[Id], place: Id) -> Vec<u64> {
    let waits = activations.iter().zip(activations.iter().skip(1)).zip(at).filter(|&(_, &of)| of == place);
    let ends: Vec<Mono> = waits.map(|((left, next), _)| asked(next, left.late_sleeps)).collect();
    ends.windows(2).map(|two| two[1].since(two[0]).0).collect()
}

/// Total wait in `place`, ns.
fn total(activations: &[Activation], at: &[Id], place: Id) -> u64 {
    let pairs = activations.iter().zip(activations.iter().skip(1)).zip(at).filter(|&(_, &of)| of == place);
    pairs.map(|((left, next), _)| next.begin().since(left.blocked).0).sum()
}
