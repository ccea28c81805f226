//! Types of an event's fields in Rust: how they are passed, their layout in a record, and their names in the
//! declaration.

/// A field's place in a record: packed, little endian, in the order of declaration.
///
/// # Safety
/// `put` writes exactly `length` bytes and returns the address after them.
pub unsafe trait FieldType {
    /// Type passed to `emit`.
    type Value<'a>: Copy;
    /// Name of the kind in the declaration.
    const KIND: &'static std::ffi::CStr;
    /// Bytes (or maximum bytes) if the kind needs it, else 0.
    const SIZE: u32 = 0;
    /// Integer kind below an enumeration.
    const BASE: Option<&'static std::ffi::CStr> = None;
    /// Named values of an enumeration.
    const LABELS: &'static [crate::declare::Label] = &[];
    /// Bytes in the record.
    fn length(value: Self::Value<'_>) -> usize;
    /// Writes the value.
    ///
    /// # Safety
    /// `length` bytes at `at` are writable.
    unsafe fn put(value: Self::Value<'_>, at: *mut u8) -> *mut u8;
}

macro_rules! number {
    ($($type:ty => $kind:literal),*) => {$(
        // SAFETY: writes as many bytes as the number has.
        unsafe impl FieldType for $type {
            type Value<'a> = $type;
            const KIND: &'static std::ffi::CStr = $kind;
            #[inline(always)]
            fn length(_: $type) -> usize {
                size_of::<$type>()
            }
            #[inline(always)]
            unsafe fn put(value: $type, at: *mut u8) -> *mut u8 {
                // SAFETY: the caller's promise.
                unsafe {
                    at.cast::<$type>().write_unaligned(value);
                    at.add(size_of::<$type>())
                }
            }
        }
    )*};
}

number!(u8 => c"u8", u16 => c"u16", u32 => c"u32", u64 => c"u64", i8 => c"s8", i16 => c"s16", i32 => c"s32",
    i64 => c"s64", f32 => c"f32", f64 => c"f64", bool => c"bool");

/// Text of at most `MAX` bytes (truncated), ended by a NUL; cut at the first NUL of its own.
pub struct Text<const MAX: usize>;
/// Text in exactly `SIZE` bytes, padded with NULs.
pub struct Chars<const SIZE: usize>;
/// Exactly `SIZE` bytes.
pub struct Bytes<const SIZE: usize>;
/// At most `MAX` bytes (truncated), preceded by their number.
pub struct Blob<const MAX: usize>;

#[inline(always)]
unsafe fn copy(from: &[u8], at: *mut u8) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(from.as_ptr(), at, from.len());
        at.add(from.len())
    }
}

#[inline(always)]
fn up_to_nul(text: &str, max: usize) -> &[u8] {
    let bytes = &text.as_bytes()[..text.len().min(max)];
    &bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())]
}

// SAFETY: the text and one NUL.
unsafe impl<const MAX: usize> FieldType for Text<MAX> {
    type Value<'a> = &'a str;
    const KIND: &'static std::ffi::CStr = c"str";
    const SIZE: u32 = MAX as u32;
    #[inline(always)]
    fn length(value: &str) -> usize {
        up_to_nul(value, MAX).len() + 1
    }
    #[inline(always)]
    unsafe fn put(value: &str, at: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { copy(&[0], copy(up_to_nul(value, MAX), at)) }
    }
}

// SAFETY: always SIZE bytes.
unsafe impl<const SIZE: usize> FieldType for Chars<SIZE> {
    type Value<'a> = &'a str;
    const KIND: &'static std::ffi::CStr = c"chars";
    const SIZE: u32 = SIZE as u32;
    #[inline(always)]
    fn length(_: &str) -> usize {
        SIZE
    }
    #[inline(always)]
    unsafe fn put(value: &str, at: *mut u8) -> *mut u8 {
        let text = up_to_nul(value, SIZE);
        // SAFETY: the caller's promise.
        unsafe {
            copy(text, at).write_bytes(0, SIZE - text.len());
            at.add(SIZE)
        }
    }
}

// SAFETY: always SIZE bytes.
unsafe impl<const SIZE: usize> FieldType for Bytes<SIZE> {
    type Value<'a> = &'a [u8; SIZE];
    const KIND: &'static std::ffi::CStr = c"bytes";
    const SIZE: u32 = SIZE as u32;
    #[inline(always)]
    fn length(_: &[u8; SIZE]) -> usize {
        SIZE
    }
    #[inline(always)]
    unsafe fn put(value: &[u8; SIZE], at: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { copy(value, at) }
    }
}

// SAFETY: two bytes of length and as many as they say.
unsafe impl<const MAX: usize> FieldType for Blob<MAX> {
    type Value<'a> = &'a [u8];
    const KIND: &'static std::ffi::CStr = c"blob";
    const SIZE: u32 = MAX as u32;
    #[inline(always)]
    fn length(value: &[u8]) -> usize {
        2 + value.len().min(MAX)
    }
    #[inline(always)]
    unsafe fn put(value: &[u8], at: *mut u8) -> *mut u8 {
        let value = &value[..value.len().min(MAX)];
        // SAFETY: the caller's promise.
        unsafe { copy(value, copy(&(value.len() as u16).to_le_bytes(), at)) }
    }
}
