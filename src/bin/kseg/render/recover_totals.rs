//! What the partitions of one start come to together.

use kseg::append::dry_run::RecoverRow;
use kseg::log::broker_start::outage;

use super::text::plural;

/// What the rows of one start add up to.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) partitions: u64,
    pub(super) applies: u64,
    lose_data: u64,
    lost_acknowledged: u64,
    gone: u64,
    lose_producers: u64,
    do_not_load: u64,
    stops_broker: bool,
    torn: u64,
    strays: u64,
    warned: u64,
    pub(super) bytes_to_read: u64,
}

impl Totals {
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a RecoverRow>) -> Self {
        let mut totals = Self::default();
        for row in rows {
            totals.partitions += 1;
            totals.applies += u64::from(row.applies);
            totals.lose_data += u64::from(row.loses_data);
            let is_gone = !row.loses_data && row.losses.acknowledged_from.is_some();
            totals.lost_acknowledged += u64::from(is_gone);
            totals.gone += u64::from(row.is_gone());
            totals.lose_producers += u64::from(row.loses_producer_state);
            totals.do_not_load += u64::from(!row.loads);
            totals.stops_broker |= row.error.as_ref().is_some_and(|it| it.stops_broker);
            totals.torn += u64::from(row.torn_tail_bytes > 0);
            totals.strays += u64::from(row.is_stray);
            totals.warned += u64::from(!row.warnings.is_empty());
            totals.bytes_to_read += row.bytes_to_read;
        }
        totals
    }

    /// What comes of all of them.
    pub(super) fn answer(&self) -> String {
        let part =
            |number: u64, one: &str, many: &str| (number > 0).then(|| plural(number, one, many));
        let losses = [
            part(self.do_not_load, "does not come up", "do not come up"),
            part(self.lose_data, "loses data", "lose data"),
            part(
                self.strays,
                "is set aside as a stray",
                "are set aside as strays",
            ),
            part(
                self.lost_acknowledged,
                "has lost acknowledged records",
                "have lost acknowledged records",
            ),
            part(
                self.gone,
                "lacks acknowledged offsets already",
                "lack acknowledged offsets already",
            ),
            part(
                self.torn,
                "writes behind torn bytes",
                "write behind torn bytes",
            ),
            part(
                self.lose_producers,
                "loses producer state",
                "lose producer state",
            ),
        ];
        let losses: Vec<String> = losses.into_iter().flatten().collect();
        let partitions = plural(self.partitions, "partition", "partitions");
        let mut what = if losses.is_empty() {
            format!("none of {partitions} loses anything")
        } else {
            format!("of {partitions}, {}", losses.join(", "))
        };
        if let Some(warned) = part(self.warned, "has a warning", "have a warning") {
            what.push_str(", ");
            what.push_str(&warned);
        }
        if self.stops_broker {
            let outage = outage(true);
            format!("{outage}, all partitions are down: {what}")
        } else {
            what
        }
    }
}
