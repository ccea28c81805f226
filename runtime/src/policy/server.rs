//! The sporadic server (Sprunt, Sha & Lehoczky 1989): capacity is replenished one period after its use began.
//!
//! POSIX's SCHED_SPORADIC lets a server run more than its share (Stanovich et al., RTAS 2010: premature and amplified
//! replenishments). Here each piece of capacity has the time from which it may be used; the used part of a piece is
//! replenished one period after the later of that time and the activation. The pieces always add up to the budget. If there
//! would be more pieces than allowed, the newest two are merged at the later time, which can only delay.

use super::{NEVER, PRIORITIES};

/// Maximum number of pieces of capacity of a server, at least POSIX's SS_REPL_MAX of 4.
pub const MOST_REPLENISHMENTS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    from: u64,
    amount: u64,
}

/// One server. All times in ns.
#[derive(Clone, Debug)]
pub struct Server {
    /// Priority while there is capacity.
    pub high: u8,
    /// Priority without; below `high`.
    pub low: u8,
    period: u64,
    budget: u64,
    pieces: [Piece; MOST_REPLENISHMENTS + 1],
    used: usize,
    most: usize,
    activation: u64,
}

impl Server {
    /// A full server; the budget must be above 0 and at most the period, the pending replenishments 1 to
    /// [`MOST_REPLENISHMENTS`]; `None` otherwise.
    #[must_use]
    pub fn new(
        high: u8,
        low: u8,
        period: u64,
        budget: u64,
        replenishments: usize,
        now: u64,
    ) -> Option<Server> {
        let fits = budget > 0 && budget <= period && (1..=MOST_REPLENISHMENTS).contains(&replenishments);
        if !fits || low >= high || high >= PRIORITIES || period > NEVER / 4 {
            return None;
        }
        let mut pieces = [Piece { from: 0, amount: 0 }; MOST_REPLENISHMENTS + 1];
        pieces[0] = Piece { from: now, amount: budget };
        Some(Server { high, low, period, budget, pieces, used: 1, most: replenishments + 1, activation: now })
    }

    /// The thread became ready after a wait.
    pub fn activate(&mut self, now: u64) {
        self.activation = now;
    }

    /// Capacity available at `now`, in ns.
    #[must_use]
    pub fn available(&self, now: u64) -> u64 {
        self.pieces[..self.used].iter().take_while(|piece| piece.from <= now).map(|piece| piece.amount).sum()
    }

    /// Time of the next replenishment after `now`, or [`NEVER`].
    #[must_use]
    pub fn next_replenishment(&self, now: u64) -> u64 {
        self.pieces[..self.used].iter().find(|piece| piece.from > now).map_or(NEVER, |piece| piece.from)
    }

    /// All capacity, including pending replenishments: always the budget.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.pieces[..self.used].iter().map(|piece| piece.amount).sum()
    }

    /// The thread ran at its high priority for `ran` ns until `now`. Returns the time beyond the capacity: 0 if the machine
    /// layer was on time.
    pub fn consume(&mut self, ran: u64, now: u64) -> u64 {
        let mut left = ran;
        while left > 0 && self.used > 0 && self.pieces[0].from <= now {
            let piece = self.pieces[0];
            let taken = piece.amount.min(left);
            left -= taken;
            if taken == piece.amount {
                self.pieces.copy_within(1..self.used, 0);
                self.used -= 1;
            } else {
                self.pieces[0].amount -= taken;
            }
            self.give_back(taken, piece.from.max(self.activation) + self.period);
        }
        debug_assert_eq!(self.total(), self.budget);
        left
    }

    fn give_back(&mut self, amount: u64, from: u64) {
        let last = self.used.checked_sub(1);
        match last {
            Some(last) if self.pieces[last].from == from => self.pieces[last].amount += amount,
            Some(last) if self.used == self.most => {
                self.pieces[last].amount += amount;
                self.pieces[last].from = self.pieces[last].from.max(from);
            }
            _ => {
                self.pieces[self.used] = Piece { from, amount };
                self.used += 1;
            }
        }
    }
}
