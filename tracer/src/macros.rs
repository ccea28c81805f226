//! The Rust API: [`crate::event!`], [`crate::enumeration!`], [`crate::span!`]. Their expansion is the hot path of
//! `trace_ring.h` in Rust.

use crate::declare::Event;
use crate::layout::{record_word, PACKET_HEADER_WORDS};
use crate::mapped::{Mapped, SharedRing};
use crate::ring::{self, Memory, Reserved};
use crate::thread;
use std::cell::Cell;

thread_local! {
    static SLOT: Cell<*const SharedRing> = const { Cell::new(std::ptr::null()) };
}

/// A record being written; for the macros.
#[doc(hidden)]
pub struct Record {
    memory: Mapped,
    reserved: Reserved,
}

impl Record {
    /// Reserves a record with `length` bytes of fields, in the calling thread's ring.
    #[doc(hidden)]
    #[inline(always)]
    pub fn begin(event: &'static Event, length: usize) -> Option<Record> {
        let mut ring = SLOT.get();
        if ring.is_null() {
            ring = first_event(event)?;
        }
        Record::begin_in(ring, event, length)
    }

    #[inline(always)]
    fn begin_in(ring: *const SharedRing, event: &'static Event, length: usize) -> Option<Record> {
        // SAFETY: the calling thread's ring, or the placeholder, which is never written.
        let memory = unsafe { Mapped::new(ring) };
        let bytes = length as u64 + 8;
        if bytes > 0xffff {
            // SAFETY: as above.
            unsafe { crate::capi::lathunt_trace_switch(ring, 0xffff, 0) };
            return None;
        }
        if thread::is_no_ring(ring) {
            declare_lost();
            return None;
        }
        let reserved = ring::reserve(&memory, bytes.div_ceil(8))?;
        let record = Record { memory, reserved };
        let id = event.id.load(std::sync::atomic::Ordering::Relaxed);
        // SAFETY: the first word of the reserved record.
        unsafe { record.word(0).write(record_word(id, bytes, reserved.ticks)) };
        Some(record)
    }

    #[inline(always)]
    fn word(&self, index: u64) -> *mut u64 {
        let start = self.reserved.start;
        let slot = u64::from(start.seq())
            & self.memory.ring().packet_mask.load(std::sync::atomic::Ordering::Relaxed);
        debug_assert!(start.words() >= PACKET_HEADER_WORDS);
        self.memory.word(slot, start.words() + index)
    }

    /// Address of the fields.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn payload(&self) -> *mut u8 {
        self.word(1).cast()
    }

    /// Makes the record visible.
    #[doc(hidden)]
    #[inline(always)]
    pub fn commit(self) {
        ring::commit(&self.memory, self.reserved.start);
    }
}

#[cold]
fn declare_lost() {
    crate::declare::count_no_ring();
}

/// Slow path: the thread has no ring yet. In a child of fork the event may turn out to be disabled.
#[cold]
fn first_event(event: &'static Event) -> Option<*const SharedRing> {
    let ring = SLOT.with(|slot| thread::claim(slot.as_ptr(), false, None));
    event.wanted().then_some(ring)
}

/// An event for the init ring: always kept, even before any session runs. Not for signal handlers.
#[doc(hidden)]
pub fn init_event(event: &'static Event, length: usize, fill: impl FnOnce(*mut u8)) {
    let ring = crate::capi::lathunt_trace_init_begin();
    if ring.is_null() {
        return;
    }
    if let Some(record) = Record::begin_in(ring, event, length) {
        fill(record.payload());
        record.commit();
    }
    crate::capi::lathunt_trace_init_end();
}

