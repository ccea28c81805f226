//! The smallest and the largest of each quantity on each CPU, from activations: the kernel side does not keep them.

use std::collections::{BTreeMap, HashMap};

use lathunt_core::export::latency_hist;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_core::trace::activation::Activation;

use super::window::Key;

/// Quantities of activations.
const QUANTITIES: [Quantity; 4] =
    [Quantity::Timer, Quantity::Wakeup, Quantity::TimerWakeup, Quantity::SharedPrio];

/// Extremes of one quantity on one CPU.
#[derive(Clone, Copy, Default)]
struct Pair {
    smallest: Option<Ns>,
    largest: Option<Largest>,
}

/// A sample with its activation.
#[derive(Clone, Copy)]
pub(super) struct Largest {
    pub latency: Ns,
    /// When it ended.
    pub at: Mono,
    pub activation: Activation,
}

impl Largest {
    fn worst(&self, quantity: Quantity, cpu: Cpu) -> latency_hist::Worst {
        let a = &self.activation;
        let timer = match quantity {
            Quantity::Timer | Quantity::TimerWakeup => a.timer_part().unwrap_or_default(),
            _ => Ns::ZERO,
        };
        let (victim, before) = (a.thread.thread(), a.before.thread());
        latency_hist::Worst { quantity, cpu, latency: self.latency, timer, victim, before, at: self.at }
    }
}

/// The extremes of every quantity on every CPU.
#[derive(Default)]
pub(super) struct Extremes {
    of: BTreeMap<Cpu, [Pair; QUANTITIES.len()]>,
    since: HashMap<Quantity, Mono>,
}

impl Extremes {
    /// Adds a wake-up; the order does not matter.
    pub fn add(&mut self, a: &Activation) {
        let wakeup = if a.shared { Quantity::SharedPrio } else { Quantity::Wakeup };
        let both = a.timer.filter(|_| !a.shared).map(|_| (Quantity::TimerWakeup, a.latency(), a.switched_in));
        let timer = a.timer_part().zip(a.timer).map(|(part, (_, entry))| (Quantity::Timer, part, entry));
        let all = [a.wakeup().map(|latency| (wakeup, latency, a.switched_in)), timer, both];
        let of_cpu = self.of.entry(a.cpu).or_default();
        for (quantity, latency, at) in all.into_iter().flatten() {
            let Some(place) = QUANTITIES.iter().position(|&known| known == quantity) else { continue };
            if self.since.get(&quantity).is_some_and(|&since| a.switched_in < since) {
                continue;
            }
            let Pair { smallest, largest } = &mut of_cpu[place];
            *smallest = Some(smallest.map_or(latency, |smallest| latency.min(smallest)));
            if largest.is_none_or(|known| latency > known.latency) {
                *largest = Some(Largest { latency, at, activation: *a });
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.of.clear();
    }

    /// Forgets a quantity; wake-ups from before `since` that are added later do not count.
    pub fn clear_of(&mut self, quantity: Quantity, since: Mono) {
        let Some(place) = QUANTITIES.iter().position(|&known| known == quantity) else { return };
        self.of.values_mut().for_each(|of_cpu| of_cpu[place] = Pair::default());
        self.since.insert(quantity, since);
    }

    fn pair(&self, (quantity, cpu): Key) -> Option<&Pair> {
        let place = QUANTITIES.iter().position(|&known| known == quantity)?;
        self.of.get(&cpu).map(|of_cpu| &of_cpu[place])
    }

    /// The smallest.
    pub fn smallest(&self, key: Key) -> Option<Ns> {
        self.pair(key)?.smallest
    }

    /// The largest.
    pub fn largest(&self, key: Key) -> Option<Largest> {
        self.pair(key)?.largest
    }

    /// The largest of each quantity and CPU.
    pub fn worst(&self) -> Vec<latency_hist::Worst> {
        let keys = self.of.keys().flat_map(|&cpu| QUANTITIES.map(|quantity| (quantity, cpu)));
        keys.filter_map(|key| Some(self.largest(key)?.worst(key.0, key.1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::worst::tests::late;
    use super::*;

    const CPU: Cpu = Cpu(1);

    #[test]
    fn the_largest_stays_with_its_activation_and_the_smallest_stays() {
        let mut extremes = Extremes::default();
        for (number, latency) in [(1, 200), (2, 300), (3, 100)] {
            extremes.add(&late(number as i32, latency, number).0);
        }
        let largest = extremes.largest((Quantity::Wakeup, CPU)).unwrap();
        assert_eq!((largest.latency, largest.activation.thread.tid.0), (Ns(300), 2));
        assert_eq!(extremes.smallest((Quantity::Wakeup, CPU)), Some(Ns(100)));
        assert_eq!(extremes.worst().len(), 1);
    }

    #[test]
    fn a_wait_behind_an_equal_is_in_no_other_quantity_but_its_timer_s() {
        let mut extremes = Extremes::default();
        let (a, _) = late(5, 300, 1);
        let timer = Some((Mono(a.waking.0 - 50), Mono(a.waking.0 - 20)));
        extremes.add(&Activation { shared: true, timer, ..a });
        let of = |quantity| extremes.largest((quantity, CPU)).map(|largest| largest.latency.0);
        assert_eq!(QUANTITIES.map(of), [Some(30), None, None, Some(300)]);
    }

    #[test]
    fn a_wake_up_from_before_a_reset_that_is_told_behind_it_does_not_count() {
        let mut extremes = Extremes::default();
        let (early, _) = late(5, 300, 1);
        let (later, _) = late(5, 100, 2);
        extremes.add(&early);
        extremes.clear_of(Quantity::Wakeup, later.switched_in);
        extremes.add(&early);
        assert!(extremes.largest((Quantity::Wakeup, CPU)).is_none());
        extremes.add(&later);
        assert_eq!(extremes.largest((Quantity::Wakeup, CPU)).unwrap().latency, Ns(100));
    }
}
