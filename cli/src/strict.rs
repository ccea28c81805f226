//! `--strict`: what a PASS needs beyond the deadline.

use clap::{Args, ValueEnum};
use lathunt_core::verdict::Verdict;

/// Rules that a result must also satisfy.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Strict {
    /// A PASS also needs these criteria. osadl: 1e9 samples, an interval of at most twice the largest latency, a load, and a
    /// calibration. Where one is not met, the verdict is INCONCLUSIVE
    #[arg(long = "strict", value_name = "RULES", value_enum)]
    rules: Option<Rules>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Rules {
    Osadl,
}

impl Strict {
    /// Whether any were asked for.
    #[must_use]
    pub fn is_asked(self) -> bool {
        matches!(self.rules, Some(Rules::Osadl))
    }

    /// The verdict under these rules.
    #[must_use]
    pub fn judge(self, verdict: Verdict) -> Verdict {
        if self.is_asked() {
            verdict.strictly()
        } else {
            verdict
        }
    }
}
