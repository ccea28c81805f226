//! Converts generic records to the [`Event`]s that explanations use.
//!
//! One table (`recipes`) has the events and field names of each kind, for the kernel's and for LTTng's names. It is
//! matched once per event class; an event then costs a few loads. A record without a required field becomes
//! [`Kind::Other`], never a kind with an invented value.
//!
//! LTTng's priorities are the kernel's minus 100 (`MAX_RT_PRIO`); they are converted here.

mod recipes;
mod text_cache;

use std::borrow::Cow;

use super::bytes::Order;
use super::catalogue::{EventClass, FieldRef, Place};
use super::event::{Event, Kind, LeftAs, Level, Strings, Sym, TaskRef};
use super::item::{Item, Loss, Record};
use super::source::Source;
use super::syscall_names::SyscallTable;
use super::value::{up_to_nul, Value};
use crate::time::{Cpu, Prio, Tid};
use recipes::{Build, MOST_FIELDS};
use text_cache::TextCache;

/// Conversion of an event class to a kind.
#[derive(Clone, Debug)]
struct Recipe {
    name: Sym,
    build: Option<Build>,
    fields: [Access; MOST_FIELDS],
    /// The field with the current thread.
    current: Access,
    /// The field with the flags of the context.
    flags: Access,
    /// Number of the system call in the name of the event.
    syscall: i32,
}

/// Access to a field: most are numbers and short texts at fixed offsets.
#[derive(Clone, Copy, Debug)]
enum Access {
    /// The class has no such field.
    None,
    Int {
        offset: u32,
        size: u8,
        signed: bool,
        order: Order,
    },
    /// The name of a thread, 16 bytes as in the kernel.
    Comm {
        offset: u32,
    },
    Other(FieldRef),
}

/// Turns records of one source into events.
#[derive(Debug)]
pub struct Normalizer<'t> {
    classes: &'t [EventClass],
    recipes: Vec<Recipe>,
    texts: Texts<'t>,
    running: Running,
}

/// Thread per CPU after its last sched_switch, for traces whose events do not have it.
#[derive(Debug, Default)]
pub struct Running(Vec<Option<Tid>>);

/// Texts for numbers in events, and the scale of priorities.
#[derive(Debug)]
pub(crate) struct Texts<'t> {
    source: &'t dyn Source,
    strings: Strings,
    comms: TextCache,
    functions: Vec<(u64, Option<Sym>)>,
    /// Added to every priority, and to those of wake-ups.
    prio_bias: [i32; 2],
}

impl std::fmt::Debug for dyn Source + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({})", self.info().format)
    }
}

/// Maximum number of CPUs whose running thread is followed; it is unknown on others.
const MOST_CPUS: usize = 1 << 14;

impl<'t> Normalizer<'t> {
    /// Matches the classes of `source` to kinds.
    #[must_use]
    pub fn new(source: &'t dyn Source) -> Self {
        let mut strings = Strings::default();
        let table = SyscallTable::of_machine(&source.info().machine);
        let classes = source.catalogue().classes();
        let recipes = classes.iter().map(|class| Recipe::of(class, table, &mut strings)).collect();
        let texts = Texts {
            source,
            strings,
            comms: TextCache::default(),
            functions: vec![(0, None); 1 << 10],
            prio_bias: [source.info().prio_bias, source.info().woken_prio_bias],
        };
        Normalizer { classes, recipes, texts, running: Running::default() }
    }

    /// The texts of all events so far.
    #[must_use]
    pub fn strings(&self) -> &Strings {
        &self.texts.strings
    }

    /// Returns the texts, at the end.
    #[must_use]
    pub fn into_strings(self) -> Strings {
        self.texts.strings
    }

    /// The symbol of a text of the caller.
    pub fn intern(&mut self, text: &str) -> Sym {
        self.texts.strings.intern(text)
    }

    /// The event of an item; `None` for damage.
    pub fn item(&mut self, item: &Item<'_>) -> Option<Event> {
        match item {
            Item::Event(record) => Some(self.event(record)),
            Item::Lost(loss) => Some(self.lost(loss)),
            Item::Damage(_) => None,
        }
    }

    /// The event of a record.
    #[must_use]
    pub fn event(&mut self, record: &Record<'_>) -> Event {
        let Normalizer { classes, recipes, texts, .. } = self;
        let index = record.class as usize;
        let (Some(class), Some(recipe)) = (classes.get(index), recipes.get(index)) else {
            return Event {
                at: record.at,
                cpu: record.cpu,
                current: None,
                level: Level::Unsaid,
                kind: Kind::Other { name: Sym(0) },
            };
        };
        let bytes = record.data.get((record.first_bit / 8) as usize..).unwrap_or(&[]);
        let fields = Fields { class, record, bytes, recipe };
        let level = fields.read(recipe.flags).map_or(Level::Unsaid, Level::of_flags);
        let recorded = fields.read(recipe.current).map(|tid| Tid(tid as i32));
        let kind = recipe.build.and_then(|build| build(texts, &fields));
        let kind = kind.unwrap_or(Kind::Other { name: recipe.name });
        let current = recorded.or_else(|| self.running(record.cpu));
        if let Kind::Switch { next, .. } = kind {
            self.set_running(record.cpu, Some(next.tid));
        }
        Event { at: record.at, cpu: record.cpu, current, level, kind }
    }

