//! Conditions as a table: one named fact per row, in a fixed order, for the report and for comparisons.

use std::collections::BTreeMap;

use crate::conditions::{Conditions, CpuCount, DuringMeasurement, IdleState};
use crate::time::Ns;

/// One condition. `None`: it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// `run`, `meanwhile`, `machine`, `kernel`, `knobs`, `capabilities`.
    pub group: &'static str,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Option<String>,
}

/// All conditions, grouped.
#[must_use]
pub fn facts(conditions: &Conditions) -> Vec<Fact> {
    let mut facts = run_facts(conditions);
    facts.extend(during_facts(&conditions.during));
    facts.extend(machine_facts(conditions));
    facts.extend(kernel_facts(conditions));
    facts.extend(knob_facts(conditions));
    facts.extend(conditions.capabilities.iter().map(|capability| {
        let value = match (capability.present, capability.note.as_str()) {
            (true, _) => "present".to_owned(),
            (false, "") => "absent".to_owned(),
            (false, note) => format!("absent: {note}"),
        };
        Fact { group: "capabilities", name: capability.name.clone(), value: Some(value) }
    }));
    facts
}

/// Whether this fact naturally differs between runs: it describes when or how they were made.
#[must_use]
pub fn is_circumstance(fact: &Fact) -> bool {
    fact.group == "meanwhile"
        || fact.group == "knobs" && is_circumstance_knob(&fact.name)
        || fact.group == "run" && matches!(fact.name.as_str(), "started" | "command" | "duration")
}

/// Whether this file, kept with the knobs, naturally differs between runs.
#[must_use]
pub fn is_circumstance_knob(path: &str) -> bool {
    path.ends_with("proc/loadavg")
}

/// The value of a fact as a condition.
#[must_use]
pub fn as_condition(fact: &Fact) -> Option<String> {
    let value = fact.value.as_ref()?;
    Some(if fact.name == "load" { load_as_condition(value) } else { value.clone() })
}

/// The command of a load without its duration and the path of its files, which do not affect it.
#[must_use]
pub fn load_as_condition(command: &str) -> String {
    const NO_CONDITION: [&str; 4] = ["--timeout", "-t", "--temp-path", "--metrics-brief"];
    let mut words = command.split_whitespace().peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let (option, attached) = word.split_once('=').map_or((word, false), |(option, _)| (option, true));
        if !NO_CONDITION.contains(&option) {
            kept.push(word);
        } else if !attached {
            words.next_if(|value| !value.starts_with('-'));
        }
    }
    kept.join(" ")
}

fn fact(group: &'static str, name: &str, value: Option<impl ToString>) -> Fact {
    Fact { group, name: name.to_owned(), value: value.map(|value| value.to_string()) }
}

fn run_facts(c: &Conditions) -> Vec<Fact> {
    vec![
        fact("run", "started", c.started.as_ref()),
        fact("run", "duration", c.duration_s.map(|s| format!("{s} s"))),
        fact("run", "command", c.command.as_ref()),
        fact("run", "tool", c.tool.as_ref()),
        fact("run", "host", c.host.as_ref()),
        fact("run", "load", c.load.as_ref()),
    ]
}

fn during_facts(during: &DuringMeasurement) -> Vec<Fact> {
    let counts = |all: &Option<Vec<CpuCount>>| {
        let shown = |one: &CpuCount| format!("CPU {}: {}", one.cpu, one.count);
        all.as_ref().map(|all| all.iter().map(shown).collect::<Vec<_>>().join(", "))
    };
    let steal = during.steal.as_ref().map(|all| {
        all.iter().map(|one| format!("CPU {}: {}", one.cpu, one.steal_ns)).collect::<Vec<_>>().join(", ")
    });
    let messages =
        during.kernel_messages.as_ref().and_then(|all| or_none(all.join("; "), "none that matters"));
    vec![
        fact("meanwhile", "steal time (resolution 10 ms)", steal),
        fact("meanwhile", "system management interrupts", counts(&during.smi)),
        fact("meanwhile", "thermal throttling events", counts(&during.thermal_throttle)),
        fact("meanwhile", "kernel messages", messages),
        fact(
            "meanwhile",
            "load",
            or_none(during.load_ended_early.clone().unwrap_or_default(), "lasted to the end"),
        ),
    ]
}

