//! The JSON Schemas under `schemas/`: those of the types, and true of what the program prints.
//! `KSEG_BLESS=1` writes the files anew.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use kseg::schemas;
use serde_json::{Map, Value};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn schema_of(command: &str) -> Value {
    serde_json::to_value(schemas::of(command).unwrap()).unwrap()
}

#[test]
fn the_files_are_those_of_the_types() {
    let bless = std::env::var_os("KSEG_BLESS").is_some_and(|value| value == "1");
    let folder = repository().join("schemas");
    let mut paths = Vec::new();
    for command in schemas::commands() {
        let path = folder.join(format!("{command}.json"));
        let text = format!("{:#}\n", schema_of(command));
        if bless {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let name = path.display();
        assert!(
            committed == text,
            "{name} is stale; KSEG_BLESS=1 writes it anew"
        );
        let printed = program::run(repository(), ["schema", command]).stdout;
        let printed: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(printed, schema_of(command), "kseg schema {command}");
        paths.push(path);
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        assert!(paths.contains(&path), "{}: of no command", path.display());
    }
}

/// The part of JSON Schema that these schemas use; a keyword that is not here fails.
struct Validator<'a> {
    definitions: &'a Map<String, Value>,
}

impl Validator<'_> {
    /// What is wrong with `value`, if anything is.
    fn check(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        let Value::Object(schema) = schema else {
            let fits = *schema == Value::Bool(true);
            return if fits {
                Ok(())
            } else {
                Err(format!("{place}: {schema} allows nothing"))
            };
        };
        for (keyword, rule) in schema {
            let fits = match keyword.as_str() {
                "description" | "title" | "format" | "default" | "$schema" | "$id" | "$defs" => {
                    true
                }
                "type" => Self::has_type(rule, value),
                "const" => rule == value,
                "enum" => rule.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|it| it >= rule.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|it| it <= rule.as_f64().unwrap()),
                "$ref" => {
                    let name = rule.as_str().unwrap().rsplit('/').next().unwrap();
                    self.check(&self.definitions[name], value, place)?;
                    true
                }
                "anyOf" => self.matching(rule, value, place)? >= 1,
                "oneOf" => self.matching(rule, value, place)? == 1,
                "allOf" => {
                    for rule in rule.as_array().unwrap() {
                        self.check(rule, value, place)?;
                    }
                    true
                }
                "items" | "prefixItems" | "minItems" | "maxItems" => {
                    self.check_items(keyword, rule, value, place)?
                }
                "properties" => {
                    for (key, rule) in rule.as_object().unwrap() {
                        if let Some(value) = value.get(key) {
                            self.check(rule, value, &format!("{place}.{key}"))?;
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let known = schema.get("properties").and_then(Value::as_object);
                    for (key, value) in value.as_object().into_iter().flatten() {
                        if known.is_none_or(|known| !known.contains_key(key)) {
                            self.check(rule, value, &format!("{place}.{key}"))?;
                        }
                    }
                    true
                }
                "required" => {
                    let keys = rule.as_array().unwrap().iter();
                    let missing = keys.filter(|key| value.get(key.as_str().unwrap()).is_none());
                    let missing: Vec<_> = missing.collect();
                    if !missing.is_empty() {
                        return Err(format!("{place}: without {missing:?}"));
                    }
                    true
                }
                other => panic!("{place}: this test does not know the keyword {other}"),
            };
            if !fits {
                return Err(format!("{place}: {value} is against {keyword} {rule}"));
            }
        }
        Ok(())
    }

    /// The keywords about arrays.
    fn check_items(
        &self,
        keyword: &str,
        rule: &Value,
        value: &Value,
        place: &str,
    ) -> Result<bool, String> {
        let Value::Array(items) = value else {
            return Ok(true);
        };
        let rules: Vec<&Value> = match keyword {
            "items" => vec![rule; items.len()],
            "prefixItems" => rule.as_array().unwrap().iter().collect(),
            "minItems" => return Ok(items.len() as u64 >= rule.as_u64().unwrap()),
            _ => return Ok(items.len() as u64 <= rule.as_u64().unwrap()),
        };
        for (index, (rule, item)) in rules.into_iter().zip(items).enumerate() {
            self.check(rule, item, &format!("{place}[{index}]"))?;
        }
        Ok(true)
    }

    /// How many of the alternatives fit; the last reason if none does.
    fn matching(&self, rules: &Value, value: &Value, place: &str) -> Result<usize, String> {
        let rules = rules.as_array().unwrap();
        let results: Vec<_> = rules
            .iter()
            .map(|rule| self.check(rule, value, place))
            .collect();
        let fits = results.iter().filter(|result| result.is_ok()).count();
        match (fits, results.last()) {
            (0, Some(Err(error))) => Err(error.clone()),
            _ => Ok(fits),
        }
    }

    fn has_type(rule: &Value, value: &Value) -> bool {
        let names: Vec<&str> = match rule {
            Value::String(name) => vec![name],
            _ => rule
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it.as_str().unwrap())
                .collect(),
        };
        let name = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        names.contains(&name) || (name == "integer" && names.contains(&"number"))
    }

    /// Every key that any alternative of a row's schema has.
    fn keys(&self, schema: &Value, keys: &mut Vec<String>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            keys.extend(properties.keys().cloned());
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            for rule in schema
                .get(keyword)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                self.keys(rule, keys);
            }
        }
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            self.keys(&self.definitions[name.rsplit('/').next().unwrap()], keys);
        }
    }
}

