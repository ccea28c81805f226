//! A thread that overruns its stack ends the process with a message, not with silent damage. And fork: the child has no
//! runtime.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::state::{current, set_current, Runtime};
use crate::text::Line;
use crate::{arch, dispatch, stack};

static INSTALLED: AtomicBool = AtomicBool::new(false);
/// The previous handler; never freed.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
static FORKS: AtomicBool = AtomicBool::new(false);

/// Installs the handler of SIGSEGV, for the whole process, and gives the calling kernel thread a stack for it.
///
/// # Errors
/// The error of sigaltstack or sigaction.
pub fn install() -> io::Result<()> {
    // SAFETY: the structures are initialised; the alternate stack stays mapped as long as the kernel thread may use it: for ever.
    unsafe {
        let mut old: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &mut old);
        if old.ss_flags & libc::SS_DISABLE != 0 {
            let memory = stack::Stack::new(32 * 1024, false)?;
            let (low, high) = memory.bounds();
            let new = libc::stack_t { ss_sp: low as *mut libc::c_void, ss_flags: 0, ss_size: high - low };
            if libc::sigaltstack(&new, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            std::mem::forget(memory);
        }
        if INSTALLED.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let before: *mut libc::sigaction = Box::into_raw(Box::new(std::mem::zeroed()));
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), before);
        BEFORE.store(before, Ordering::Release);
        if libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// After a fork: the parent continues, the child has no runtime.
pub fn watch_forks() {
    extern "C" fn prepare() {
        let rt = current();
        if !rt.is_null() {
            // SAFETY: the calling kernel thread's own.
            unsafe { dispatch::enter(rt) };
        }
    }
    extern "C" fn parent() {
        let rt = current();
        if !rt.is_null() {
            // SAFETY: `prepare` came before.
            unsafe { dispatch::leave(rt) };
        }
    }
    extern "C" fn child() {
        // The runtime, its timers and helpers belong to the parent.
        set_current(std::ptr::null_mut());
    }
    if !FORKS.swap(true, Ordering::AcqRel) {
        // SAFETY: the functions live as long as the program: the library is never unloaded.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
}

extern "C" fn on_fault(number: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let rt = current();
    // SAFETY: the kernel's arguments; the runtime is this kernel thread's, which is stopped here.
    unsafe {
        if !rt.is_null() {
            let address = (*info).si_addr() as usize;
            let pointer = arch::stack_pointer(context.cast());
            if tell_overflow(rt, address, pointer, (*info).si_code) {
                libc::signal(number, libc::SIG_DFL);
                libc::raise(number); // raised when this handler returns: ends the process as it would without us
                return;
            }
        }
        pass_on(number, info, context);
    }
}

/// Reports the thread that overran its stack; false: another fault.
unsafe fn tell_overflow(rt: *mut Runtime, address: usize, pointer: usize, code: i32) -> bool {
    // SAFETY: read only; the kernel thread is stopped.
    unsafe {
        let fiber = &(&(*rt).fibers)[(*rt).on_cpu as usize];
        let Some(memory) = &fiber.stack else { return false };
        // Or the kernel found no room for a signal frame: then there is no address.
        let (low, high) = memory.bounds();
        let no_room =
            code == libc::SI_KERNEL && pointer >= low && pointer < high && pointer - low < stack::reserve();
        if !memory.guards(address) && !no_room {
            return false;
        }
        let mut text = Line::default();
        text.add(b"lathunt-runtime: stack overflow in thread '");
        text.add(fiber.name().as_bytes());
        text.add(b"' (");
        text.number(memory.size());
        text.add(b" bytes): give it a larger stack\n");
        text.print();
    }
    true
}

unsafe fn pass_on(number: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the program's own handler, called as the kernel would call it.
    unsafe {
        let before = BEFORE.load(Ordering::Acquire);
        let handler = if before.is_null() { libc::SIG_DFL } else { (*before).sa_sigaction };
        match handler {
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::signal(number, libc::SIG_DFL);
            }
            handler if (*before).sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(number, info, context);
            }
            handler => {
                let handler: extern "C" fn(i32) = std::mem::transmute(handler);
                handler(number);
            }
        }
    }
}
