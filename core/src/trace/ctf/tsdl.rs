//! TSDL, the metadata of CTF 1.8 (specification 1.8.3, section 7 and annex A), into types and blocks.
//!
//! Blocks (`trace`, `clock`, `env`, `stream`, `event`) become lists of attributes; what they mean is
//! [`super::metadata`]'s. Limits on nesting keep hostile metadata finite.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::bytes::Order;
use super::super::source::Damage;
use super::lexer::{words, Token};
use super::types::{Integer, Type};

/// Deepest nesting of types; LTTng's deepest is 4.
const DEEPEST: usize = 32;

/// A block of the metadata.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// `trace`, `clock`, `env`, `stream`, `event`, `callsite`.
    pub kind: String,
    pub attributes: HashMap<String, Attribute>,
}

/// What stands behind `=` or `:=`.
#[derive(Clone, Debug)]
pub(super) enum Attribute {
    Number(i128),
    /// A text, or words joined by dots.
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

/// Reads all blocks. Also gives damage that made reading stop before the end.
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

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    /// Type names by scope, innermost last. `struct x` is kept under that whole name.
    scopes: Vec<HashMap<String, Type>>,
    native: Order,
    depth: usize,
}

type Parsed<T> = Result<T, Damage>;

impl Parser {
    fn over(tokens: Vec<(usize, Token)>) -> Self {
        Parser { tokens, at: 0, scopes: vec![HashMap::new()], native: Order::Little, depth: 0 }
    }

    fn blocks(mut self) -> (Vec<Block>, Option<Damage>) {
        // The byte order may be declared behind types that use it.
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

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += usize::from(token.is_some());
        token
    }

