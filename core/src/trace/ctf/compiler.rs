//! Compiles declared types into layouts.

use std::collections::HashMap;

use super::super::item::Damage;
use super::types::{Integer, Type};
use crate::trace::layout::anchors::Anchors;
use crate::trace::layout::{Layout, Length, Node, Part, Role, NO_SLOT, SLOTS};

/// Compiles structs into layouts; counts nodes, so that metadata that refer to types repeatedly stay finite.
pub(super) struct Compiler<'b> {
    /// Number of nodes that may still be created; those of a layout that fails count, too.
    budget: &'b mut usize,
    parts: Vec<Part>,
    leaves: Vec<String>,
    /// Names in scope: number of the last integer with this path.
    names: HashMap<String, usize>,
    /// Labels of the enumerations among the integers, by number.
    labels: Vec<Option<Labels>>,
    /// Referenced integers, in the order of their slots.
    referred: Vec<usize>,
    integers: usize,
    has_roles: bool,
}

type Labels = std::sync::Arc<Vec<(String, i128, i128)>>;

impl<'b> Compiler<'b> {
    pub fn new(budget: &'b mut usize) -> Self {
        Compiler {
            budget,
            parts: Vec::new(),
            leaves: Vec::new(),
            names: HashMap::new(),
            labels: Vec::new(),
            referred: Vec::new(),
            integers: 0,
            has_roles: false,
        }
    }

    /// Adds a struct; `suffix` is appended to the names of its fields.
    pub fn add(&mut self, declared: &Type, suffix: &str, header: bool) -> Result<(), Damage> {
        let part = self.part(declared, "", suffix, header)?;
        self.parts.push(part);
        Ok(())
    }

    /// The layout.
    pub fn finish(mut self) -> Layout {
        let mut numbered = 0;
        for part in &mut self.parts {
            number_slots(&mut part.node, &self.referred, &mut numbered);
        }
        let anchors = Anchors::of(&self.parts);
        let has_roles = self.has_roles || !self.referred.is_empty();
        Layout { parts: self.parts, anchors, has_roles, leaves: self.leaves }
    }

    fn charge(&mut self, nodes: usize) -> Result<(), Damage> {
        let left = self.budget.checked_sub(nodes);
        *self.budget = left.unwrap_or(0);
        left.map(drop).ok_or_else(|| broken("fields beyond measure"))
    }

    fn part(&mut self, declared: &Type, path: &str, suffix: &str, header: bool) -> Result<Part, Damage> {
        self.charge(1 + path.len() / 32)?;
        let first_leaf = self.leaves.len() as u16;
        let node = match declared {
            Type::Struct { align, fields } => {
                let mut parts = Vec::new();
                for (name, field) in fields.iter() {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    parts.push(self.part(field, &path, suffix, header)?);
                }
                Node::Struct { align: *align, parts }
            }
            Type::Variant { tag, options } => self.variant(tag.as_deref(), options, path, suffix, header)?,
            _ => {
                let node = self.leaf_node(declared, path, header)?;
                self.leaves.push(leaf_name(path, suffix));
                node
            }
        };
        let end_leaf = u16::try_from(self.leaves.len()).map_err(|_| broken("too many fields"))?;
        Ok(Part { node, first_leaf, end_leaf })
    }

    fn leaf_node(&mut self, declared: &Type, path: &str, header: bool) -> Result<Node, Damage> {
        match declared {
            Type::Integer(integer) => Ok(self.integer(integer, None, path, header)),
            Type::Enum { container, labels } => {
                Ok(self.integer(container, Some(labels.clone()), path, header))
            }
            Type::Float { bits, align, order } => {
                Ok(Node::Float { bits: (*bits).min(128) as u8, align: *align, order: *order })
            }
            Type::Text => Ok(Node::Text),
            Type::Array { element, length } => {
                let length = Length::Fixed(*length);
                let align = element.align();
                Ok(Node::Array { align, element: Box::new(self.element(element)?), length })
            }
            Type::Sequence { element, length } => {
                let slot = self.refer(length, path)?.0;
                let align = element.align();
                Ok(Node::Array {
                    align,
                    element: Box::new(self.element(element)?),
                    length: Length::Slot(slot),
                })
            }
            Type::Struct { .. } | Type::Variant { .. } => Err(broken("a struct where a value is meant")),
        }
    }

