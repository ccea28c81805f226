//! One case for each kind of cause: events → printed explanation.

mod blocked;
mod damage;
mod interrupts;
mod late;
mod stalls;
mod standstill;
mod stolen;
mod threads;
