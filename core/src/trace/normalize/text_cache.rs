//! A cache for thread names, which repeat often: their symbols are found without a look-up in all texts.

use crate::trace::event::{Strings, Sym};
use crate::trace::value::up_to_nul;

/// Maps texts of at most 16 bytes to symbols, in a table of fixed size.
#[derive(Debug)]
pub(super) struct TextCache {
    slots: Vec<(u128, Sym)>,
}

impl Default for TextCache {
    fn default() -> Self {
        // An unused slot: the empty text is Sym(0), and 0xff bytes are not a text of the kernel.
        TextCache { slots: vec![(u128::MAX, Sym(0)); 1 << 10] }
    }
}

impl TextCache {
    /// The symbol of a text in 16 bytes; bytes after its NUL are ignored.
    #[inline]
    pub fn padded(&mut self, bytes: &[u8; 16], strings: &mut Strings) -> Sym {
        let raw = u128::from_le_bytes(*bytes);
        const ONES: u128 = u128::from_le_bytes([1; 16]);
        // The lowest bit that this sets is in the first byte that is zero.
        let zeros = raw.wrapping_sub(ONES) & !raw & (ONES << 7);
        if zeros == 0 {
            return self.intern(bytes, strings);
        }
        let below = zeros & zeros.wrapping_neg();
        let key = raw & ((below >> 7).wrapping_sub(1));
        let slot = Self::slot(key);
        match self.slots.get(slot) {
            Some((known, sym)) if *known == key => *sym,
            _ => self.intern(up_to_nul(bytes), strings),
        }
    }

    #[inline]
    fn slot(key: u128) -> usize {
        let folded = (key as u64) ^ ((key >> 64) as u64).rotate_left(29);
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }

    #[inline]
    pub fn intern(&mut self, bytes: &[u8], strings: &mut Strings) -> Sym {
        if bytes.len() > 15 {
            return strings.intern(&String::from_utf8_lossy(bytes));
        }
        let mut padded = [0u8; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        let key = u128::from_le_bytes(padded);
        let entry = &mut self.slots[Self::slot(key)];
        if entry.0 != key {
            *entry = (key, strings.intern(&String::from_utf8_lossy(bytes)));
        }
        entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_texts_are_the_interned_ones() {
        let (mut cache, mut strings) = (TextCache::default(), Strings::default());
        let texts: Vec<String> = (0..5000).map(|n| format!("task/{n}")).collect();
        for text in texts.iter().chain(&texts) {
            let sym = cache.intern(text.as_bytes(), &mut strings);
            assert_eq!(strings.get(sym), text);
        }
        assert_eq!(cache.intern(b"", &mut strings), Sym(0));
        for text in texts.iter().filter(|text| text.len() < 16) {
            // The bytes after the NUL are stale.
            let mut bytes = [0xff; 16];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            bytes[text.len()] = 0;
            let sym = cache.padded(&bytes, &mut strings);
            assert_eq!(strings.get(sym), text);
        }
        let (full, none) =
            (cache.padded(b"sixteen letters!", &mut strings), cache.padded(&[0; 16], &mut strings));
        assert_eq!((strings.get(full), none), ("sixteen letters!", Sym(0)));
    }
}
