//! The first line of `kseg recover`: whether a broker may be started on these directories.
//!
//! It says what the exit status says, by the same rule ([`RecoverRow::is_loss`]).

use std::collections::BTreeSet;

use kseg::append::dry_run::RecoverRow;
use kseg::append::dry_run::row::Start;
use kseg::format::file_name::LogDirFileName;
use kseg::format::internal_topic::InternalTopic;
use kseg::log::broker_start::outage;
use kseg::report::gaps::range;

use super::incomplete;
use super::text::{count, plural};

/// Partitions that are named; the others are counted.
const MAX_NAMED: usize = 3;

/// The rows of the starts that the directories would get, or that was picked, under the names they
/// have in the table.
pub(crate) struct Verdict<'a> {
    rows: Vec<(String, &'a RecoverRow)>,
    picked: Option<Start>,
    unlooked: Unlooked,
}

/// What was not looked at.
#[derive(Clone, Copy)]
pub(crate) struct Unlooked {
    /// What could not be done.
    pub(crate) failures: u64,
    /// Whether no checksums were computed to look for what is gone.
    pub(crate) quick: bool,
    /// Whether no metadata log tells which partitions are strays, although one is there.
    pub(crate) strays: bool,
}

impl<'a> Verdict<'a> {
    pub(crate) fn new(
        rows: Vec<(String, &'a RecoverRow)>,
        picked: Option<Start>,
        unlooked: Unlooked,
    ) -> Self {
        Self {
            rows,
            picked,
            unlooked,
        }
    }

    /// Whether it is a good one: that of status 0.
    pub(crate) fn is_good(&self) -> bool {
        self.unlooked.failures == 0 && !self.rows.iter().any(|(_, row)| row.is_loss())
    }

    /// The line.
    pub(crate) fn line(&self) -> String {
        if self.is_good() {
            return self.good();
        }
        [
            incomplete(self.unlooked.failures),
            self.outage(),
            self.strays(),
            self.losses(),
            self.acknowledged(),
            self.gone(),
            self.torn(),
            self.strays_not_known(),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
    }

    fn good(&self) -> String {
        let warned = self.names(|row| !row.warnings.is_empty() || row.loses_producer_state);
        if warned.is_empty() {
            let start = self.picked.map(|it| format!(" {}", it.name()));
            let unknown = self.not_known();
            let gone = if self.unlooked.quick {
                "; whether older batches can still be read was not looked at (--quick)"
            } else if unknown.is_some() {
                ", and nothing before its end is gone already"
            } else {
                ", and nothing acknowledged is gone already"
            };
            let start = start.unwrap_or_default();
            let unknown = unknown.unwrap_or_default();
            let strays = self.and_strays_not_known();
            return format!("safe to start{start}: nothing is lost by it{gone}{unknown}{strays}");
        }
        format!(
            "{} loses no record, but read the warnings first: {}{}{}",
            self.starting(),
            listed(&warned),
            self.not_known().unwrap_or_default(),
            self.and_strays_not_known(),
        )
    }

    fn strays_not_known(&self) -> Option<String> {
        let of = InternalTopic::ClusterMetadata.name();
        let what =
            format!("which partitions it takes for strays is not known: {of}-0 does not tell");
        self.unlooked.strays.then_some(what)
    }

    fn and_strays_not_known(&self) -> String {
        let what = self.strays_not_known();
        what.map_or_else(String::new, |what| format!("; {what}"))
    }

    /// Of which partitions it is not known what had been acknowledged: nobody can say then whether
    /// something is gone from the end.
    fn not_known(&self) -> Option<String> {
        let unknown = self.names(|row| {
            let is_live = matches!(row.status, Some("live") | None);
            let is_metadata = row.topic.as_deref() == Some(InternalTopic::ClusterMetadata.name());
            is_live && !is_metadata && row.high_watermark_at_start.is_none()
        });
        (!unknown.is_empty()).then(|| {
            let checkpoint = LogDirFileName::ReplicationOffsetCheckpoint;
            format!(
                "; what was acknowledged behind the log end is not known without a high watermark in \
                 {checkpoint}: {}",
                listed(&unknown)
            )
        })
    }

    /// What a start neither does nor mends.
    fn gone(&self) -> Option<String> {
        let rows = self.rows.iter();
        let gone = rows.filter_map(|(name, row)| {
            let gone = row.gone.as_ref().filter(|it| it.offsets > 0)?;
            let (first, last) = gone.first_offset.zip(gone.last_offset)?;
            Some((format!("{name} {}", range(first, last)), gone.offsets))
        });
        let (places, offsets): (Vec<String>, Vec<u64>) = gone.unzip();
        if places.is_empty() {
            return None;
        }
        let offsets = offsets.into_iter().fold(0, u64::saturating_add);
        let offsets = plural(
            offsets,
            "acknowledged offset is",
            "acknowledged offsets are",
        );
        let loses = self.rows.iter().any(|(_, row)| row.is_lost_by_start());
        let start = if loses {
            String::new()
        } else {
            format!("; {} loses nothing more", self.starting())
        };
        Some(format!(
            "{offsets} gone already: {}{start}",
            listed(&places)
        ))
    }

    fn outage(&self) -> Option<String> {
        let failed = self.names(|row| !row.loads);
        if failed.is_empty() {
            return None;
        }
        let mut errors = self.rows.iter().filter_map(|(_, row)| row.error.as_ref());
        let what = outage(errors.any(|it| it.stops_broker));
        let come = if failed.len() == 1 { "does" } else { "do" };
        Some(format!("{what}: {} {come} not come up", listed(&failed)))
    }

    fn strays(&self) -> Option<String> {
        let strays = self.names(|row| row.is_stray);
        (!strays.is_empty()).then(|| {
            let starting = self.starting();
            format!(
                "{starting} serves none of what it takes for strays: {}",
                listed(&strays)
            )
        })
    }

    fn losses(&self) -> Option<String> {
        let lost: Vec<&(String, &RecoverRow)> =
            self.rows.iter().filter(|(_, row)| row.loses_data).collect();
        if lost.is_empty() {
            return None;
        }
        let records: u64 = lost.iter().map(|(_, row)| row.losses.records).sum();
        let corrupt: u64 = lost.iter().map(|(_, row)| row.losses.corrupt_batches).sum();
        let what = if records > 0 {
            count(records, "record")
        } else {
            plural(corrupt, "corrupt batch", "corrupt batches")
        };
        let places = lost.iter().map(|(name, row)| {
            match (row.losses.first_offset, row.losses.last_offset) {
                (Some(first), Some(last)) => format!("{name} {}", range(first, last)),
                _ => name.clone(),
            }
        });
        let partitions = count(lost.len() as u64, "partition");
        let places: Vec<String> = places.collect();
        Some(format!(
            "{} loses {what} of {partitions}: {}",
            self.starting(),
            listed(&places)
        ))
    }

    /// Offsets below the high watermark that no file has, where the line does not say so already.
    fn acknowledged(&self) -> Option<String> {
        let rows = self.rows.iter().filter(|(_, row)| !row.loses_data);
        let gone: Vec<String> = rows
            .filter_map(|(name, row)| {
                let losses = &row.losses;
                let (first, last) = losses.acknowledged_from.zip(losses.acknowledged_to)?;
                Some(format!("{name} {}", range(first, last)))
            })
            .collect();
        if gone.is_empty() {
            return None;
        }
        let partitions = count(gone.len() as u64, "partition");
        let starting = self.starting();
        Some(format!(
            "acknowledged records of {partitions} are gone, and {starting} gives their offsets out \
             again: {}",
            listed(&gone)
        ))
    }

    fn torn(&self) -> Option<String> {
        let torn = self.names(|row| row.torn_tail_bytes > 0);
        (!torn.is_empty()).then(|| {
            let starting = self.starting();
            format!("{starting} loses what is written next: {}", listed(&torn))
        })
    }

    fn starting(&self) -> String {
        match self.picked {
            None => "starting".to_owned(),
            Some(start) => format!("starting {}", start.name()),
        }
    }

    fn names(&self, is_wanted: impl Fn(&RecoverRow) -> bool) -> Vec<String> {
        let rows = self.rows.iter().filter(|(_, row)| is_wanted(row));
        let names: BTreeSet<&String> = rows.map(|(name, _)| name).collect();
        names.into_iter().cloned().collect()
    }
}

/// The first of some places, and how many others there are.
fn listed(places: &[String]) -> String {
    let named = places.iter().take(MAX_NAMED);
    let mut text = named.cloned().collect::<Vec<_>>().join(", ");
    let others = places.len().saturating_sub(MAX_NAMED);
    if others > 0 {
        text.push_str(&format!(
            " and {}",
            plural(others as u64, "other", "others")
        ));
    }
    text
}
