//! An interrupt and its name.

use crate::explain::record::{softirq_name, vector_name};
use crate::trace::event::{Strings, Sym, Vector};

/// An interrupt; the name of a hard one is empty if not recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Line {
    Irq(u32, Sym),
    Vector(Vector),
    Softirq(u8),
}

impl Line {
    pub(super) fn name(self, strings: &Strings) -> String {
        match self {
            Line::Irq(irq, Sym(0)) => format!("hard IRQ {irq}"),
            Line::Irq(irq, name) => format!("hard IRQ {irq} ({})", strings.get(name)),
            Line::Vector(vector) => vector_name(vector),
            Line::Softirq(vec) => format!("softirq {}", softirq_name(vec)),
        }
    }
}
