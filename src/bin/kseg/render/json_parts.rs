//! Parts of rows that come again and again: their JSON is made once and copied.

use serde::Serialize;
use serde_json::Error;

use super::fast_json::write_row;

/// Values whose JSON is kept. A log of few producers has few different answers.
const KEPT: usize = 4;

/// The JSON of the last values of one part of a row.
pub(super) struct RepeatedPart<T> {
    kept: Vec<(T, Vec<u8>)>,
    oldest: usize,
}

impl<T> Default for RepeatedPart<T> {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            oldest: 0,
        }
    }
}

impl<T: Serialize + PartialEq + Clone> RepeatedPart<T> {
    /// Appends the fields of a struct behind others, as [`write_more_fields`].
    pub(super) fn write(&mut self, out: &mut Vec<u8>, part: &T) -> Result<(), Error> {
        if let Some((_, text)) = self.kept.iter().find(|(kept, _)| kept == part) {
            out.extend_from_slice(text);
            return Ok(());
        }
        let begin = out.len();
        write_more_fields(out, part)?;
        let text = out.get(begin..).unwrap_or_default().to_vec();
        if self.kept.len() < KEPT {
            self.kept.push((part.clone(), text));
        } else if let Some(slot) = self.kept.get_mut(self.oldest) {
            *slot = (part.clone(), text);
            self.oldest = (self.oldest + 1) % KEPT;
        }
        Ok(())
    }
}

/// Appends the fields of a struct behind others: `,"a":1,"b":2`.
pub(super) fn write_more_fields(out: &mut Vec<u8>, fields: &impl Serialize) -> Result<(), Error> {
    let begin = out.len();
    write_row(out, fields)?;
    // A comma in place of the brace that begins it, and without the one that ends it.
    if let Some(brace) = out.get_mut(begin) {
        *brace = b',';
    }
    out.pop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Serialize)]
    struct Part {
        number: usize,
        text: Option<&'static str>,
    }

    #[test]
    fn each_value_gets_its_own_fields_however_many_there_are() {
        let mut repeated = RepeatedPart::default();
        for number in (0..40).flat_map(|round| [round, round % 3, round % 7]) {
            let mut out = b"{\"a\":1".to_vec();
            let part = Part { number, text: None };
            repeated.write(&mut out, &part).unwrap();
            let expected = format!("{{\"a\":1,\"number\":{number},\"text\":null");
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
