//! Ready scenarios, to begin from.

/// A ready scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Name.
    pub name: &'static str,
    /// The scenario.
    pub json: &'static str,
}

macro_rules! templates {
    ($($name:literal),* $(,)?) => {
        /// The scenarios that `kseg write --example` prints.
        pub const TEMPLATES: &[Template] = &[
            $(Template {
                name: $name,
                json: include_str!(concat!("templates/", $name, ".json")),
            }),*
        ];
    };
}

templates!(
    "idempotent-retries",
    "out-of-order",
    "hanging-transaction",
    "zombie-fencing",
    "read-process-write",
    "wrap-around",
    "epoch-bump-per-transaction",
    "aborted-transaction",
    "unclean-stop",
    "follower-after-compaction",
);
