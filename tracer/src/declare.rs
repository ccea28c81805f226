//! Events: from a static descriptor in the program to an id, a declaration in the shared memory, and an enable byte.
//!
//! Declarations are text in an append-only area that is never overwritten, so the memory of a dead process can always
//! be read. A descriptor that occurs several times (a header used in several files, a library loaded twice) gets one
//! id.

use std::cell::UnsafeCell;
use std::ffi::{c_char, CStr};
use std::fmt::Write;
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU64, AtomicU8, Ordering};

use crate::layout::{CONTROL_BYTES, DECLARATIONS_AT, ENABLED_AT, EVENTS_MAX};
use crate::process::{locked, Process};
use crate::text::Text;

/// A value of an enumeration and its name.
#[repr(C)]
pub struct Label {
    /// C identifier.
    pub name: *const c_char,
    /// Value.
    pub value: i64,
}

/// A field of an event.
#[repr(C)]
pub struct Field {
    /// C identifier.
    pub name: *const c_char,
    /// `u8` to `u64`, `s8` to `s64`, `f32`, `f64`, `bool`, `enum`, `str`, `chars`, `bytes` or `blob`.
    pub kind: *const c_char,
    /// Integer kind below an `enum`; else null.
    pub base: *const c_char,
    /// Names of an `enum`'s values.
    pub labels: *const Label,
    /// How many.
    pub label_count: u32,
    /// Bytes of `chars` and `bytes`; maximum bytes of `str` and `blob`.
    pub size: u32,
}

/// An event as the program declares it; static, and registered before it is used.
#[repr(C)]
pub struct Event {
    /// The event is enabled if the byte is not 0.
    pub enabled: AtomicPtr<AtomicU8>,
    /// `provider:name`.
    pub name: *const c_char,
    /// Fields in the order of the record.
    pub fields: *const Field,
    next: AtomicPtr<Event>,
    /// How many fields.
    pub field_count: u16,
    /// Given at registration.
    pub id: AtomicU16,
}

// SAFETY: pointers to static, immutable texts; the rest is atomic.
unsafe impl Sync for Event {}
// SAFETY: as above.
unsafe impl Sync for Field {}
// SAFETY: as above.
unsafe impl Sync for Label {}

impl Event {
    /// A descriptor that is not registered yet, hence disabled.
    #[must_use]
    pub const fn new(name: &'static CStr, fields: &'static [Field]) -> Event {
        Event {
            enabled: AtomicPtr::new((&raw const OFF).cast_mut()),
            name: name.as_ptr(),
            fields: fields.as_ptr(),
            next: AtomicPtr::new(std::ptr::null_mut()),
            field_count: fields.len() as u16,
            id: AtomicU16::new(0),
        }
    }

    /// Whether it is enabled now: one load through a pointer that never changes after registration.
    #[inline(always)]
    #[must_use]
    pub fn wanted(&self) -> bool {
        // SAFETY: always points at a byte that stays mapped: OFF, WAKE or the control area.
        unsafe { (*self.enabled.load(Ordering::Relaxed)).load(Ordering::Relaxed) != 0 }
    }
}

static OFF: AtomicU8 = AtomicU8::new(0);
/// In a child of fork every event is enabled until the first one has created the child's own share.
static WAKE: AtomicU8 = AtomicU8::new(1);

struct Registry {
    first: AtomicPtr<Event>,
    /// Start and end of each declaration's body. Guarded by the process lock.
    bodies: UnsafeCell<[(u32, u32); EVENTS_MAX]>,
}

// SAFETY: `bodies` is touched only under the process lock.
unsafe impl Sync for Registry {}

static REGISTRY: Registry =
    Registry { first: AtomicPtr::new(std::ptr::null_mut()), bodies: UnsafeCell::new([(0, 0); EVENTS_MAX]) };

/// Adds the event to the process's table. Not for signal handlers; constructors call it.
pub fn register(event: &'static Event) {
    let first = locked(true, |process| {
        let first = process.control.is_null() && !process.refused;
        event.next.store(REGISTRY.first.load(Ordering::Relaxed), Ordering::Relaxed);
        REGISTRY.first.store(std::ptr::from_ref(event).cast_mut(), Ordering::Relaxed);
        declare(process, event);
        first.then(|| (process.directory(), process.session().is_some()))
    });
    if let Some(Some((directory, session))) = first {
        crate::sweep::sweep(&directory, session);
    }
}

