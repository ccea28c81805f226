//! The kernel's own tracer, in a private instance of the trace buffer.
//!
//! The top-level buffer belongs to its users and is never touched; nor are `ftrace_enabled` and the function
//! filters, which are global and may be read-only. `events` lists the tracepoints, `instance` creates and removes
//! the buffer, `pages` moves its pages into files, `recording` combines them.
//!
//! If tracefs is not mounted, a mount visible only to this process is used ([`crate::debugfs::DetachedMount`]).

mod description;
mod events;
mod instance;
mod pages;
mod recording;
pub(crate) mod uprobes;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::debugfs::DetachedMount;
use crate::error::{Error, Result};

pub use events::EventSet;
pub(crate) use instance::{has_ended, Instance};
pub use instance::{left, remove_left};
pub use recording::{pages_of_unfinished, Options, Recorded, Recording, Summary, FILE, HEAD_FILE};

const NEEDS: &str = "needs root, and a kernel with CONFIG_TRACING";

/// The root of a tracefs.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Keeps `root` valid if tracefs is not mounted.
    _mount: Option<DetachedMount>,
}

impl Tracefs {
    /// The mounted tracefs, or one mounted for this process only.
    ///
    /// # Errors
    /// The kernel does not have it, or this user may not use it.
    pub fn open() -> Result<Tracefs> {
        if let Some(mounted) = Tracefs::mounted()? {
            return Ok(mounted);
        }
        let mount = DetachedMount::new("tracefs").map_err(|error| error.hint(NEEDS))?;
        Ok(Tracefs { root: mount.path(), _mount: Some(mount) })
    }

    /// The mounted tracefs; `None` if it is not mounted.
    ///
    /// # Errors
    /// This user may not use it.
    pub fn mounted() -> Result<Option<Tracefs>> {
        for root in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(Path::new) {
            match fs::metadata(root.join("instances")) {
                Ok(_) => return Ok(Some(Tracefs { root: root.to_owned(), _mount: None })),
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    return Err(Error::new("use", root.display().to_string(), error).hint(NEEDS));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Its root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Bytes of a file below the root; empty if it is absent.
    fn bytes(&self, file: &str) -> Vec<u8> {
        read_whole(&self.root.join(file)).unwrap_or_default()
    }
}

/// Like `fs::read`, but with large reads: `header_page` returns everything to the first read, and nothing to a
/// second.
fn read_whole(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let (mut all, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(all),
            read => all.extend(&piece[..read]),
        }
    }
}
