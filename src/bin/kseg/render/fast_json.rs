//! Rows to JSON, with less work a field than `serde_json` takes.
//!
//! `serde_json` looks for characters to escape in every key of every row, which is a third of the
//! time of a listing. Here text without any is copied as it is; whatever else than plain values
//! comes is left to `serde_json`. In a debug build each row is compared with what it writes.

use std::fmt::{self, Display, Write as _};

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

use super::json_scalars::{write_integer, write_letters, write_name, write_text, write_unsigned};

/// Appends `row` to `out`, as `serde_json::to_writer` would.
pub(crate) fn write_row(out: &mut Vec<u8>, row: &impl Serialize) -> Result<(), Error> {
    write_checked(out, row, |out| row.serialize(Json(out)))
}

/// Lets `write` append `row` to `out`; a debug build compares that with what `serde_json` writes.
#[inline]
pub(super) fn write_checked(
    out: &mut Vec<u8>,
    row: &impl Serialize,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    if !cfg!(debug_assertions) {
        return write(out);
    }
    let begin = out.len();
    let expected = serde_json::to_vec(row)?;
    write(out)?;
    let written = out.get(begin..).unwrap_or_default();
    // A row borrows from a file that may be cut meanwhile: then nothing is known.
    debug_assert!(
        expected == written || serde_json::to_vec(row)? != expected,
        "{} is not {}",
        String::from_utf8_lossy(written),
        String::from_utf8_lossy(&expected)
    );
    Ok(())
}

/// One value.
struct Json<'a>(&'a mut Vec<u8>);

/// The inside of a string.
struct Letters<'a>(&'a mut Vec<u8>);

impl fmt::Write for Letters<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_letters(self.0, text);
        Ok(())
    }
}

/// The inside of an array or an object, with the brackets that end it.
struct Inside<'a> {
    out: &'a mut Vec<u8>,
    any: bool,
    end: &'static [u8],
}

impl<'a> Json<'a> {
    fn inside(self, begin: &[u8], end: &'static [u8]) -> Inside<'a> {
        self.0.extend_from_slice(begin);
        Inside {
            out: self.0,
            any: false,
            end,
        }
    }

    fn variant(self, name: &'static str, begin: &[u8], end: &'static [u8]) -> Inside<'a> {
        self.0.push(b'{');
        write_name(self.0, true, name);
        self.inside(begin, end)
    }
}

macro_rules! integers {
    ($write:ident: $($method:ident $type:ty),*) => {
        $(#[inline]
        fn $method(self, value: $type) -> Result<(), Error> {
            $write(self.0, value.into());
            Ok(())
        })*
    };
}

macro_rules! left_to_serde_json {
    ($($method:ident $type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<(), Error> {
            serde_json::to_writer(self.0, &value)
        })*
    };
}

impl<'a> Serializer for Json<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Inside<'a>;
    type SerializeTuple = Inside<'a>;
    type SerializeTupleStruct = Inside<'a>;
    type SerializeTupleVariant = Inside<'a>;
    type SerializeMap = Inside<'a>;
    type SerializeStruct = Inside<'a>;
    type SerializeStructVariant = Inside<'a>;

    integers!(write_integer:
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64);
    integers!(write_unsigned:
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64);
    left_to_serde_json!(serialize_f32 f32, serialize_f64 f64, serialize_char char);

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        let word: &[u8] = if value { b"true" } else { b"false" };
        self.0.extend_from_slice(word);
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        write_text(self.0, value);
        Ok(())
    }

    /// Without a string in between.
    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.0.push(b'"');
        write!(Letters(self.0), "{value}").map_err(Error::custom)?;
        self.0.push(b'"');
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        serde_json::to_writer(self.0, value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        write_text(self.0, variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let inside = self.variant(variant, b"", b"}");
        value.serialize(Json(&mut *inside.out))?;
        inside.finish()
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Inside<'a>, Error> {
        Ok(self.inside(b"[", b"]"))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Inside<'a>, Error> {
        Ok(self.inside(b"[", b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Inside<'a>, Error> {
        Ok(self.inside(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Inside<'a>, Error> {
        Ok(self.variant(variant, b"[", b"]}"))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Inside<'a>, Error> {
        Ok(self.inside(b"{", b"}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Inside<'a>, Error> {
        Ok(self.inside(b"{", b"}"))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Inside<'a>, Error> {
        Ok(self.variant(variant, b"{", b"}}"))
    }
}

impl Inside<'_> {
    /// Takes note of one more; whether it is the first.
    #[inline]
    fn count_first(&mut self) -> bool {
        !std::mem::replace(&mut self.any, true)
    }

    fn comma(&mut self) {
        if !self.count_first() {
            self.out.push(b',');
        }
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.comma();
        value.serialize(Json(self.out))
    }

    #[expect(clippy::inline_always, reason = "see write_name")]
    #[inline(always)]
    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        let is_first = self.count_first();
        write_name(self.out, is_first, name);
        value.serialize(Json(self.out))
    }

    fn finish(self) -> Result<(), Error> {
        self.out.extend_from_slice(self.end);
        Ok(())
    }
}

macro_rules! array {
    ($($trait:ident $method:ident),*) => {
        $(impl $trait for Inside<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.finish()
            }
        })*
    };
}

macro_rules! object {
    ($($trait:ident),*) => {
        $(impl $trait for Inside<'_> {
            type Ok = ();
            type Error = Error;

            // See write_name.
            #[inline(always)]
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), Error> {
                self.finish()
            }
        })*
    };
}

array!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);
object!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Inside<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.comma();
        // Keys of rows are text.
        key.serialize(Json(self.out))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.push(b':');
        value.serialize(Json(self.out))
    }

    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::write_row;

    fn write(row: &impl Serialize) -> String {
        let mut out = Vec::new();
        write_row(&mut out, row).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[derive(Serialize)]
    #[serde(tag = "type", rename_all = "camelCase")]
    enum Row<'a> {
        Text(Text<'a>),
        Unit,
    }

    #[derive(Serialize)]
    struct Text<'a> {
        #[serde(flatten)]
        source: Source<'a>,
        text: Option<&'a str>,
        pairs: Vec<(i64, u8)>,
        rate: f64,
    }

    #[derive(Serialize)]
    struct Source<'a> {
        file: &'a str,
    }

    #[test]
    fn rows_of_every_shape_are_as_serde_json_writes_them() {
        let row = Row::Text(Text {
            source: Source { file: "0\"\\\u{1}" },
            text: None,
            pairs: vec![(i64::MIN, 0), (i64::MAX, 255)],
            rate: 2.5,
        });
        assert_eq!(write(&row), serde_json::to_string(&row).unwrap());
        assert_eq!(write(&Row::Unit), "{\"type\":\"unit\"}");
        let value = json!({"a": [1, -2, null, true, {"b\n": "c\u{7f}"}], "e": {}, "f": []});
        assert_eq!(write(&value), value.to_string());
    }

    proptest! {
        #[test]
        fn any_text_is_as_serde_json_writes_it(text: String, key: String, number: i64) {
            let pairs = [(key, Value::from(text)), (String::new(), number.into())];
            let value = Value::from_iter(pairs);
            prop_assert_eq!(write(&value), value.to_string());
        }
    }
}