/// Checks a document, and that no row has a key that its schema does not name.
fn assert_valid(command: &str, document: &Value, what: &str) {
    let schema = schema_of(command);
    let none = Map::new();
    let definitions = schema
        .get("$defs")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    let validator = Validator { definitions };
    if let Err(error) = validator.check(&schema, document, command) {
        panic!("{what}: {error}");
    }
    let mut keys = Vec::new();
    validator.keys(&schema["properties"]["results"]["items"], &mut keys);
    for row in document["results"].as_array().unwrap() {
        for key in row.as_object().unwrap().keys() {
            assert!(keys.contains(key), "{what}: {key} is not in the schema");
        }
    }
}

fn data_folders() -> Vec<PathBuf> {
    let fixtures = repository().join("fixtures");
    let incidents = fixtures.join("incidents");
    let mut folders: Vec<PathBuf> = [&fixtures, &incidents]
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path().join("data"))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

/// How to run a command on the folder it is in; `None` for those that do not read a folder.
/// `made` is a folder to write into.
fn arguments(command: &str, made: &Path) -> Option<Vec<String>> {
    let mut arguments = vec![command.to_owned(), "-o".to_owned(), "json".to_owned()];
    match command {
        "write" => return None,
        "ls" => arguments.extend(["--segments", "--files"].map(str::to_owned)),
        // Two paths; what they differ in has a test of its own.
        "diff" => arguments.push(".".to_owned()),
        "rebuild" => arguments.extend(["--out".to_owned(), made.display().to_string()]),
        _ => {}
    }
    arguments.push(".".to_owned());
    Some(arguments)
}

#[test]
fn what_write_prints_follows_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = repository().join("cases/named/duplicate-of-last/scenario.json");
    let out = folder.path().join("out");
    let arguments = ["write", "-o", "json"]
        .map(str::to_owned)
        .into_iter()
        .chain([
            scenario.display().to_string(),
            "--out".to_owned(),
            out.display().to_string(),
        ]);
    let run = program::run(repository(), arguments);
    let document = serde_json::from_str(&run.stdout).unwrap();
    assert_valid("write", &document, "write");
}

#[test]
fn what_diff_prints_follows_the_schema() {
    let incidents = repository().join("fixtures/incidents");
    let mut compared = 0;
    for entry in fs::read_dir(incidents).unwrap() {
        let data = entry.unwrap().path().join("data");
        if data.join("a").is_dir() && data.join("b").is_dir() {
            let run = program::run(&data, ["diff", "-o", "json", "a", "b"]);
            let document: Value = serde_json::from_str(&run.stdout).unwrap();
            assert_eq!(document["results"].as_array().unwrap().len(), 1);
            assert_valid("diff", &document, &data.display().to_string());
            compared += 1;
        }
    }
    for fixture in [
        "s07a-truncated-tail",
        "s07b-flipped-byte-unflushed",
        "s07e-deleted-txnindex",
    ] {
        let fixture = repository().join("fixtures").join(fixture);
        let run = program::run(&fixture, ["diff", "-o", "json", "undamaged", "data"]);
        let document = serde_json::from_str(&run.stdout).unwrap();
        assert_valid("diff", &document, &fixture.display().to_string());
    }
    assert!(compared >= 5, "{compared}");
}

#[test]
fn what_is_printed_follows_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    for (index, data) in data_folders().into_iter().enumerate() {
        let made = folder.path().join(index.to_string());
        for command in schemas::commands() {
            let Some(arguments) = arguments(command, &made) else {
                continue;
            };
            let run = program::run(&data, arguments);
            let document = serde_json::from_str(&run.stdout)
                .unwrap_or_else(|error| panic!("{command} {}: {error}", data.display()));
            assert_valid(command, &document, &format!("{command} {}", data.display()));
        }
    }
}

#[test]
fn the_check_notices_a_wrong_document() {
    let row = |change: fn(&mut Map<String, Value>)| {
        let data = repository().join("fixtures/incidents/bad-crc/data");
        let run = program::run(&data, ["ls", "-o", "json", "."]);
        let mut document: Value = serde_json::from_str(&run.stdout).unwrap();
        change(document["results"][0].as_object_mut().unwrap());
        let schema = schema_of("ls");
        let definitions = schema["$defs"].as_object().unwrap();
        Validator { definitions }.check(&schema, &document, "ls")
    };
    assert_eq!(row(|_| {}), Ok(()));
    assert!(row(|row| drop(row.remove("segments"))).is_err());
    assert!(row(|row| drop(row.insert("batches".into(), "8".into()))).is_err());
    assert!(row(|row| drop(row.insert("batches".into(), Value::Null))).is_err());
    assert!(row(|row| drop(row.insert("records".into(), Value::Null))).is_ok());
}
