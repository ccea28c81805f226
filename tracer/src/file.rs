//! Files and mappings by plain system calls: nothing here allocates, and all of it may run in a child of fork.

use std::ffi::CStr;

/// Maps, locks and touches `bytes` of the file, so that no later access faults.
pub(crate) fn map(fd: i32, at: u64, bytes: u64) -> Option<*mut u8> {
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of our own file.
    let memory =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes as usize, rights, flags, fd, at as libc::off_t) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: inside the mapping just made. If the lock is refused (RLIMIT_MEMLOCK), the pages stay present.
    unsafe {
        libc::mlock(memory, bytes as usize);
        for page in (0..bytes as usize).step_by(4096) {
            memory.cast::<u8>().add(page).cast::<u64>().write_volatile(0);
        }
    }
    Some(memory.cast())
}

pub(crate) fn reserve_space(fd: i32, at: u64, bytes: u64) -> bool {
    // SAFETY: our own descriptor.
    unsafe { libc::fallocate(fd, 0, at as libc::off_t, bytes as libc::off_t) == 0 }
}

pub(crate) fn lock_file(fd: i32) -> bool {
    // SAFETY: all-zero is a valid flock; `whole` outlives the call.
    unsafe {
        let mut whole: libc::flock = std::mem::zeroed();
        whole.l_type = libc::F_WRLCK as libc::c_short;
        libc::fcntl(fd, libc::F_SETLK, &whole) == 0
    }
}

pub(crate) fn same_file(fd: i32, path: &[u8]) -> bool {
    // SAFETY: all-zero is a valid stat; the path is NUL-terminated.
    unsafe {
        let mut open: libc::stat = std::mem::zeroed();
        let mut named: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut open) == 0
            && libc::stat(path.as_ptr().cast(), &mut named) == 0
            && open.st_ino == named.st_ino
            && open.st_dev == named.st_dev
    }
}

/// The user's directory, created if missing; refused if it belongs to another user.
pub(crate) fn own_directory(path: &CStr, uid: u32) -> bool {
    // SAFETY: all-zero is a valid stat; the path is NUL-terminated.
    unsafe {
        libc::mkdir(path.as_ptr(), 0o700);
        let mut found: libc::stat = std::mem::zeroed();
        libc::lstat(path.as_ptr(), &mut found) == 0
            && found.st_mode & libc::S_IFMT == libc::S_IFDIR
            && found.st_uid == uid
    }
}

/// Reads the start of a small file; returns the number of bytes, 0 on any error.
pub(crate) fn read_small(path: &CStr, text: &mut [u8]) -> usize {
    // SAFETY: a NUL-terminated path, and a buffer of the given length.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return 0;
        }
        let length = libc::read(fd, text.as_mut_ptr().cast(), text.len());
        libc::close(fd);
        length.max(0) as usize
    }
}

/// Reads the start of a small file that belongs to `owner`; returns the number of bytes, 0 on any error or for another
/// owner.
pub(crate) fn read_owned(path: &CStr, owner: u32, text: &mut [u8]) -> usize {
    // Other users can place files there: a link must not be followed, and a FIFO must not block.
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    // SAFETY: all-zero is a valid stat; the path is NUL-terminated, and the buffer has the given length.
    unsafe {
        let fd = libc::open(path.as_ptr(), flags);
        if fd < 0 {
            return 0;
        }
        let mut found: libc::stat = std::mem::zeroed();
        let believed = libc::fstat(fd, &mut found) == 0
            && found.st_uid == owner
            && found.st_mode & libc::S_IFMT == libc::S_IFREG;
        let length = if believed { libc::read(fd, text.as_mut_ptr().cast(), text.len()) } else { 0 };
        libc::close(fd);
        length.max(0) as usize
    }
}

pub(crate) fn errno() -> i32 {
    // SAFETY: always valid for the calling thread.
    unsafe { *libc::__errno_location() }
}
