//! Names of the system calls that threads block in, by number of this architecture or of its 32-bit programs.

use lathunt_core::trace::activation::Point;
use lathunt_core::trace::syscall_names::SyscallTable;

const TABLE: SyscallTable =
    if cfg!(target_arch = "x86_64") { SyscallTable::X86_64 } else { SyscallTable::Generic };

/// The name of the system call of `point`; `None` if it is newer than the table, or of a 32-bit program on an architecture
/// other than x86-64.
#[must_use]
pub fn name(point: Point) -> Option<&'static str> {
    let table = match point.compat {
        false => TABLE,
        true if cfg!(target_arch = "x86_64") => SyscallTable::I386,
        true => return None,
    };
    table.name(i32::from(point.syscall))
}
