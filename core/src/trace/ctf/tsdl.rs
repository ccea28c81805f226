//! Parses TSDL, the metadata of CTF 1.8 (specification 1.8.3, section 7 and annex A), into types and blocks.
//!
//! Blocks (`trace`, `clock`, `env`, `stream`, `event`) become lists of attributes; [`super::metadata`] interprets them.
//! Limits on nesting keep hostile metadata finite.

mod declared;
mod parser;

use std::collections::HashMap;

use super::super::bytes::Order;
use super::super::item::Damage;
use super::lexer::{words, Token};
use super::types::Type;
use parser::{Parsed, Parser};

/// Maximum nesting of types; LTTng's is 4.
const DEEPEST: usize = 32;

/// A block of the metadata.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// `trace`, `clock`, `env`, `stream`, `event`, `callsite`.
    pub kind: String,
    pub attributes: HashMap<String, Attribute>,
}

/// The value after `=` or `:=`.
#[derive(Clone, Debug)]
pub(super) enum Attribute {
    Number(i128),
    /// A text, or a dotted name.
    Text(String),
    Type(Type),
}

impl Block {
    pub fn number(&self, key: &str) -> Option<i128> {
        match self.attributes.get(key)? {
            Attribute::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.attributes.get(key)? {
            Attribute::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn type_of(&self, key: &str) -> Option<&Type> {
        match self.attributes.get(key)? {
            Attribute::Type(declared) => Some(declared),
            _ => None,
        }
    }
}

/// Reads all blocks; also returns the damage that stopped it before the end.
pub(super) fn parse(text: &str) -> (Vec<Block>, Option<Damage>) {
    let tokens = match words(text) {
        Ok(tokens) => tokens,
        Err(damage) => {
            let (blocks, _) = match words(&text[..damage.offset as usize]) {
                Ok(tokens) => Parser::over(tokens).blocks(),
                Err(_) => (Vec::new(), None),
            };
            return (blocks, Some(damage));
        }
    };
    Parser::over(tokens).blocks()
}

impl Parser {
    fn blocks(mut self) -> (Vec<Block>, Option<Damage>) {
        // The byte order may be declared after types that use it.
        self.native = self.find_native();
        let mut blocks = Vec::new();
        while self.at < self.tokens.len() {
            match self.top_level() {
                Ok(block) => blocks.extend(block),
                Err(damage) => return (blocks, Some(damage)),
            }
        }
        (blocks, None)
    }

    fn find_native(&self) -> Order {
        let mut depth = 0i32;
        let mut in_trace = false;
        for (index, (_, token)) in self.tokens.iter().enumerate() {
            match token {
                Token::Word(word) if depth == 0 => in_trace = word == "trace",
                Token::Mark("{") => depth += 1,
                Token::Mark("}") => depth -= 1,
                Token::Word(word) if in_trace && depth == 1 && word == "byte_order" => {
                    let value = self.tokens.get(index + 2).map(|(_, token)| token);
                    if let Some(Token::Word(value)) = value {
                        return order_named(value, Order::Little);
                    }
                }
                _ => {}
            }
        }
        Order::Little
    }

    fn top_level(&mut self) -> Parsed<Option<Block>> {
        if self.eat(";") {
            return Ok(None);
        }
        for kind in ["trace", "clock", "env", "stream", "event", "callsite"] {
            if self.is_word(kind) {
                self.at += 1;
                return self.block(kind).map(Some);
            }
        }
        self.declaration()?;
        Ok(None)
    }

    /// `{ key = value; key := type; typealias … }`
    fn block(&mut self, kind: &str) -> Parsed<Block> {
        self.expect("{")?;
        self.scopes.push(HashMap::new());
        let mut block = Block { kind: kind.to_owned(), attributes: HashMap::new() };
        while !self.eat("}") {
            if self.starts_declaration() {
                self.declaration()?;
                continue;
            }
            let key = self.dotted()?;
            let value = if self.eat(":=") {
                self.height = 0;
                Attribute::Type(self.declared_type()?)
            } else {
                self.expect("=")?;
                self.attribute_value()?
            };
            block.attributes.insert(key, value);
            self.expect(";")?;
        }
        self.eat(";");
        self.scopes.pop();
        Ok(block)
    }

    fn starts_declaration(&self) -> bool {
        ["typealias", "typedef"].iter().any(|word| self.is_word(word))
            || (["struct", "variant", "enum"].iter().any(|word| self.is_word(word)))
    }

    fn attribute_value(&mut self) -> Parsed<Attribute> {
        match self.peek() {
            Some(Token::Text(_)) => {
                let mut text = String::new();
                while let Some(Token::Text(part)) = self.peek() {
                    text.push_str(part);
                    self.at += 1;
                }
                Ok(Attribute::Text(text))
            }
            Some(Token::Word(_)) => self.dotted().map(Attribute::Text),
            _ => self.signed_number().map(Attribute::Number),
        }
    }

    /// `typealias T := name;`, `typedef T name;`, `struct x { … };`
    fn declaration(&mut self) -> Parsed<()> {
        let outside = std::mem::take(&mut self.height);
        let result = self.declaration_inner();
        self.height = outside;
        result
    }

    fn declaration_inner(&mut self) -> Parsed<()> {
        if self.is_word("typealias") {
            self.at += 1;
            let declared = self.declared_type()?;
            self.expect(":=")?;
            let name = self.type_name()?;
            self.define(name, declared);
        } else if self.is_word("typedef") {
            self.at += 1;
            let declared = self.declared_type()?;
            let (name, declared) = self.declarator(declared)?;
            self.define(name, declared);
        } else if self.starts_declaration() {
            self.declared_type()?;
        } else {
            return self.damage("neither a block nor a type");
        }
        self.expect(";")
    }

    fn define(&mut self, name: String, declared: Type) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, (declared, self.height));
        }
    }