/// Removes the descriptor, whose memory is about to be freed (dlclose, exit). Its declaration stays.
///
/// # Safety
/// The event is not emitted any more.
pub unsafe fn unregister(event: *const Event) {
    locked(true, |_| {
        let mut link = &REGISTRY.first;
        loop {
            let here = link.load(Ordering::Relaxed);
            if here.is_null() {
                return;
            }
            // SAFETY: entries of the list have not been unregistered.
            let entry = unsafe { &*here };
            if std::ptr::eq(entry, event) {
                link.store(entry.next.load(Ordering::Relaxed), Ordering::Relaxed);
                entry.enabled.store((&raw const OFF).cast_mut(), Ordering::Relaxed);
                return;
            }
            link = &entry.next;
        }
    });
}

/// Runs `act` on every registered event. Under the process lock.
fn each(mut act: impl FnMut(&'static Event)) {
    let mut here = REGISTRY.first.load(Ordering::Relaxed);
    while !here.is_null() {
        // SAFETY: entries of the list have not been unregistered.
        let event: &'static Event = unsafe { &*here };
        here = event.next.load(Ordering::Relaxed);
        act(event);
    }
}

/// In a new child: the parent's enable bytes do not apply.
pub(crate) fn wake_after_fork() {
    each(|event| event.enabled.store((&raw const WAKE).cast_mut(), Ordering::Relaxed));
}

/// Declares everything again, in the share that a child of fork has just created. Under the process lock.
pub(crate) fn declare_all(process: &mut Process) {
    each(|event| declare(process, event));
}

fn declare(process: &mut Process, event: &'static Event) {
    event.enabled.store((&raw const OFF).cast_mut(), Ordering::Relaxed);
    let Some(control) = process.attached() else { return };
    let known = control.events.load(Ordering::Relaxed) as usize;
    let written = control.declared_bytes.load(Ordering::Relaxed) as usize;
    // SAFETY: the declarations area is mapped, and under the lock no other thread writes it.
    let area = unsafe {
        std::slice::from_raw_parts_mut(process.control.add(DECLARATIONS_AT), CONTROL_BYTES - DECLARATIONS_AT)
    };
    // SAFETY: under the lock.
    let bodies = unsafe { &mut *REGISTRY.bodies.get() };
    let mut text = Text { bytes: area, length: written };
    let Some(body) = write_declaration(&mut text, known, event).filter(|_| known < EVENTS_MAX) else {
        control.refused_events.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let end = text.length;
    let same =
        bodies[..known].iter().position(|&(from, to)| area[from as usize..to as usize] == area[body..end]);
    let id = same.unwrap_or(known);
    // SAFETY: an enable byte inside the control area.
    let enabled = unsafe { process.control.add(ENABLED_AT + id).cast::<AtomicU8>() };
    if same.is_none() {
        bodies[id] = (body as u32, end as u32);
        control.declared_bytes.store(end as u64, Ordering::Release);
        control.events.store(known as u64 + 1, Ordering::Release);
        // SAFETY: NUL-terminated for the life of the descriptor.
        let name = unsafe { CStr::from_ptr(event.name) };
        if process.session().is_some_and(|session| session.wants(name)) {
            // SAFETY: as above.
            unsafe { (*enabled).store(1, Ordering::Relaxed) };
        }
    }
    event.id.store(id as u16, Ordering::Relaxed);
    event.enabled.store(enabled, Ordering::Release);
}

/// Appends the declaration; returns the start of its body (all but the id). `None`: no room.
fn write_declaration(text: &mut Text, id: usize, event: &Event) -> Option<usize> {
    // SAFETY: descriptors hold NUL-terminated texts and arrays of the lengths they say.
    unsafe {
        write!(text, "event {id} ").ok()?;
        let body = text.length;
        text.push(CStr::from_ptr(event.name).to_bytes())?;
        text.push(b"\n")?;
        for index in 0..usize::from(event.field_count) {
            let field = &*event.fields.add(index);
            text.push(b"field ")?;
            text.push(CStr::from_ptr(field.kind).to_bytes())?;
            text.push(b" ")?;
            text.push(CStr::from_ptr(field.name).to_bytes())?;
            if field.size != 0 {
                write!(text, " {}", field.size).ok()?;
            }
            if !field.base.is_null() {
                text.push(b" ")?;
                text.push(CStr::from_ptr(field.base).to_bytes())?;
            }
            for label in 0..field.label_count as usize {
                let label = &*field.labels.add(label);
                text.push(b" ")?;
                text.push(CStr::from_ptr(label.name).to_bytes())?;
                write!(text, "={}", label.value).ok()?;
            }
            text.push(b"\n")?;
        }
        text.push(b"end\n")?;
        Some(body)
    }
}

/// Counts an event discarded because its thread has no ring.
pub(crate) fn count_no_ring() {
    let control = crate::thread::CONTROL.load(Ordering::Acquire);
    if !control.is_null() {
        // SAFETY: published only while mapped.
        let counter: &AtomicU64 = unsafe { &(*control).no_ring };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
