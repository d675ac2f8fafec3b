//! One module a subcommand: its arguments and `run`. Thin: open, call the library, render.

pub(crate) mod completions;
pub(crate) mod dump;
pub(crate) mod ls;
pub(crate) mod lso;
pub(crate) mod overview;
pub(crate) mod producers;
pub(crate) mod read;
pub(crate) mod schema;