    fn find(&self, name: &str) -> Option<&(Type, usize)> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn lookup(&self, name: &str) -> Option<&Type> {
        self.find(name).map(|(found, _)| found)
    }

    /// `unsigned long`, `uint32_t`, `struct x`.
    fn type_name(&mut self) -> Parsed<String> {
        let mut name = self.word()?;
        while let Some(Token::Word(word)) = self.peek() {
            name = format!("{name} {word}");
            self.at += 1;
        }
        Ok(name)
    }
}

fn order_named(name: &str, native: Order) -> Order {
    match name {
        "le" => Order::Little,
        "be" | "network" => Order::Big,
        _ => native,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lttngs_event_header_is_understood() {
        let text = "typealias integer { size = 5; align = 1; signed = false; } := uint5_t;\n\
            typealias integer { size = 64; align = 8; signed = 0; map = clock.monotonic.value; } := unsigned long;\n\
            struct header { enum : uint5_t { compact = 0 ... 30, extended = 31 } id;\n\
              variant <id> { struct { unsigned long ts; } compact; struct { uint5_t a[3], b; } extended; } v;\n\
            } align(8);\n\
            trace { major = 1; byte_order = be; };\n\
            stream { id = 7; event.header := struct header; };";
        let (blocks, damage) = parse(text);
        assert_eq!(damage, None);
        assert_eq!(blocks[1].number("id"), Some(7));
        let Some(Type::Struct { align: 8, fields }) = blocks[1].type_of("event.header") else { panic!() };
        let Type::Enum { container, labels } = &fields[0].1 else { panic!() };
        assert_eq!((container.bits, container.order), (5, Order::Big));
        assert_eq!(labels[1], ("extended".to_owned(), 31, 31));
        let Type::Variant { tag, options } = &fields[1].1 else { panic!() };
        assert_eq!((tag.as_deref(), options.len()), (Some("id"), 2));
    }

    #[test]
    fn what_was_read_before_damage_stays() {
        let (blocks, damage) = parse("trace { major = 1; };\nevent { name = \"x\"; fields := nothing; };");
        assert_eq!(blocks.len(), 1);
        assert!(damage.unwrap().what.contains("type 'nothing' is not declared"));
    }

    #[test]
    fn endless_nesting_is_refused() {
        let text = format!("typealias {} integer {{ size = 8; }} := x;", "struct { ".repeat(5000));
        assert!(parse(&text).1.unwrap().what.contains("nested too deep"));
    }

    #[test]
    fn endless_words_and_chains_of_names_are_refused() {
        let text = format!("typealias {} integer {{ size = 8; }} := x;", "const ".repeat(100_000));
        assert_eq!(parse(&text).1, None);
        let mut text = "typealias integer { size = 8; } := t0;\n".to_owned();
        for step in 0..100_000 {
            text.push_str(&format!("typedef t{step} t{}[2];\n", step + 1));
        }
        assert!(parse(&text).1.unwrap().what.contains("nested too deep"));
    }
}