fn machine_facts(c: &Conditions) -> Vec<Fact> {
    let m = &c.machine;
    vec![
        fact("machine", "architecture", m.architecture.as_ref()),
        fact("machine", "CPU model", m.cpu_model.as_ref()),
        fact("machine", "CPUs online", m.cpus_online.as_ref()),
        fact("machine", "CPUs measured", m.cpus_measured.as_ref()),
        fact("machine", "highest CPU clock", m.cpu_max_hz.map(|hz| format!("{} MHz", hz / 1_000_000))),
        fact("machine", "memory", m.memory_bytes.map(|b| format!("{} MiB", b >> 20))),
        fact("machine", "product", m.product.as_ref()),
        fact("machine", "hypervisor", m.hypervisor.as_ref()),
        fact("machine", "SMT", m.smt.as_ref()),
    ]
}

fn kernel_facts(c: &Conditions) -> Vec<Fact> {
    let k = &c.kernel;
    vec![
        fact("kernel", "release", k.release.as_ref()),
        fact("kernel", "version", k.version.as_ref()),
        fact("kernel", "preemption, as compiled", k.preemption.as_ref()),
        fact("kernel", "preemption, in force", k.preemption_in_force.as_ref()),
        fact("kernel", "PREEMPT_RT", k.realtime.map(|yes| if yes { "yes" } else { "no" })),
        fact("kernel", "command line", k.command_line.as_ref()),
        fact("kernel", "tick", k.hz.map(|hz| format!("{hz} Hz"))),
        fact("kernel", "build options", or_none(options(&k.config), "not readable")),
    ]
}

fn knob_facts(c: &Conditions) -> Vec<Fact> {
    let k = &c.knobs;
    let us = |value: Option<i64>| value.map(|us| format!("{us} µs"));
    let throttling = match k.rt_runtime_us {
        Some(-1) => Some("off (-1)".to_owned()),
        other => us(other),
    };
    let mut facts = vec![
        fact("knobs", "clock source", k.clocksource.as_ref()),
        fact("knobs", "frequency governor", or_none(pairs(&k.governors), "no frequency scaling visible")),
        fact("knobs", "idle states", or_none(idle_states(&k.idle_states), "none visible")),
        fact("knobs", "cpu_dma_latency allowed", us(k.cpu_dma_latency_us.map(i64::from))),
        fact("knobs", "cpu_dma_latency held by the tool", us(k.cpu_dma_latency_held_us.map(i64::from))),
        fact(
            "knobs",
            "cpu_dma_latency held by others",
            or_none(k.cpu_dma_latency_holders.join(", "), "nobody seen"),
        ),
        fact("knobs", "real-time throttling: runtime", throttling),
        fact("knobs", "real-time throttling: period", us(k.rt_period_us)),
        fact("knobs", "fair server", or_none(pairs(&k.fair_server), "none visible")),
    ];
    facts.extend(k.other.iter().map(|(path, value)| fact("knobs", path, Some(value))));
    facts
}

fn or_none(text: String, none: &str) -> Option<String> {
    Some(if text.is_empty() { none.to_owned() } else { text })
}

fn options(config: &BTreeMap<String, String>) -> String {
    config.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

fn pairs(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("CPU {key}: {value}")).collect::<Vec<_>>().join(", ")
}

fn idle_states(states: &[IdleState]) -> String {
    let one = |state: &IdleState| {
        let exit = state.exit_latency_us.map(|us| format!(" {}", Ns::from_us(us))).unwrap_or_default();
        let off = if state.disabled == Some(true) { " (disabled)" } else { "" };
        format!("{} {}{exit}{off}", state.state, state.name)
    };
    states.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field of the conditions has its row: a new field that no view shows fails here.
    #[test]
    fn no_condition_is_left_out() {
        let mut conditions = Conditions::default();
        conditions.kernel.config.insert("PREEMPT_RT".to_owned(), "y".to_owned()); // left out of files when empty
        let json = serde_json::to_value(&conditions).unwrap();
        let fields = |path: &str| json[path].as_object().unwrap().len();
        let top = json.as_object().unwrap().len() - 5; // during, machine, kernel, knobs, capabilities
        let shown = facts(&conditions);
        let rows = |group: &str| shown.iter().filter(|fact| fact.group == group).count();
        assert_eq!(rows("run"), top);
        assert_eq!(rows("meanwhile"), fields("during"));
        assert_eq!(rows("machine"), fields("machine"));
        assert_eq!(rows("kernel"), fields("kernel"));
        assert_eq!(rows("knobs"), fields("knobs") - 1, "`other` has rows of its own");
    }
}
