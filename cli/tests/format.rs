//! docs/run.schema.json and docs/FORMAT.md are true.
//!
//! `LATHUNT_BLESS=1 cargo test -p lathunt --test format` writes the schema anew.

#[path = "../../core/tests/example/mod.rs"]
mod example;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use lathunt_core::run::Run;
use serde_json::Value;

fn docs(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")).join(name)
}

fn schema() -> Value {
    schemars::schema_for!(Run).to_value()
}

#[test]
fn the_schema_in_docs_is_the_one_of_the_code() {
    let wanted = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("LATHUNT_BLESS").is_some_and(|value| !value.is_empty()) {
        fs::write(docs("run.schema.json"), &wanted).unwrap();
    }
    let found = fs::read_to_string(docs("run.schema.json")).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/run.schema.json is stale: LATHUNT_BLESS=1 cargo test -p lathunt --test format writes it anew; \
         then bring docs/FORMAT.md up to date"
    );
}

#[test]
fn the_schema_of_bound_in_docs_is_the_one_of_the_code() {
    let schema = schemars::schema_for!(lathunt_core::bound::answer::Answer).to_value();
    let wanted = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os("LATHUNT_BLESS").is_some_and(|value| !value.is_empty()) {
        fs::write(docs("bound.schema.json"), &wanted).unwrap();
    }
    let found = fs::read_to_string(docs("bound.schema.json")).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/bound.schema.json is stale: LATHUNT_BLESS=1 cargo test -p lathunt --test format writes it anew; \
         then bring docs/FORMAT.md up to date"
    );
}

/// Names of all fields and of all values of enumerations.
fn names(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                found.extend(properties.keys().cloned());
            }
            for key in ["const", "enum"] {
                match map.get(key) {
                    Some(Value::String(text)) => drop(found.insert(text.clone())),
                    Some(Value::Array(values)) => {
                        found.extend(values.iter().filter_map(|v| v.as_str().map(str::to_owned)));
                    }
                    _ => {}
                }
            }
            map.values().for_each(|value| names(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

#[test]
fn every_field_and_every_value_is_documented() {
    let mut wanted = BTreeSet::new();
    names(&schema(), &mut wanted);
    assert!(
        wanted.contains("unexplained_ns") && wanted.contains("timer+wakeup") && wanted.contains("irqs_off")
    );
    let text = fs::read_to_string(docs("FORMAT.md")).unwrap();
    let missing: Vec<_> = wanted.iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/FORMAT.md does not mention {missing:?}");
}

#[test]
fn the_example_in_the_document_is_a_run() {
    let text = fs::read_to_string(docs("FORMAT.md")).unwrap();
    let json = text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let run = Run::from_json(json).unwrap();
    assert_eq!(run.series[0].histogram.count(), 1_000);
    assert!(run.peaks[0].explanation.as_ref().unwrap().tree.adds_up());
}

#[test]
fn what_the_document_says_about_reading_holds() {
    let mut json: Value = serde_json::from_str(&example::run(1, 300).to_json()).unwrap();
    json["invented_later"] = 1.into();
    json["conditions"]["invented_later"] = 1.into();
    json["conditions"].as_object_mut().unwrap().remove("host");
    let run = Run::from_json(&json.to_string()).expect("unknown fields are skipped, absent ones are null");
    assert_eq!(run.conditions.host, None);
    json["series"][0]["quantity"] = "invented".into();
    assert!(Run::from_json(&json.to_string()).is_err(), "unknown values are refused");
    json["version"] = 2.into();
    assert!(Run::from_json(&json.to_string()).unwrap_err().to_string().contains("newer lathunt"));
}

/// What `lathunt explain --json` prints: to a question about intervals, with `--summary`, and with `--periods`.
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, clippy::large_enum_variant)] // only its schema is asked for
enum Printed {
    Answers(lathunt_core::explain::answers::Answers),
    Summary(lathunt_core::explain::summary::Summary),
    Periods(lathunt_core::explain::periods::Periods),
}

#[test]
fn the_schema_of_explanations_is_the_one_of_the_code() {
    let schema = schemars::schema_for!(Printed).to_value();
    let wanted = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os("LATHUNT_BLESS").is_some() {
        fs::write(docs("explain.schema.json"), &wanted).unwrap();
    }
    let found = fs::read_to_string(docs("explain.schema.json")).unwrap_or_default();
    assert!(found == wanted, "docs/explain.schema.json is stale: LATHUNT_BLESS=1 writes it anew");
}
