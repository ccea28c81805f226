//! The places of one thread, numbered. Hot path: a point is looked up, not formatted, for each activation.

use std::fmt::Write;
use std::sync::LazyLock;

use super::point::{Class, Form, Place};
use crate::trace::activation::Point;

/// Maximum number of distinct places; later ones are `other places`.
const PLACES: usize = 32;
/// Size of the cache of points: several points may be one place.
const POINTS: usize = 16;

/// The number of a place, valid until [`Places::forget_but`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id(u8);

const OTHER: Id = Id(u8::MAX);
static OTHER_PLACES: LazyLock<Place> =
    LazyLock::new(|| Place { class: Class::Other, form: Form::Other, name: "other places".to_owned() });
/// Separates a place from a call site, which is 8 hexadecimal digits.
const CALL: char = '@';

/// The call site in a pattern of places.
pub(super) fn call_of(pattern: &str) -> Option<u32> {
    let (_, call) = pattern.rsplit_once(CALL)?;
    u32::from_str_radix(call, 16).ok().filter(|_| call.len() == 8)
}

/// Memory is bounded by [`PLACES`] and [`POINTS`].
#[derive(Clone, Default)]
pub(super) struct Places {
    known: Vec<Place>,
    points: Vec<(Point, Id)>,
    oldest: usize,
}

impl Places {
    /// The place of `point`, and whether it is new.
    pub fn of(&mut self, point: Point, name: fn(Point) -> Option<&'static str>) -> (Id, bool) {
        if let Some(&(_, id)) = self.points.iter().find(|(known, _)| *known == point) {
            return (id, false);
        }
        let mut place = Place::of(point, name);
        if point.site != 0 {
            let _ = write!(place.name, "{CALL}{:08x}", point.site);
        }
        let (id, fresh) = match self.known.iter().position(|known| *known == place) {
            Some(at) => (Id(at as u8), false),
            None if self.known.len() < PLACES => {
                self.known.push(place);
                (Id(self.known.len() as u8 - 1), true)
            }
            None => (OTHER, false),
        };
        if self.points.len() < POINTS {
            self.points.push((point, id));
        } else {
            self.points[self.oldest] = (point, id);
            self.oldest = (self.oldest + 1) % POINTS;
        }
        (id, fresh)
    }

    /// The place with that number.
    pub fn get(&self, id: Id) -> &Place {
        self.known.get(usize::from(id.0)).unwrap_or(&OTHER_PLACES)
    }

    /// Drops all places except these, and returns their new numbers.
    pub fn forget_but<const N: usize>(&mut self, kept: [Option<Id>; N]) -> [Option<Id>; N] {
        let mut fresh = Places::default();
        let kept = kept.map(|id| {
            let place = self.known.get(usize::from(id?.0))?;
            let at = fresh.known.iter().position(|known| known == place).unwrap_or_else(|| {
                fresh.known.push(place.clone());
                fresh.known.len() - 1
            });
            Some(Id(at as u8))
        });
        *self = fresh;
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn futex(argument: u64) -> Point {
        Point { syscall: 202, argument, operation: 0, compat: false, site: 0 }
    }

    fn name(_: Point) -> Option<&'static str> {
        Some("futex")
    }

    #[test]
    fn a_place_keeps_its_number_and_too_many_become_one() {
        let mut places = Places::default();
        let first = places.of(futex(0), name);
        assert!(first.1 && !places.of(futex(0), name).1);
        for address in 1..100 {
            places.of(futex(address), name);
        }
        assert_eq!(places.of(futex(0), name), (first.0, false), "also when its point is forgotten by now");
        assert_eq!(places.get(places.clone().of(futex(99), name).0).name, "other places");
        let second = places.of(futex(1), name).0;
        let kept = places.forget_but([Some(second), None, Some(OTHER)]);
        assert_eq!(
            (places.get(kept[0].unwrap()).name.as_str(), kept[1], kept[2]),
            ("futex FUTEX_WAIT 0x1", None, None)
        );
        assert_eq!(places.of(futex(1), name), (kept[0].unwrap(), false));
        assert!(places.of(futex(50), name).1, "there is room again");
    }

    #[test]
    fn a_call_site_changes_the_name_of_a_place_and_none_of_its_properties() {
        let properties = |place: Place| {
            let waits = [place.is_absolute_sleep(), place.is_relative_sleep(), place.is_on_several()];
            let files = [place.is_read(), place.is_input(), place.is_exit(), place.is_unknown()];
            (place.class, waits, files, place.may_be_mutex(), place.may_be_plain_futex())
        };
        let calls: [fn(Point) -> Option<&'static str>; 7] = [
            |_| Some("clock_nanosleep"),
            |_| Some("nanosleep"),
            |_| Some("futex"),
            |_| Some("poll"),
            |_| Some("read"),
            |_| Some("recvmsg"),
            |_| None,
        ];
        for (call, operation) in calls.into_iter().flat_map(|call| [0, 1, 6, 9, 13].map(|low| (call, low))) {
            let plain = Point { operation, ..futex(64) };
            let [plain, chosen] = [0, 0xfeed_0001].map(|site| {
                let mut places = Places::default();
                let (id, _) = places.of(Point { site, ..plain }, call);
                places.get(id).clone()
            });
            assert_eq!(chosen.name, format!("{}@feed0001", plain.name));
            assert_eq!(properties(plain), properties(chosen));
        }
    }
}
