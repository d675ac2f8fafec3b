//! One module a subcommand: its arguments and `run`. Thin: open, call the library, render.

pub(crate) mod aborted;
pub(crate) mod completions;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod gaps;
pub(crate) mod ls;
pub(crate) mod lso;
pub(crate) mod overview;
pub(crate) mod producers;
pub(crate) mod read;
pub(crate) mod rebuild;
pub(crate) mod recover;
pub(crate) mod replay;
pub(crate) mod schema;
pub(crate) mod txns;
pub(crate) mod verify;
pub(crate) mod write;