    fn damage<T>(&self, what: &str) -> Parsed<T> {
        let last = self.tokens.last().map_or(0, |(offset, _)| *offset);
        let offset = self.tokens.get(self.at).map_or(last, |(offset, _)| *offset);
        Err(Damage::new(offset as u64, format!("metadata: {what}")))
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(Token::Mark(found)) if *found == mark)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) {
            Ok(())
        } else {
            self.damage(&format!("'{mark}' expected"))
        }
    }

    fn word(&mut self) -> Parsed<String> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            _ => {
                self.at = self.at.saturating_sub(1);
                self.damage("a name expected")
            }
        }
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

    /// `a.b[0].c` as one text.
    fn dotted(&mut self) -> Parsed<String> {
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

    fn signed_number(&mut self) -> Parsed<i128> {
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

    /// `typealias T := name;`, `typedef T name;`, `struct x { … };`
    fn declaration(&mut self) -> Parsed<()> {
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
            scope.insert(name, declared);
        }
    }

    fn lookup(&self, name: &str) -> Option<&Type> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
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

    fn declared_type(&mut self) -> Parsed<Type> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.damage("types nested too deep");
        }
        let result = self.declared_type_inner();
        self.depth -= 1;
        result
    }

    fn declared_type_inner(&mut self) -> Parsed<Type> {
        let Some(Token::Word(word)) = self.peek().cloned() else { return self.damage("a type expected") };
        match word.as_str() {
            "const" => {
                self.at += 1;
                self.declared_type_inner()
            }
            "integer" => self.integer().map(Type::Integer),
            "floating_point" => self.float(),
            "string" => {
                self.at += 1;
                if self.is("{") {
                    self.block("string")?;
                }
                Ok(Type::Text)
            }
            "struct" => self.structure(),
            "variant" => self.variant(),
            "enum" => self.enumeration(),
            _ => self.named_type(),
        }
    }

    /// The longest run of words that is the name of a type; the rest is the field's name.
    fn named_type(&mut self) -> Parsed<Type> {
        let words: Vec<String> = self.tokens[self.at..]
            .iter()
            .map_while(|(_, token)| if let Token::Word(word) = token { Some(word.clone()) } else { None })
            .take(6)
            .collect();
        for count in (1..=words.len()).rev() {
            if let Some(found) = self.lookup(&words[..count].join(" ")).cloned() {
                self.at += count;
                return Ok(found);
            }
        }
        self.damage(&format!("type '{}' is not declared", words.join(" ")))
    }

    fn attributes(&mut self) -> Parsed<Block> {
        self.at += 1;
        self.block("type")
    }

    fn integer(&mut self) -> Parsed<Integer> {
        let block = self.attributes()?;
        let bits = block.number("size").unwrap_or(0);
        if !(1..=64).contains(&bits) {
            return self.damage("an integer must have 1 to 64 bits");
        }
        let default_align = if bits % 8 == 0 { 8 } else { 1 };
        let signed = match block.attributes.get("signed") {
            Some(Attribute::Number(number)) => *number != 0,
            Some(Attribute::Text(text)) => text.eq_ignore_ascii_case("true"),
            _ => false,
        };
        let encoding = block.text("encoding").unwrap_or("none");
        let clock = block.text("map").and_then(|map| map.strip_prefix("clock.")?.strip_suffix(".value"));
        Ok(Integer {
            bits: bits as u32,
            align: self.alignment(block.number("align").unwrap_or(default_align))?,
            signed,
            order: block.text("byte_order").map_or(self.native, |name| order_named(name, self.native)),
            text: bits == 8 && ["UTF8", "utf8", "ASCII", "ascii"].contains(&encoding),
            clock: clock.map(str::to_owned),
        })
    }

    fn alignment(&self, bits: i128) -> Parsed<u32> {
        match u32::try_from(bits) {
            Ok(bits) if bits.is_power_of_two() && bits <= 1 << 16 => Ok(bits),
            _ => self.damage("an alignment that is no power of two"),
        }
    }

    fn float(&mut self) -> Parsed<Type> {
        let block = self.attributes()?;
        let bits = block.number("exp_dig").unwrap_or(0) + block.number("mant_dig").unwrap_or(0);
        if !(1..=128).contains(&bits) {
            return self.damage("a floating-point number of an unknown size");
        }
        let align = self.alignment(block.number("align").unwrap_or(8))?;
        let order = block.text("byte_order").map_or(self.native, |name| order_named(name, self.native));
        Ok(Type::Float { bits: bits as u32, align, order })
    }

    /// The name behind `struct`, `variant` or `enum`, if there is one.
    fn tag_name(&mut self, kind: &str) -> Option<String> {
        self.at += 1;
        match self.peek() {
            Some(Token::Word(word)) if !(kind == "struct" && word == "align") => {
                let name = format!("{kind} {word}");
                self.at += 1;
                Some(name)
            }
            _ => None,
        }
    }

    fn structure(&mut self) -> Parsed<Type> {
        let name = self.tag_name("struct");
        if !self.is("{") {
            return self.known(name);
        }
        let fields = self.fields()?;
        let mut align = fields.iter().map(|(_, field)| field.align()).fold(1, u32::max);
        if self.is_word("align") {
            self.at += 1;
            self.expect("(")?;
            let bits = self.signed_number()?;
            align = align.max(self.alignment(bits)?);
            self.expect(")")?;
        }
        let declared = Type::Struct { align, fields: Arc::new(fields) };
        if let Some(name) = name {
            self.define(name, declared.clone());
        }
        Ok(declared)
    }

    fn known(&self, name: Option<String>) -> Parsed<Type> {
        match name.as_deref().and_then(|name| self.lookup(name)) {
            Some(found) => Ok(found.clone()),
            None => self.damage(&format!("{} is not declared", name.as_deref().unwrap_or("a nameless type"))),
        }
    }

    fn fields(&mut self) -> Parsed<Vec<(String, Type)>> {
        self.expect("{")?;
        self.scopes.push(HashMap::new());
        let mut fields = Vec::new();
        while !self.eat("}") {
            if self.is_word("typealias") || self.is_word("typedef") {
                self.declaration()?;
                continue;
            }
            let declared = self.declared_type()?;
            if self.eat(";") {
                continue; // a struct, variant or enum that is only named here
            }
            loop {
                fields.push(self.declarator(declared.clone())?);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(";")?;
        }
        self.scopes.pop();
        Ok(fields)
    }

    /// `name`, `name[16]`, `name[length]`, `name[2][3]`.
    fn declarator(&mut self, declared: Type) -> Parsed<(String, Type)> {
        let name = match self.next() {
            Some(Token::Word(word)) => word,
            _ => {
                self.at = self.at.saturating_sub(1);
                return self.damage("the name of a field expected");
            }
        };
        let mut dimensions = Vec::new();
        while self.eat("[") {
            if let Some(Token::Word(_)) = self.peek() {
                dimensions.push(Err(self.dotted()?));
            } else {
                dimensions.push(Ok(self.signed_number()?));
            }
            self.expect("]")?;
            if dimensions.len() > DEEPEST {
                return self.damage("arrays nested too deep");
            }
        }
        let mut declared = declared;
        for dimension in dimensions.into_iter().rev() {
            let element = Arc::new(declared);
            declared = match dimension {
                Ok(length) => match u64::try_from(length) {
                    Ok(length) => Type::Array { element, length },
                    Err(_) => return self.damage("an array of a negative length"),
                },
                Err(length) => Type::Sequence { element, length },
            };
        }
        Ok((name, declared))
    }

    fn variant(&mut self) -> Parsed<Type> {
        let name = self.tag_name("variant");
        let mut tag = None;
        if self.eat("<") {
            tag = Some(self.dotted()?);
            self.expect(">")?;
        }
        if !self.is("{") {
            return match self.known(name)? {
                Type::Variant { options, .. } => Ok(Type::Variant { tag, options }),
                _ => self.damage("not a variant"),
            };
        }
        let options = Arc::new(self.fields()?);
        let declared = Type::Variant { tag, options };
        if let Some(name) = name {
            self.define(name, declared.clone());
        }
        Ok(declared)
    }

    fn enumeration(&mut self) -> Parsed<Type> {
        let name = self.tag_name("enum");
        let mut container = None;
        if self.eat(":") {
            container = match self.declared_type()? {
                Type::Integer(integer) => Some(integer),
                _ => return self.damage("an enumeration of something that is no integer"),
            };
        }
        if !self.is("{") {
            return self.known(name);
        }
        let container = match (container, self.lookup("int")) {
            (Some(integer), _) => integer,
            (None, Some(Type::Integer(integer))) => integer.clone(),
            _ => return self.damage("an enumeration without integer type"),
        };
        let labels = Arc::new(self.labels()?);
        let declared = Type::Enum { container, labels };
        if let Some(name) = name {
            self.define(name, declared.clone());
        }
        Ok(declared)
    }

    fn labels(&mut self) -> Parsed<Vec<(String, i128, i128)>> {
        self.expect("{")?;
        let mut labels = Vec::new();
        let mut following = 0;
        while !self.eat("}") {
            let label = match self.next() {
                Some(Token::Word(label) | Token::Text(label)) => label,
                _ => {
                    self.at = self.at.saturating_sub(1);
                    return self.damage("a label expected");
                }
            };
            let (mut low, mut high) = (following, following);
            if self.eat("=") {
                low = self.signed_number()?;
                high = if self.eat("...") { self.signed_number()? } else { low };
            }
            following = high.saturating_add(1);
            labels.push((label, low, high));
            if !self.eat(",") && !self.is("}") {
                return self.damage("',' or '}' expected");
            }
        }
        Ok(labels)
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
}