/// Declares an event: `event!(Cycle = "control:cycle" { axis: u32, position: f64, label: Text<32> });`
///
/// Field types: the numbers and `bool`, [`Text`](crate::field::Text), [`Chars`](crate::field::Chars),
/// [`Bytes`](crate::field::Bytes), [`Blob`](crate::field::Blob), and types made by [`enumeration!`](crate::enumeration!).
/// `Cycle::emit(axis, position, label)` records one; `Cycle::emit_init(…)` records it in the ring that is never overwritten.
#[macro_export]
macro_rules! event {
    ($(#[$doc:meta])* $visible:vis $name:ident = $text:literal { $($field:ident : $type:ty),* $(,)? }) => {
        $crate::event!(@ [$text] $(#[$doc])* $visible $name { $($field: $type),* });
    };
    (@ [$($text:tt)*] $(#[$doc:meta])* $visible:vis $name:ident { $($field:ident : $type:ty),* }) => {
        $(#[$doc])*
        #[allow(non_camel_case_types)]
        $visible struct $name;

        #[allow(dead_code, clippy::too_many_arguments)]
        impl $name {
            #[doc(hidden)]
            #[inline(always)]
            fn descriptor() -> &'static $crate::declare::Event {
                const NAME: &::std::ffi::CStr = match ::std::ffi::CStr::from_bytes_with_nul(concat!($($text)*, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("an event's name holds no NUL"),
                };
                static FIELDS: &[$crate::declare::Field] = &[$($crate::declare::Field {
                    name: concat!(stringify!($field), "\0").as_ptr().cast(),
                    kind: <$type as $crate::field::FieldType>::KIND.as_ptr(),
                    base: match <$type as $crate::field::FieldType>::BASE {
                        Some(base) => base.as_ptr(),
                        None => ::std::ptr::null(),
                    },
                    labels: <$type as $crate::field::FieldType>::LABELS.as_ptr(),
                    label_count: <$type as $crate::field::FieldType>::LABELS.len() as u32,
                    size: <$type as $crate::field::FieldType>::SIZE,
                }),*];
                static EVENT: $crate::declare::Event = $crate::declare::Event::new(NAME, FIELDS);
                extern "C" fn register() {
                    $crate::declare::register(&EVENT);
                }
                #[used]
                #[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
                static REGISTER: extern "C" fn() = register;
                &EVENT
            }

            /// Whether the event is enabled now; to save the work of preparing its fields.
            #[inline(always)]
            $visible fn wanted() -> bool {
                $name::descriptor().wanted()
            }

            /// Records the event now, in the calling thread's ring.
            #[inline(always)]
            $visible fn emit($($field: <$type as $crate::field::FieldType>::Value<'_>),*) {
                let event = $name::descriptor();
                if event.wanted() {
                    let length = 0 $(+ <$type as $crate::field::FieldType>::length($field))*;
                    if let Some(record) = $crate::Record::begin(event, length) {
                        let at = record.payload();
                        // SAFETY: `length` bytes are reserved there, and the fields take exactly that.
                        $(let at = unsafe { <$type as $crate::field::FieldType>::put($field, at) };)*
                        let _ = at;
                        record.commit();
                    }
                }
            }

            /// Records the event in the ring that is never overwritten, enabled or not: for one-time events at the start.
            $visible fn emit_init($($field: <$type as $crate::field::FieldType>::Value<'_>),*) {
                let length = 0 $(+ <$type as $crate::field::FieldType>::length($field))*;
                $crate::init_event($name::descriptor(), length, |at| {
                    // SAFETY: `length` bytes are reserved there, and the fields take exactly that.
                    $(let at = unsafe { <$type as $crate::field::FieldType>::put($field, at) };)*
                    let _ = at;
                });
            }
        }
    };
}

/// Declares the two events of an interval, `NAME_begin` with fields and `NAME_end` without:
/// `span!(Compute = "control:compute" { axis: u32 });` then `let _interval = Compute::begin(axis);`
#[macro_export]
macro_rules! span {
    ($(#[$doc:meta])* $visible:vis $name:ident = $text:literal { $($field:ident : $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[must_use = "the interval ends when this is dropped"]
        $visible struct $name(());

        const _: () = {
            $crate::event!(@ [$text, "_begin"] Begin { $($field: $type),* });
            $crate::event!(@ [$text, "_end"] End {});

            impl $name {
                /// The interval begins; it ends when the result is dropped.
                #[inline(always)]
                #[allow(dead_code)]
                $visible fn begin($($field: <$type as $crate::field::FieldType>::Value<'_>),*) -> $name {
                    Begin::emit($($field),*);
                    $name(())
                }
            }

            impl Drop for $name {
                #[inline(always)]
                fn drop(&mut self) {
                    End::emit();
                }
            }
        };
    };
}

/// Declares an enumeration whose values have names in the trace: `enumeration!(pub Mode: u8 { Off = 0, Run = 1 });`
#[macro_export]
macro_rules! enumeration {
    ($(#[$doc:meta])* $visible:vis $name:ident : $base:ident { $($label:ident = $value:expr),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($base)]
        #[allow(dead_code, missing_docs)]
        $visible enum $name { $($label = $value),+ }

        // SAFETY: writes as many bytes as the number has.
        unsafe impl $crate::field::FieldType for $name {
            type Value<'a> = $name;
            const KIND: &'static ::std::ffi::CStr = c"enum";
            const BASE: Option<&'static ::std::ffi::CStr> = Some(<$base as $crate::field::FieldType>::KIND);
            const LABELS: &'static [$crate::declare::Label] = &[$($crate::declare::Label {
                name: concat!(stringify!($label), "\0").as_ptr().cast(),
                value: $name::$label as $base as i64,
            }),+];
            #[inline(always)]
            fn length(_: $name) -> usize {
                size_of::<$base>()
            }
            #[inline(always)]
            unsafe fn put(value: $name, at: *mut u8) -> *mut u8 {
                // SAFETY: the caller's promise.
                unsafe { <$base as $crate::field::FieldType>::put(value as $base, at) }
            }
        }
    };
}