    fn lost(&mut self, loss: &Loss) -> Event {
        self.set_running(loss.cpu, None);
        let kind = Kind::Lost { count: loss.count, after: loss.after };
        Event { at: loss.before, cpu: loss.cpu, current: None, level: Level::Unsaid, kind }
    }

    /// Continues with the state of another walk, and returns that of this one.
    pub fn swap_running(&mut self, running: &mut Running) {
        std::mem::swap(&mut self.running, running);
    }

    fn running(&self, cpu: Cpu) -> Option<Tid> {
        self.running.0.get(cpu.0 as usize).copied().flatten()
    }

    fn set_running(&mut self, cpu: Cpu, tid: Option<Tid>) {
        let index = cpu.0 as usize;
        if index >= self.running.0.len() && index < MOST_CPUS {
            self.running.0.resize(index + 1, None);
        }
        if let Some(slot) = self.running.0.get_mut(index) {
            *slot = tid;
        }
    }
}

impl Texts<'_> {
    /// The symbol of a text.
    fn intern(&mut self, text: &str) -> Sym {
        self.strings.intern(text)
    }

    /// The name of the function at an address; its hexadecimal address without a symbol.
    fn function(&mut self, address: u64) -> Option<Sym> {
        if address == 0 {
            return None;
        }
        let slot = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize & (self.functions.len() - 1);
        if self.functions[slot].0 == address {
            return self.functions[slot].1;
        }
        let name = match self.source.symbols().resolve(address) {
            Some((name, 0)) => Cow::Borrowed(name),
            Some((name, offset)) => Cow::Owned(format!("{name}+{offset:#x}")),
            None => Cow::Owned(format!("{address:#x}")),
        };
        let sym = Some(self.strings.intern(&name));
        self.functions[slot] = (address, sym);
        sym
    }

    fn text(&mut self, bytes: &[u8]) -> Sym {
        self.comms.intern(bytes, &mut self.strings)
    }

    fn prio(&self, bits: u64) -> Prio {
        Prio((bits as i32).saturating_add(self.prio_bias[0]))
    }

    /// A thread from three fields: tid, priority, name.
    fn task(&mut self, fields: &Fields<'_, '_>, first: usize) -> Option<TaskRef> {
        Some(TaskRef {
            tid: Tid(fields.bits(first)? as i32),
            prio: fields.bits(first + 1).map(|bits| self.prio(bits)),
            comm: fields.comm(first + 2, self),
        })
    }
}

/// The fields of one record, in the order of its recipe.
pub(crate) struct Fields<'c, 'r> {
    class: &'c EventClass,
    record: &'c Record<'r>,
    /// The bytes that fixed offsets refer to.
    bytes: &'r [u8],
    recipe: &'c Recipe,
}

impl<'r> Fields<'_, 'r> {
    #[inline]
    fn bits(&self, index: usize) -> Option<u64> {
        self.read(self.recipe.fields[index])
    }

    #[inline]
    fn read(&self, access: Access) -> Option<u64> {
        match access {
            Access::Int { offset, size, signed, order } => {
                let begin = offset as usize;
                let bytes = self.bytes.get(begin..begin + usize::from(size))?;
                Some(if signed { order.signed(bytes) as u64 } else { order.unsigned(bytes) })
            }
            Access::Other(field) => self.class.bits(field, self.record),
            Access::None | Access::Comm { .. } => None,
        }
    }

    fn text(&self, index: usize) -> Option<&'r [u8]> {
        match self.recipe.fields[index] {
            Access::Comm { offset } => {
                Some(up_to_nul(self.bytes.get(offset as usize..offset as usize + 16)?))
            }
            Access::Other(field) => self.class.text(field, self.record),
            Access::None | Access::Int { .. } => None,
        }
    }

    /// The name of a thread.
    #[inline]
    fn comm(&self, index: usize, texts: &mut Texts<'_>) -> Option<Sym> {
        if let Access::Comm { offset } = self.recipe.fields[index] {
            let bytes = self.bytes.get(offset as usize..)?.first_chunk()?;
            return Some(texts.comms.padded(bytes, &mut texts.strings));
        }
        self.text(index).map(|text| texts.text(text))
    }

    /// The value of a field of any type.
    fn value(&self, index: usize) -> Option<Value<'r>> {
        match self.recipe.fields[index] {
            Access::Other(field) => self.class.value(field, self.record),
            _ => None,
        }
    }

    /// A small number as the kernel's `int`.
    #[inline]
    fn int(&self, index: usize) -> Option<i32> {
        self.bits(index).map(|bits| bits as i32)
    }
}

