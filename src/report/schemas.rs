//! JSON Schemas of the answers, generated from their types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, json_schema};

use super::dump::DumpRow;
use super::ls::LsRow;
use super::lso::LsoRow;
use super::producers::ProducersRow;
use super::read::ReadResult;

/// The commands whose output has a schema.
pub const COMMANDS: &[&str] = &["ls", "dump", "read", "producers", "lso"];

/// The schema of the document that `kseg COMMAND -o json` prints.
#[must_use]
pub fn of(command: &str) -> Option<Schema> {
    match command {
        "ls" => Some(document::<LsRow>("ls")),
        "dump" => Some(document::<DumpRow<'_>>("dump")),
        "read" => Some(document::<ReadResult<'_>>("read")),
        "producers" => Some(document::<ProducersRow>("producers")),
        "lso" => Some(document::<LsoRow>("lso")),
        _ => None,
    }
}

/// `{"schema": "kseg/COMMAND/v1", "results": [ROW, ...]}`.
fn document<Row: JsonSchema>(command: &str) -> Schema {
    // For serialisation: a field that may be null is still always there.
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let row = generator.subschema_for::<Row>();
    let definitions = generator.take_definitions(true);
    json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("kseg/{command}/v1"),
        "title": format!("kseg {command}"),
        "type": "object",
        "properties": {
            "schema": { "const": format!("kseg/{command}/v1") },
            "results": { "type": "array", "items": row },
        },
        "required": ["schema", "results"],
        "$defs": definitions,
    })
}