    /// An element of an array: its contents have no names.
    fn element(&mut self, element: &Type) -> Result<Node, Damage> {
        let leaves = self.leaves.len();
        let part = self.part(element, "[]", "", false)?;
        self.leaves.truncate(leaves);
        Ok(part.node)
    }

    fn integer(&mut self, integer: &Integer, labels: Option<Labels>, path: &str, header: bool) -> Node {
        let number = self.integers;
        self.integers += 1;
        self.names.insert(path.to_owned(), number);
        self.labels.push(labels);
        let last = path.rsplit('.').next().unwrap_or(path);
        let role = match (&integer.clock, header && last == "id") {
            (Some(_), _) => Role::Clock,
            (None, true) => Role::Id,
            (None, false) => Role::Plain,
        };
        self.has_roles |= role != Role::Plain;
        Node::Int {
            bits: integer.bits as u8,
            align: integer.align,
            signed: integer.signed,
            order: integer.order,
            role,
            slot: NO_SLOT,
            text: integer.text,
        }
    }

    /// The slot of the integer named `reference`, searched from `path` outwards.
    fn refer(&mut self, reference: &str, path: &str) -> Result<(u8, Option<Labels>), Damage> {
        let absolute = ["event.fields.", "event.context.", "stream.event.context.", "stream.event.header."];
        let reference = absolute.iter().find_map(|root| reference.strip_prefix(root)).unwrap_or(reference);
        let mut scope = path;
        let number = loop {
            scope = scope.rsplit_once('.').map_or("", |(outer, _)| outer);
            let full = if scope.is_empty() { reference.to_owned() } else { format!("{scope}.{reference}") };
            if let Some(&number) = self.names.get(&full) {
                break number;
            }
            if scope.is_empty() {
                return Err(broken(&format!("'{reference}' is not a field before its use")));
            }
        };
        let slot = match self.referred.iter().position(|&known| known == number) {
            Some(slot) => slot,
            None => {
                self.referred.push(number);
                self.referred.len() - 1
            }
        };
        if slot >= SLOTS {
            return Err(broken("too many lengths and tags in one event"));
        }
        Ok((slot as u8, self.labels[number].clone()))
    }

    fn variant(
        &mut self,
        tag: Option<&str>,
        options: &[(String, Type)],
        path: &str,
        suffix: &str,
        header: bool,
    ) -> Result<Node, Damage> {
        let tag = tag.ok_or_else(|| broken("a variant without tag"))?;
        let (slot, labels) = self.refer(tag, path)?;
        let labels = labels.ok_or_else(|| broken("a variant whose tag is no enumeration"))?;
        self.charge(labels.len())?;
        let mut by_label: HashMap<&str, Vec<(i128, i128)>> = HashMap::new();
        for (label, low, high) in labels.iter() {
            by_label.entry(label).or_default().push((*low, *high));
        }
        let mut compiled = Vec::new();
        for (name, option) in options {
            // An underscore protects labels that are keywords (CTF 1.8.3, 7.1).
            let meant = [Some(name.as_str()), name.strip_prefix('_')].into_iter().flatten();
            let ranges: Vec<_> = meant.filter_map(|label| by_label.get(label)).flatten().copied().collect();
            self.charge(ranges.len())?;
            let part = self.part(option, &format!("{path}.{name}"), suffix, header)?;
            compiled.push((ranges, part));
        }
        Ok(Node::Variant { tag: slot, options: compiled })
    }
}

/// `_prev_comm` becomes `prev_comm`; fields of contexts get a suffix, such as `vtid_context`.
fn leaf_name(path: &str, suffix: &str) -> String {
    let plain = path.strip_prefix('_').unwrap_or(path);
    format!("{plain}{suffix}")
}

fn broken(what: &str) -> Damage {
    Damage::new(0, format!("metadata: {what}"))
}

/// Integers are numbered in the order of compilation, which is that of the nodes.
fn number_slots(node: &mut Node, referred: &[usize], numbered: &mut usize) {
    match node {
        Node::Int { slot, .. } => {
            if let Some(index) = referred.iter().position(|number| number == numbered) {
                *slot = index as u8;
            }
            *numbered += 1;
        }
        Node::Struct { parts, .. } => {
            parts.iter_mut().for_each(|part| number_slots(&mut part.node, referred, numbered))
        }
        Node::Variant { options, .. } => {
            options.iter_mut().for_each(|(_, part)| number_slots(&mut part.node, referred, numbered));
        }
        Node::Array { element, .. } => number_slots(element, referred, numbered),
        Node::Float { .. } | Node::Text => {}
    }
}