/// Whether events of this class are texts written into the trace.
#[must_use]
pub fn is_text(class: &EventClass) -> bool {
    matches!(class.name.as_str(), "print" | "bprint" | "bputs" | "lttng_logger")
        || recipes::is_text_of_lttng(class)
}

impl Recipe {
    /// The field with the current thread. The id within a container (`vtid`) is only used in user space, whose classes
    /// have a provider: in the kernel another thread may have that id.
    fn whose(class: &EventClass) -> Option<FieldRef> {
        let own = if class.system.is_empty() { None } else { Some("vtid_context") };
        let names = ["common_pid", "perf_tid", "perf_tid_context", "tid_context"].into_iter().chain(own);
        class.field_of(&names.collect::<Vec<_>>())
    }

    fn of(class: &EventClass, table: SyscallTable, strings: &mut Strings) -> Recipe {
        let mut recipe = Recipe {
            name: strings.intern(&class.name),
            build: None,
            fields: [Access::None; MOST_FIELDS],
            current: Access::of(class, Recipe::whose(class)),
            flags: Access::of(class, class.field("common_flags")),
            syscall: -1,
        };
        if let Some((entry, name)) = recipes::syscall_in_name(&class.name) {
            let (build, fields) = recipes::syscall_recipe(class, entry);
            recipe.fields = fields.map(|field| Access::of(class, field));
            recipe.syscall = table.number(name).unwrap_or(-1);
            // `syscall_entry_unknown` carries its number in a field.
            if recipe.syscall >= 0 || fields[0].is_some() {
                recipe.build = Some(build);
            }
        } else if let Some((build, names)) = recipes::find(class) {
            recipe.build = Some(build);
            for (slot, aliases) in recipe.fields.iter_mut().zip(names) {
                *slot = Access::of(class, class.field_of(aliases));
            }
        }
        recipe
    }
}

impl Access {
    fn of(class: &EventClass, field: Option<FieldRef>) -> Access {
        let Some(field) = field else { return Access::None };
        match class.place_of(field) {
            Some(Place::Int { offset, size, signed }) if class.is_whole(field) => {
                Access::Int { offset, size, signed, order: class.order }
            }
            Some(Place::Array { offset, size: 16, element }) if class.is_whole(field) && element.text => {
                Access::Comm { offset }
            }
            _ => Access::Other(field),
        }
    }
}

/// `prev_state` of sched_switch. 0x100 is "preempted" since Linux 4.14, 0x800 and 0x1000 were before; only the low
/// byte holds states that a thread sleeps in, and 0x8000 is frozen, which tracefs shows as 2. 0x10 and 0x20 are dead and
/// zombie, in either order.
fn left_as(state: u64) -> LeftAs {
    let preempted = state & 0x1900 != 0;
    if state & 0x80ff == 0 || preempted {
        LeftAs::Runnable
    } else if state & 0x30 != 0 {
        LeftAs::Dead
    } else {
        LeftAs::Blocked(state as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::Field;
    use super::*;

    #[test]
    fn a_containers_numbers_of_threads_are_not_the_kernels() {
        let current = |system: &str, name: &str| {
            let place = Place::Int { offset: 0, size: 4, signed: true };
            let fields = vec![Field { name: name.into(), place }];
            let (system, name) = (system.to_owned(), "sched_waking".to_owned());
            let class = EventClass { system, name, fields, order: Order::Little, dynamic: None };
            Recipe::of(&class, SyscallTable::X86_64, &mut Strings::default()).current
        };
        assert!(matches!(current("", "vtid_context"), Access::None));
        assert!(matches!(current("", "tid_context"), Access::Int { .. }));
        assert!(matches!(current("axis", "vtid_context"), Access::Int { .. }));
    }

    #[test]
    fn states_of_old_and_new_kernels_mean_the_same() {
        assert_eq!(left_as(0), LeftAs::Runnable);
        assert_eq!(left_as(0x100), LeftAs::Runnable);
        assert_eq!(left_as(0x400), LeftAs::Runnable);
        assert_eq!(left_as(0x800), LeftAs::Runnable);
        assert_eq!(left_as(1), LeftAs::Blocked(1));
        assert_eq!(left_as(0x82), LeftAs::Blocked(0x82));
        assert_eq!(left_as(0x2001), LeftAs::Blocked(0x2001));
        assert_eq!(left_as(0x8000), LeftAs::Blocked(0x8000), "frozen");
        assert_eq!(left_as(0x10), LeftAs::Dead);
        assert_eq!(left_as(0x20), LeftAs::Dead);
    }
}
