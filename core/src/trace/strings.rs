//! The texts of a trace, each stored once.

use std::borrow::Cow;

use crate::hash::HashMap;
use crate::printable;

/// A text in the [`Strings`] of the same trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sym(pub u32);

/// Interned texts of one trace. `Sym(0)` is the empty text.
#[derive(Clone, Debug)]
pub struct Strings {
    texts: Vec<Box<str>>,
    index: HashMap<Box<str>, Sym>,
}

impl Default for Strings {
    fn default() -> Self {
        Strings { texts: vec!["".into()], index: HashMap::from_iter([("".into(), Sym(0))]) }
    }
}

impl Strings {
    /// The symbol of `text`, new or known. Control characters are stored escaped, because any user can name a thread.
    pub fn intern(&mut self, text: &str) -> Sym {
        if let Some(&sym) = self.index.get(text) {
            return sym;
        }
        if let Cow::Owned(shown) = printable::line(text) {
            return self.intern(&shown);
        }
        let sym = Sym(self.texts.len() as u32);
        self.texts.push(text.into());
        self.index.insert(text.into(), sym);
        sym
    }

    /// The text of the symbol with this number, if there is one: texts are numbered in the order of interning.
    #[must_use]
    pub fn nth(&self, number: usize) -> Option<&str> {
        self.texts.get(number).map(|text| &**text)
    }

    /// The text of `sym`; empty for a symbol of another trace.
    #[must_use]
    pub fn get(&self, sym: Sym) -> &str {
        self.texts.get(sym.0 as usize).map_or("", |text| text)
    }
}
