//! What a schema table is made of: messages, fields, types.
//!
//! The constructors are `const` and read like a line of a table:
//!
//! ```
//! use kseg::format::schema::types::*;
//!
//! const OFFSET: Message = message(
//!     "OffsetCommitValue",
//!     &[
//!         field("offset", INT64),
//!         field("leaderEpoch", INT32).since(3),
//!         field("metadata", STRING),
//!         field("commitTimestamp", INT64),
//!         field("expireTimestamp", INT64).only(1),
//!         field("topicId", UUID).since(4).tag(0),
//!     ],
//! )
//! .newest(4)
//! .flexible_since(4);
//! ```
//!
//! What the tables can leave out, because no message of theirs needs it: fields are nullable and
//! tagged in every version that has them, and only the default of a tagged field matters (the
//! others are always written).

/// A range of versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The first version.
    pub first: i16,
    /// The last version; `i16::MAX` if there is no end.
    pub last: i16,
}

impl Versions {
    /// All versions.
    pub const ALL: Self = Self::since(0);
    /// No version.
    pub const NONE: Self = Self { first: 0, last: -1 };

    /// All versions from `first` on.
    #[must_use]
    pub const fn since(first: i16) -> Self {
        Self {
            first,
            last: i16::MAX,
        }
    }

    /// Whether `version` is one of them.
    #[must_use]
    pub const fn contains(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }
}

/// The type of a field or of an array's element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "Kafka's names of its types")]
pub enum Type {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    /// An array of elements that cannot be null.
    Array(&'static Type),
    /// The fields of a struct.
    Struct(&'static [Field]),
}

/// One byte, true unless 0.
pub const BOOL: Type = Type::Bool;
/// A signed byte.
pub const INT8: Type = Type::Int8;
/// Two bytes, signed.
pub const INT16: Type = Type::Int16;
/// Two bytes, unsigned.
pub const UINT16: Type = Type::Uint16;
/// Four bytes, signed.
pub const INT32: Type = Type::Int32;
/// Four bytes, unsigned.
pub const UINT32: Type = Type::Uint32;
/// Eight bytes, signed.
pub const INT64: Type = Type::Int64;
/// Eight bytes, IEEE 754.
pub const FLOAT64: Type = Type::Float64;
/// Sixteen bytes.
pub const UUID: Type = Type::Uuid;
/// Text of at most 32767 bytes.
pub const STRING: Type = Type::String;
/// Bytes with their length.
pub const BYTES: Type = Type::Bytes;
/// An array of int16.
pub const INT16S: Type = Type::Array(&INT16);
/// An array of int32.
pub const INT32S: Type = Type::Array(&INT32);
/// An array of ids.
pub const UUIDS: Type = Type::Array(&UUID);
/// An array of strings.
pub const STRINGS: Type = Type::Array(&STRING);

/// The value a tagged field has where it is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// 0, false, an empty string or array, a struct of such fields.
    Zero,
    /// This number.
    Int(i64),
    /// Null.
    Null,
}

/// One field of a message or a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in JSON: Kafka's, its first letter in lower case.
    pub name: &'static str,
    /// What it holds.
    pub field_type: Type,
    /// The versions that have it.
    pub versions: Versions,
    /// Whether it can be null.
    pub nullable: bool,
    /// The tag, if it is a tagged field.
    pub tag: Option<u32>,
    /// The value of a tagged field that is not there.
    pub default: Default,
}

/// A plain field of all versions that is never null.
#[must_use]
pub const fn field(name: &'static str, field_type: Type) -> Field {
    Field {
        name,
        field_type,
        versions: Versions::ALL,
        nullable: false,
        tag: None,
        default: Default::Zero,
    }
}

impl Field {
    /// In `first` and later versions.
    #[must_use]
    pub const fn since(mut self, first: i16) -> Self {
        self.versions = Versions::since(first);
        self
    }

    /// In `version` and no other.
    #[must_use]
    pub const fn only(mut self, version: i16) -> Self {
        self.versions = Versions {
            first: version,
            last: version,
        };
        self
    }

    /// Can be null.
    #[must_use]
    pub const fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Written behind the plain fields, with this tag, and only if it is not the default.
    #[must_use]
    pub const fn tag(mut self, tag: u32) -> Self {
        self.tag = Some(tag);
        self
    }

    /// Whether it is a struct that can be null: as a struct has no length, it has a marker.
    #[must_use]
    pub const fn is_nullable_struct(&self) -> bool {
        self.nullable && matches!(self.field_type, Type::Struct(_))
    }

    /// The default is this number.
    #[must_use]
    pub const fn default_int(mut self, default: i64) -> Self {
        self.default = Default::Int(default);
        self
    }

    /// The default is null. Without this the default is not null, even if the field can be.
    #[must_use]
    pub const fn default_null(mut self) -> Self {
        self.default = Default::Null;
        self.nullable()
    }
}

/// A message: a name, versions and fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Kafka's name.
    pub name: &'static str,
    /// The versions Kafka 4.3.1 reads.
    pub versions: Versions,
    /// The versions with compact lengths and tagged fields.
    pub flexible_versions: Versions,
    /// The fields, in Kafka's order; tagged ones stand where Kafka's JSON shows them.
    pub fields: &'static [Field],
}

/// A message with version 0 only, flexible.
#[must_use]
pub const fn message(name: &'static str, fields: &'static [Field]) -> Message {
    Message {
        name,
        versions: Versions { first: 0, last: 0 },
        flexible_versions: Versions::ALL,
        fields,
    }
}

impl Message {
    /// Versions 0 to `last`.
    #[must_use]
    pub const fn newest(mut self, last: i16) -> Self {
        self.versions.last = last;
        self
    }

    /// This version and no other.
    #[must_use]
    pub const fn only(mut self, version: i16) -> Self {
        self.versions = Versions {
            first: version,
            last: version,
        };
        self
    }

    /// Flexible from version `first` on.
    #[must_use]
    pub const fn flexible_since(mut self, first: i16) -> Self {
        self.flexible_versions = Versions::since(first);
        self
    }

    /// Flexible in no version.
    #[must_use]
    pub const fn never_flexible(mut self) -> Self {
        self.flexible_versions = Versions::NONE;
        self
    }
}

/// Key and value of one record type in a coordinator's topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorRecordType {
    /// The number before the key.
    pub id: i16,
    /// The key: version 0, not flexible.
    pub key: Message,
    /// The value, which has its version in front.
    pub value: Message,
}

/// A record type of a coordinator's topic.
#[must_use]
pub const fn record_type(id: i16, key: Message, value: Message) -> CoordinatorRecordType {
    CoordinatorRecordType {
        id,
        key: key.never_flexible(),
        value,
    }
}

/// One record type of a topic whose values name their type: metadata of the cluster, of tiered
/// segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataRecordType {
    /// The number in the value's frame.
    pub id: i16,
    /// Kafka's upper-case name.
    pub name: &'static str,
    /// What follows the frame.
    pub message: Message,
}

/// A record type whose values name it.
#[must_use]
pub const fn metadata_type(id: i16, name: &'static str, message: Message) -> MetadataRecordType {
    MetadataRecordType { id, name, message }
}
