//! JSON Schemas of what commands print, generated from the types of their rows.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, json_schema};

use crate::append::dry_run::RecoverRow;
use crate::append::scenario::WriteRow;
use crate::report::aborted::AbortedResult;
use crate::report::diff::DiffRow;
use crate::report::dump::DumpRow;
use crate::report::gaps::GapRow;
use crate::report::ls::LsRow;
use crate::report::lso::LsoRow;
use crate::report::producers::ProducersRow;
use crate::report::read::ReadResult;
use crate::report::rebuild::RebuildRow;
use crate::report::replay::ReplayRow;
use crate::report::txns::TxnRow;
use crate::report::verify::Finding;

/// Makes the schema of the command it is given the name of.
type MakeSchema = fn(&str) -> Schema;

/// The commands whose output has a schema, each with what makes it.
const SCHEMAS: &[(&str, MakeSchema)] = &[
    ("ls", document::<LsRow>),
    ("dump", document::<DumpRow<'_>>),
    ("read", document::<ReadResult<'_>>),
    ("producers", document::<ProducersRow>),
    ("replay", document::<ReplayRow<'_>>),
    ("gaps", document::<GapRow<'_>>),
    ("txns", document::<TxnRow<'_>>),
    ("aborted", document::<AbortedResult<'_>>),
    ("lso", document::<LsoRow>),
    ("diff", document::<DiffRow>),
    ("verify", document::<Finding>),
    ("recover", document::<RecoverRow>),
    ("rebuild", document::<RebuildRow>),
    ("write", document::<WriteRow>),
];

/// The commands whose output has a schema.
pub fn commands() -> impl Iterator<Item = &'static str> {
    SCHEMAS.iter().map(|(command, _)| *command)
}

/// The schema of the document that `kseg COMMAND -o json` prints.
#[must_use]
pub fn of(command: &str) -> Option<Schema> {
    let (name, make) = SCHEMAS.iter().find(|(name, _)| *name == command)?;
    Some(make(name))
}

/// `{"schema": "kseg/COMMAND/v1", "results": [ROW, ...]}`.
fn document<Row: JsonSchema>(command: &str) -> Schema {
    // For serialisation: a field that may be null is still always there.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
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
