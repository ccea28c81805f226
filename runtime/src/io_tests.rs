//! Calls that must not block.

use super::*;

#[test]
fn calls_of_two_runtimes_on_one_descriptor_never_block() {
    let mut ends = [0; 2];
    // SAFETY: two valid places.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [reads, writes] = ends;
    let (done, ended) = std::sync::mpsc::channel();
    for _ in 0..2 {
        let done = done.clone();
        std::thread::spawn(move || {
            let read = || {
                let mut byte = 0u8;
                // SAFETY: one valid byte.
                unsafe { libc::read(reads, (&raw mut byte).cast(), 1) }
            };
            let empty = (0..100_000).all(|_| without_blocking(reads, read) == -1);
            let _ = done.send(empty);
        });
    }
    for _ in 0..2 {
        let empty = ended.recv_timeout(std::time::Duration::from_secs(60));
        assert_eq!(empty, Ok(true), "a read waits for the empty pipe");
    }
    // SAFETY: nothing uses them any more.
    unsafe { [reads, writes].map(|end| libc::close(end)) };
}
