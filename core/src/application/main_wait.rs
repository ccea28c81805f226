//! Which of the places where a thread blocks is the one that it waits in for its next turn.

use std::collections::HashMap;

use super::cycles::is_regular;
use super::deadlines::fits;
use super::places::{Id, Places};
use super::point::Class;
use crate::time::Mono;
use crate::trace::activation::{Activation, Via};

/// So many distances show that releases are regular.
const FEW: usize = 3;
/// So many waits in a place where nobody waits for a job, such as a page fault, would make it the main one.
const OFTEN: usize = 16;

/// `at`: where each of `activations` blocked; `chosen`: a pattern for the place, said by the user.
pub(super) fn main_wait(
    activations: &[Activation],
    at: &[Id],
    places: &Places,
    chosen: Option<&str>,
) -> Option<Id> {
    let mut count: HashMap<Id, (usize, usize)> = HashMap::new();
    // What returned at once was no wait; where it is one at other times, it counts then.
    let waits = |number: usize| activations.get(number).is_none_or(|one| !one.at_once);
    for (number, place) in at.iter().enumerate().filter(|(number, _)| waits(*number)) {
        let woken_by_timer = activations.get(number + 1).is_some_and(|next| next.via == Via::Timer);
        let (blocked, timed) = count.entry(*place).or_default();
        *blocked += 1;
        *timed += usize::from(woken_by_timer);
    }
    // Nobody waits for a job in a page fault or in a call that moves it to another CPU, however often.
    let may_begin = |place: &Id| !matches!(places.get(*place).class, Class::Other | Class::PageFault);
    let often = |(place, &(blocked, _)): (&Id, &(usize, usize))| !may_begin(place) && blocked >= OFTEN;
    if chosen.is_none() && count.keys().any(may_begin) && count.iter().any(often) {
        count.retain(|place, _| may_begin(place));
    }
    let most = count.values().map(|&(blocked, _)| blocked).max()?;
    // A thread that is behind sleeps until what has passed, and does not block.
    let late =
        activations.iter().filter_map(|one| one.late_sleeps).map(|late| late.count as usize).sum::<usize>();
    let timed = count.iter().filter(|(_, &(_, timed))| timed > 0 && (timed + late) * 2 >= most);
    let name = |place: Id| std::cmp::Reverse(places.get(place).name);
    let fits = |place: &&Id| chosen.is_some_and(|pattern| fits(pattern, &places.get(**place).name));
    if let Some(&place) = count.keys().filter(fits).max_by_key(|&&place| (count[&place], name(place))) {
        return Some(place);
    }
    // Sleeps for some time in the midst of a job may be many; who sleeps until times that are regular begins a job then.
    let regular = count.keys().filter(|&&place| places.get(place).is_absolute_sleep());
    let regular = regular.filter(|&&place| {
        let distances = distances(activations, at, place);
        distances.len() >= FEW && is_regular(&distances, 1)
    });
    if let Some(&place) = regular.max_by_key(|&&place| (count[&place], name(place))) {
        return Some(place);
    }
    let timed = timed.max_by_key(|(place, &(_, timed))| (timed, name(**place)));
    let plain = count.iter().max_by_key(|(place, &(blocked, _))| (blocked, name(**place)))?;
    let of_mutex = places.get(*plain.0).may_be_mutex();
    let on_purpose = count.iter().filter(|(place, &(blocked, _))| {
        let place = places.get(**place);
        let enough = if place.class == Class::Io { most } else { most.div_ceil(2) };
        let waits = matches!(place.class, Class::Sleep | Class::Wait | Class::Lock | Class::Io);
        of_mutex && waits && !place.may_be_mutex() && blocked >= enough
    });
    let on_purpose = on_purpose.max_by_key(|(place, &(blocked, _))| (blocked, name(**place)));
    // A short sleep in a loop that waits for work elsewhere: it waits for its release where it waits for the longest time.
    let waits = |place: Id| total(activations, at, place);
    let elsewhere =
        timed.filter(|(place, _)| places.get(**place).is_relative_sleep()).and_then(|(sleep, _)| {
            let others = count.iter().filter(|&(&place, &(blocked, _))| {
                let begins_jobs = super::candidates::may_begin_jobs(&places.get(place));
                place != *sleep && begins_jobs && blocked * 2 >= most && waits(place) > waits(*sleep) * 2
            });
            others.max_by_key(|&(&place, _)| (waits(place), name(place)))
        });
    elsewhere.or(timed).or(on_purpose).or(Some(plain)).map(|(place, _)| *place)
}

/// From each end of a wait in `place` to the next one, ns.
fn distances(activations: &[Activation], at: &[Id], place: Id) -> Vec<u64> {
    let ends = activations.iter().skip(1).zip(at).filter(|&(_, &of)| of == place);
    let ends: Vec<Mono> = ends.map(|(next, _)| next.begin()).collect();
    ends.windows(2).map(|two| two[1].since(two[0]).0).collect()
}

/// How long it waited in `place`, ns.
fn total(activations: &[Activation], at: &[Id], place: Id) -> u64 {
    let pairs = activations.iter().zip(activations.iter().skip(1)).zip(at).filter(|(_, &of)| of == place);
    pairs.map(|((left, next), _)| next.begin().since(left.blocked).0).sum()
}
