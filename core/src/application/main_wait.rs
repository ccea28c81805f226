//! Which of the places where a thread blocks is the one that it waits in for its next turn.

use std::collections::HashMap;

use super::places::{Id, Places};
use super::point::Class;
use crate::trace::activation::{Activation, Via};

/// `at`: where each of `activations` blocked.
pub(super) fn main_wait(activations: &[Activation], at: &[Id], places: &Places) -> Option<Id> {
    let mut count: HashMap<Id, (usize, usize)> = HashMap::new();
    for (number, place) in at.iter().enumerate() {
        let woken_by_timer = activations.get(number + 1).is_some_and(|next| next.via == Via::Timer);
        let (blocked, timed) = count.entry(*place).or_default();
        *blocked += 1;
        *timed += usize::from(woken_by_timer);
    }
    let most = count.values().map(|&(blocked, _)| blocked).max()?;
    // A thread that is behind sleeps until what has passed, and does not block.
    let late =
        activations.iter().filter_map(|one| one.late_sleeps).map(|late| late.count as usize).sum::<usize>();
    let timed = count.iter().filter(|(_, &(_, timed))| timed > 0 && (timed + late) * 2 >= most);
    let name = |place: Id| std::cmp::Reverse(places.get(place).name);
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
    timed.or(on_purpose).or(Some(plain)).map(|(place, _)| *place)
}
