//! Numbers, sizes and times as tables print them.

/// A time in RFC 3339 UTC with milliseconds; the bare number where no calendar reaches it, `-`
/// for Kafka's -1.
pub(crate) fn time(millis: i64) -> String {
    if millis == -1 {
        return "-".to_owned();
    }
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => millis.to_string(),
    }
}

/// The last second that [`jiff::Timestamp`] has, and not to its end.
const LAST_WHOLE_SECOND: i64 = 253_402_207_200;

/// Writes [`time`], keeping the text up to the second: neighbours in a log share it.
#[derive(Debug, Default)]
pub(crate) struct TimeWriter {
    second: i64,
    text: String,
}

impl TimeWriter {
    /// Appends the time to `line`.
    pub(crate) fn push(&mut self, line: &mut String, millis: i64) {
        let second = millis.div_euclid(1000);
        if self.text.is_empty() || self.second != second {
            let text = time(second.saturating_mul(1000));
            match text.strip_suffix(".000Z") {
                Some(text) if (0..LAST_WHOLE_SECOND).contains(&second) => {
                    self.second = second;
                    text.clone_into(&mut self.text);
                }
                Some(_) | None => return line.push_str(&time(millis)),
            }
        }
        line.push_str(&self.text);
        line.push('.');
        let rest = u32::try_from(millis.rem_euclid(1000)).unwrap_or(0);
        for place in [100, 10, 1] {
            line.push(char::from_digit(rest / place % 10, 10).unwrap_or('0'));
        }
        line.push('Z');
    }
}

/// A time, or `-`.
pub(crate) fn optional_time(millis: Option<i64>) -> String {
    millis.map_or_else(|| "-".to_owned(), time)
}

/// A span of time in its two largest units, rounded down: `3h 12m`, `45s`, `12ms`.
pub(crate) fn duration(millis: i64) -> String {
    const UNITS: [(&str, u64); 5] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let sign = if millis < 0 { "-" } else { "" };
    let millis = millis.unsigned_abs();
    let first = UNITS.iter().position(|(_, size)| millis >= *size);
    let Some((first, (unit, size))) = first.and_then(|at| Some((at, UNITS.get(at)?))) else {
        return "0s".to_owned();
    };
    let whole = millis / size;
    let rest = UNITS.get(first + 1).and_then(|(unit, smaller)| {
        let rest = millis % size / smaller;
        (rest > 0 && *size > 1000).then(|| format!(" {rest}{unit}"))
    });
    if *size == 1000 && whole < 10 {
        return format!("{sign}{whole}.{:03}s", millis % size);
    }
    format!("{sign}{whole}{unit}{}", rest.unwrap_or_default())
}

/// A value, or `-`.
pub(crate) fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Bytes in binary units, three digits at most.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Precise enough: three digits are shown.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        // What would be rounded up to 1024 belongs to the next unit.
        if value < 1023.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if value < 9.995 {
        format!("{value:.2} {unit}")
    } else if value < 99.95 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// `1 segment`, `2 segments`.
pub(crate) fn count(number: u64, one: &str) -> String {
    plural(number, one, &format!("{one}s"))
}

/// `1 batch`, `2 batches`.
pub(crate) fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Text from a file made safe for a terminal: control characters as escapes.
pub(crate) fn printable(text: &str) -> String {
    if text.chars().any(char::is_control) {
        text.escape_debug().to_string()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_prints() {
        assert_eq!(time(-1), "-");
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(1_795_968_162_862), "2026-11-29T16:02:42.862Z");
        assert_eq!(time(i64::MAX), "9223372036854775807");
        assert_eq!(time(i64::MIN), "-9223372036854775808");
        assert_eq!(time(-2), "1969-12-31T23:59:59.998Z");
    }

    #[test]
    fn durations_have_two_units() {
        let cases = [
            (0, "0s"),
            (12, "12ms"),
            (1234, "1.234s"),
            (45_999, "45s"),
            (60_000, "1m"),
            (11_520_000, "3h 12m"),
            (90_000_000, "1d 1h"),
            (-1500, "-1.500s"),
            (i64::MIN, "-106751991167d 7h"),
        ];
        for (millis, text) in cases {
            assert_eq!(duration(millis), text);
        }
    }

    #[test]
    fn times_one_after_another_are_the_same() {
        let mut writer = TimeWriter::default();
        let near = [0, 1, 999, 1000, 1_795_968_162_862, 1_795_968_162_863];
        let far = [-1, -2, -1000, i64::MAX, i64::MIN, 5, 253_402_207_200_999];
        for millis in near.into_iter().chain(far) {
            let mut line = String::new();
            writer.push(&mut line, millis);
            assert_eq!(line, time(millis));
        }
    }

    #[test]
    fn sizes_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10_236, "10.0 KiB"),
            (1_048_575, "1.00 MiB"),
            (2 * 1024 * 1024 * 1024, "2.00 GiB"),
            (u64::MAX, "16384 PiB"),
        ];
        for (size, text) in cases {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31m"), "a\\u{1b}[31m");
        assert_eq!(printable("orders"), "orders");
    }
}
