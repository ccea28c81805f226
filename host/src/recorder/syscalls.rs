//! Names of the system calls that threads block in, by number of this architecture.

use lathunt_core::trace::syscall_names::SyscallTable;

const TABLE: SyscallTable =
    if cfg!(target_arch = "x86_64") { SyscallTable::X86_64 } else { SyscallTable::Generic };

/// The name of system call `number`; `None` for one that is younger than the table.
#[must_use]
pub fn name(number: i16) -> Option<&'static str> {
    TABLE.name(i32::from(number))
}
