//! Declared types: integers, floats, texts, structs, variants, enumerations, arrays.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::lexer::Token;
use super::super::types::{Integer, Type};
use super::parser::{Parsed, Parser};
use super::{order_named, Attribute, Block, DEEPEST};

impl Parser {
    pub fn declared_type(&mut self) -> Parsed<Type> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.damage("types nested too deep");
        }
        let result = self.declared_type_inner();
        self.depth -= 1;
        result
    }

    fn declared_type_inner(&mut self) -> Parsed<Type> {
        while self.is_word("const") {
            self.at += 1;
        }
        let Some(Token::Word(word)) = self.peek().cloned() else { return self.damage("a type expected") };
        match word.as_str() {
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

    /// Adds `levels` of nesting: names of types that refer to named types could be chained without end.
    fn nest(&mut self, levels: usize) -> Parsed<()> {
        self.height += levels;
        if self.height > DEEPEST {
            return self.damage("types nested too deep");
        }
        Ok(())
    }

    fn take_known(&mut self, name: &str) -> Option<Type> {
        let (found, height) = self.find(name)?.clone();
        self.height = self.height.max(height);
        Some(found)
    }

    /// The longest sequence of words that is the name of a type; the rest is the field name.
    fn named_type(&mut self) -> Parsed<Type> {
        let words: Vec<String> = self.tokens[self.at..]
            .iter()
            .map_while(|(_, token)| if let Token::Word(word) = token { Some(word.clone()) } else { None })
            .take(6)
            .collect();
        for count in (1..=words.len()).rev() {
            if let Some(found) = self.take_known(&words[..count].join(" ")) {
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

    /// The name after `struct`, `variant` or `enum`, if there is one.
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
        self.nest(1)?;
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

    fn known(&mut self, name: Option<String>) -> Parsed<Type> {
        match name.as_deref().and_then(|name| self.take_known(name)) {
            Some(found) => Ok(found),
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
            let of_others = std::mem::take(&mut self.height);
            let declared = self.declared_type()?;
            let own = self.height;
            self.height = own.max(of_others);
            if self.eat(";") {
                continue; // a struct, variant or enum that is only referenced here
            }
            loop {
                let of_others = std::mem::replace(&mut self.height, own);
                fields.push(self.declarator(declared.clone())?);
                self.height = self.height.max(of_others);
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
    pub fn declarator(&mut self, declared: Type) -> Parsed<(String, Type)> {
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
        self.nest(dimensions.len())?;
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
        self.nest(1)?;
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
