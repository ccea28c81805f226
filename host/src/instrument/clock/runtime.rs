//! Reads on a fiber of `lathunt-runtime` beside the same reads on a thread: the question of MaRTE OS's table, whose
//! user-space threads paid two changes of the signal mask per read. Here a fiber reads the vDSO directly.

use lathunt_core::clock::Cost;
use lathunt_runtime::{allocator_holds, now, run, Builder, Config};

use super::path::gettime;
use super::Pairs;
use crate::error::{Error, Result};

/// Stack of the measuring fiber.
const STACK: usize = 512 << 10;

/// Both ways; fewer if cut short by a signal.
///
/// # Errors
/// If the runtime does not start.
pub(super) fn all(pairs: &Pairs) -> Result<Vec<Cost>> {
    let pairs = *pairs;
    let refused = |why: String| Error::refused("measure on", "a thread of lathunt-runtime", why);
    let measured = run(&Config::default(), || {
        if !allocator_holds() {
            return Err("this program's allocator is not safe to interrupt".to_owned());
        }
        let reads = move || {
            [
                pairs.cost("lathunt-runtime now", 1.0, now),
                pairs.cost("clock_gettime MONOTONIC, in a fiber", 1.0, || gettime(libc::CLOCK_MONOTONIC)),
            ]
        };
        let fiber = Builder::new("clock").priority(1).stack(STACK).spawn(reads);
        let fiber = fiber.map_err(|error| error.to_string())?;
        let costs = fiber.join().map_err(|error| error.to_string())?;
        costs.map_err(|_| "the fiber panicked".to_owned())
    });
    let costs = measured.map_err(|error| refused(error.to_string()))?.map_err(refused)?;
    Ok(costs.into_iter().flatten().collect())
}
