//! Text in lines of a width.

/// Behind a number, what belongs to it.
const SIZE_UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// The words of a text in lines of a width. A number and its unit are one word, and so are the
/// parts of a duration. Names that are longer than a line are broken.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    let mut lines = Vec::new();
    let mut line = String::new();
    let parts = text.split(' ').flat_map(|word| parts(word, width));
    for (word, goes_on) in parts {
        let length = line.chars().count() + 1 + word.chars().count();
        if goes_on {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() && length > width {
            let (before, last) = line.rsplit_once(' ').unwrap_or(("", &line));
            let (kept, begin) = if belongs_to(word, last) {
                (before, last)
            } else {
                (line.as_str(), "")
            };
            // Words may stand further apart than one space.
            if !kept.is_empty() {
                lines.push(kept.trim_end().to_owned());
            }
            line = begin.to_owned();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// Whether a word is the unit of the number before it, or the second part of a duration.
fn belongs_to(word: &str, before: &str) -> bool {
    let bare = |word: &'_ str| -> String {
        let is_mark = |it: char| !it.is_ascii_alphanumeric();
        word.trim_matches(is_mark).to_owned()
    };
    let is_number = |word: &str| word.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let is_time = |word: &str, units: &[char]| word.strip_suffix(units).is_some_and(is_number);
    let (word, before) = (bare(word), bare(before));
    let is_unit = SIZE_UNITS.contains(&word.as_str()) && !before.is_empty() && is_number(&before);
    is_unit || is_time(&word, &['h', 'm', 's']) && is_time(&before, &['d', 'h', 'm'])
}

/// A line narrower than this breaks no words.
const LEAST_BROKEN: usize = 8;

/// More digits than any offset has: they are part of a name.
const MOST_DIGITS: usize = 20;

/// A word in parts that fit a line, and whether a part goes on with the one before it. Only names
/// are broken: behind a slash where that goes, else behind another mark, else anywhere; no number
/// is.
fn parts(word: &str, width: usize) -> Vec<(&str, bool)> {
    let mut parts = Vec::new();
    let mut rest = word;
    while let Some(cut) = cut_of(rest, width) {
        let (part, behind) = rest.split_at(cut);
        parts.push((part, !parts.is_empty()));
        rest = behind;
    }
    parts.push((rest, !parts.is_empty()));
    parts
}

/// Where the first part of a word ends, in bytes; `None` if it is one.
fn cut_of(word: &str, width: usize) -> Option<usize> {
    let is_name = word.chars().any(char::is_alphabetic) && !is_time(word);
    if !is_name || width < LEAST_BROKEN || word.chars().count() <= width {
        return None;
    }
    let (mut folder, mut mark, mut any, mut least) = (None, None, None, None);
    let mut number_to = 0;
    let letters = word.char_indices().zip(word.chars().skip(1));
    for (number, ((from, before), letter)) in (1..).zip(letters) {
        let at = from + before.len_utf8();
        if before.is_ascii_digit() && at > number_to {
            let digits = digits_of(word.get(from..).unwrap_or_default());
            number_to = from + if digits <= MOST_DIGITS { digits } else { 0 };
        }
        if letter.is_ascii_digit() && at < number_to {
            continue;
        }
        if number > width {
            least = Some(at);
            break;
        }
        any = Some(at);
        match before {
            '/' => folder = Some(at),
            '-' | '_' | '.' | ',' | ':' if number * 2 >= width => mark = Some(at),
            _ => {}
        }
    }
    folder.or(mark).or(any).or(least)
}

/// Whether a word is a time by RFC 3339, in UTC, with marks about it or not. No topic may have such
/// a name: it has colons.
fn is_time(word: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let bare = word.trim_matches(|it: char| !it.is_ascii_alphanumeric());
    let is_like = |(letter, form): (u8, &u8)| {
        if form.is_ascii_digit() {
            letter.is_ascii_digit()
        } else {
            letter == *form
        }
    };
    bare.len() >= FORM.len() && bare.ends_with('Z') && bare.bytes().zip(FORM).all(is_like)
}

/// How many digits a text begins with.
fn digits_of(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// How narrow a text can be made by [`wrapped`] without breaking a name, but behind a slash.
pub(crate) fn least_width(text: &str) -> usize {
    let folders = text.split(' ').flat_map(|word| word.split_inclusive('/'));
    folders.map(|part| part.chars().count()).max().unwrap_or(0)
}

/// The same without breaking it between words.
pub(crate) fn longest_folder(text: &str) -> usize {
    let folders = text.split_inclusive('/').map(|part| part.chars().count());
    folders.max().unwrap_or(0)
}

/// The longest number of a text, which is never broken.
pub(crate) fn longest_number(text: &str) -> usize {
    let numbers = text.split(' ').map(|word| {
        if !word.chars().any(char::is_alphabetic) || is_time(word) {
            return word.chars().count();
        }
        let digits = word.split(|it: char| !it.is_ascii_digit()).map(str::len);
        digits.filter(|it| *it <= MOST_DIGITS).max().unwrap_or(0)
    });
    numbers.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_lines_end_with_a_word() {
        let text = "left  at 272  epoch 2";
        assert_eq!(wrapped(text, None), [text]);
        assert_eq!(wrapped(text, Some(21)), [text]);
        assert_eq!(wrapped(text, Some(14)), ["left  at 272", "epoch 2"]);
        assert_eq!(wrapped("offsets", Some(3)), ["offsets"]);
        let text = "the oldest for 16h 16m; it loses 884 B.";
        let lines = ["the oldest for", "16h 16m; it loses", "884 B."];
        assert_eq!(wrapped(text, Some(18)), lines);
        assert_eq!(wrapped("loses 884 B.", Some(10)), ["loses", "884 B."]);
        assert_eq!(wrapped("884 B", Some(3)), ["884 B"]);
    }

    #[test]
    fn names_that_fit_no_line_are_broken_and_numbers_are_not() {
        let broken = |text, width| wrapped(text, Some(width));
        assert_eq!(
            broken("/var/lib/kafka/orders-0: gone", 14),
            ["/var/lib/", "kafka/", "orders-0: gone"]
        );
        let lines = ["orders-of-the-", "customers-12"];
        assert_eq!(broken("orders-of-the-customers-12", 16), lines);
        let lines = ["abcdefghijkl", "mnopqrstuvwx", "yz-0"];
        assert_eq!(broken("abcdefghijklmnopqrstuvwxyz-0", 12), lines);
        let time = "2026-11-29T15:21:04.170Z,";
        assert_eq!(broken(time, 12), [time]);
        let number = "2147483645..2147483647";
        assert_eq!(broken(number, 12), [number]);
        assert_eq!(broken("file 00000000000000000047.log", 24).len(), 2);
        assert_eq!(
            broken("a00000000000000000047", 12),
            ["a", "00000000000000000047"]
        );
        // A topic may be called by digits alone.
        let name = format!("{}-x", "7".repeat(60));
        assert!(broken(&name, 30).iter().all(|line| line.len() <= 30));
    }
}
