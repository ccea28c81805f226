//! `--strict` and `--require-verdict`: conditions of a PASS, or a success, beyond the deadline.

use clap::{Args, ValueEnum};
use lathunt_core::verdict::Verdict;

/// Rules that a result must also satisfy.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Criteria {
    /// Criteria that a PASS must also meet. osadl: 1e9 samples, an interval of at most twice the largest latency, a load, and a
    /// calibration. If one is not met, the verdict is INCONCLUSIVE
    #[arg(long = "strict", value_name = "RULES", value_enum)]
    rules: Option<Rules>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Rules {
    Osadl,
}

impl Criteria {
    /// Whether any were requested.
    #[must_use]
    pub fn is_asked(self) -> bool {
        matches!(self.rules, Some(Rules::Osadl))
    }
}

/// Of a command that measures: the criteria, and whether there has to be a verdict at all.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Strict {
    #[command(flatten)]
    criteria: Criteria,
    /// Exit with status 3 if no verdict is possible because no deadline was given (for CI)
    #[arg(long)]
    require_verdict: bool,
}

impl Strict {
    /// The verdict under these rules.
    #[must_use]
    pub fn judge(self, verdict: Verdict) -> Verdict {
        let verdict = if self.criteria.is_asked() { verdict.strictly() } else { verdict };
        if self.require_verdict {
            verdict.required()
        } else {
            verdict
        }
    }
}
