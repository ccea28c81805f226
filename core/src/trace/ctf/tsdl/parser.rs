//! The token stream of the metadata, and the type names in scope.

use std::collections::HashMap;

use super::super::super::bytes::Order;
use super::super::super::item::Damage;
use super::super::lexer::Token;
use super::super::types::Type;

/// State of the parser.
pub(super) struct Parser {
    pub tokens: Vec<(usize, Token)>,
    pub at: usize,
    /// Type names by scope, innermost last, each with its height. `struct x` is kept under that whole name.
    pub scopes: Vec<HashMap<String, (Type, usize)>>,
    pub native: Order,
    pub depth: usize,
    /// Nesting of structs, variants and arrays in the current type so far.
    pub height: usize,
}

pub(super) type Parsed<T> = Result<T, Damage>;

impl Parser {
    pub fn over(tokens: Vec<(usize, Token)>) -> Self {
        Parser { tokens, at: 0, scopes: vec![HashMap::new()], native: Order::Little, depth: 0, height: 0 }
    }

    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    pub fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += usize::from(token.is_some());
        token
    }

    pub fn damage<T>(&self, what: &str) -> Parsed<T> {
        let last = self.tokens.last().map_or(0, |(offset, _)| *offset);
        let offset = self.tokens.get(self.at).map_or(last, |(offset, _)| *offset);
        Err(Damage::new(offset as u64, format!("metadata: {what}")))
    }

    pub fn is(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(Token::Mark(found)) if *found == mark)
    }

    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    pub fn eat(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) {
            Ok(())
        } else {
            self.damage(&format!("'{mark}' expected"))
        }
    }

    pub fn word(&mut self) -> Parsed<String> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            _ => {
                self.at = self.at.saturating_sub(1);
                self.damage("a name expected")
            }
        }
    }

    /// `a.b[0].c` as one text.
    pub fn dotted(&mut self) -> Parsed<String> {
        let mut text = self.word()?;
        loop {
            if self.eat(".") {
                text.push('.');
                text.push_str(&self.word()?);
            } else {
                return Ok(text);
            }
        }
    }

    pub fn signed_number(&mut self) -> Parsed<i128> {
        let negative = self.eat("-");
        self.eat("+");
        match self.next() {
            Some(Token::Number(number)) => Ok(if negative { -number } else { number }),
            _ => {
                self.at = self.at.saturating_sub(1);
                self.damage("a number expected")
            }
        }
    }
}
