//! `quorum-state`: what a KRaft voter knows of the current election. One line of JSON.
//!
//! | field              | data_version 0 | data_version 1 |
//! |--------------------|----------------|----------------|
//! | `clusterId`        | yes            | -              |
//! | `leaderId`         | yes            | yes            |
//! | `leaderEpoch`      | yes            | yes            |
//! | `votedId`          | yes            | yes            |
//! | `votedDirectoryId` | -              | yes            |
//! | `appliedOffset`    | yes            | -              |
//! | `currentVoters`    | yes, objects with `voterId`; null before the first election | - |
//! | `data_version`     | 0              | 1              |
//!
//! Kafka reads the first line only. Decides `FileQuorumStateStore`, `QuorumStateData.json`.

use serde_json::{Map, Value, json};

use super::kafka_uuid::KafkaUuid;
use crate::error::{DecodeError, DecodeErrorKind};

const STRUCTURE: &str = "quorum state";
const NEWEST_DATA_VERSION: i16 = 1;

/// The content of a `quorum-state` file. Fields that its version does not have are empty, zero or
/// [`KafkaUuid::ZERO`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumState {
    /// 0 or 1, by the cluster's `kraft.version`.
    pub data_version: i16,
    /// Written empty.
    pub cluster_id: String,
    /// The elected leader, -1 if none is known.
    pub leader_id: i32,
    /// The epoch of the election.
    pub leader_epoch: i32,
    /// The candidate this voter voted for in the epoch, -1 if it did not.
    pub voted_id: i32,
    /// Directory id of that candidate.
    pub voted_directory_id: KafkaUuid,
    /// Written 0.
    pub applied_offset: i64,
    /// The ids of the voters; `None` is JSON's null.
    pub current_voters: Option<Vec<i32>>,
}

impl QuorumState {
    /// The state in the file whose whole content is `bytes`.
    ///
    /// # Errors
    /// If the first line is no JSON object, `data_version` is neither 0 nor 1, or a field that the
    /// version requires is missing or of another type.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let line = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        // Like Jackson, this reads one value and leaves what follows it.
        let value = serde_json::Deserializer::from_slice(line)
            .into_iter::<Value>()
            .next()
            .ok_or_else(|| error("", "the first line is empty"))?
            .map_err(|cause| error("", &cause.to_string()))?;
        let Value::Object(object) = value else {
            return Err(error("", "not a JSON object"));
        };
        Fields(&object).decode()
    }

    /// The content of the file: the fields that [`QuorumState::data_version`] has, in the order
    /// of Kafka.
    #[must_use]
    pub fn encode(&self) -> String {
        let head = format!(
            "\"leaderId\":{},\"leaderEpoch\":{},\"votedId\":{}",
            self.leader_id, self.leader_epoch, self.voted_id
        );
        if self.data_version > 0 {
            return format!(
                "{{{head},\"votedDirectoryId\":\"{}\",\"data_version\":{}}}",
                self.voted_directory_id, self.data_version
            );
        }
        let voter = |id: &i32| json!({ "voterId": id });
        let voters = match &self.current_voters {
            None => Value::Null,
            Some(ids) => ids.iter().map(voter).collect(),
        };
        format!(
            "{{\"clusterId\":{},{head},\"appliedOffset\":{},\"currentVoters\":{voters},\
             \"data_version\":{}}}",
            json!(self.cluster_id),
            self.applied_offset,
            self.data_version
        )
    }
}

struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn decode(&self) -> Result<QuorumState, DecodeError> {
        let found = self.int("data_version")?;
        let data_version = i16::try_from(found)
            .ok()
            .filter(|version| (0..=NEWEST_DATA_VERSION).contains(version))
            .ok_or_else(|| unknown_version(found))?;
        let only_in = |version: i16| data_version == version;
        Ok(QuorumState {
            data_version,
            cluster_id: self
                .optional("clusterId", only_in(0), as_text)?
                .unwrap_or_default(),
            leader_id: self.int("leaderId")?,
            leader_epoch: self.int("leaderEpoch")?,
            voted_id: self.int("votedId")?,
            voted_directory_id: self
                .optional("votedDirectoryId", only_in(1), as_uuid)?
                .unwrap_or(KafkaUuid::ZERO),
            applied_offset: self
                .optional("appliedOffset", only_in(0), Value::as_i64)?
                .unwrap_or(0),
            current_voters: self
                .optional("currentVoters", only_in(0), as_voters)?
                .unwrap_or(Some(Vec::new())),
        })
    }

    fn int(&self, name: &'static str) -> Result<i32, DecodeError> {
        let value = self.optional(name, true, as_int)?;
        value.ok_or_else(|| error(name, "it is missing"))
    }

    /// A field if it is there; an error if it must be and is not, or if it has another type.
    fn optional<T>(
        &self,
        name: &'static str,
        required: bool,
        convert: fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, DecodeError> {
        match self.0.get(name) {
            None if required => Err(error(name, "it is missing")),
            None => Ok(None),
            Some(value) => match convert(value) {
                Some(value) => Ok(Some(value)),
                None => Err(error(name, &value.to_string())),
            },
        }
    }
}

fn as_int(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

fn as_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn as_uuid(value: &Value) -> Option<KafkaUuid> {
    value.as_str()?.parse().ok()
}

fn as_voters(value: &Value) -> Option<Option<Vec<i32>>> {
    if value.is_null() {
        return Some(None);
    }
    let ids = value.as_array()?.iter();
    ids.map(|voter| as_int(voter.get("voterId")?))
        .collect::<Option<Vec<_>>>()
        .map(Some)
}

fn unknown_version(found: i32) -> DecodeError {
    let kind = DecodeErrorKind::UnknownVersion {
        found: i64::from(found),
        newest: i64::from(NEWEST_DATA_VERSION),
    };
    DecodeError::new(STRUCTURE, "data_version", 0, kind)
}

fn error(field: &'static str, message: &str) -> DecodeError {
    let kind = DecodeErrorKind::Text(message.to_owned());
    DecodeError::new(STRUCTURE, field, 0, kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Written by Kafka 4.3.1 with `kraft.version` 0 and 1.
    const VERSION_0: &str = concat!(
        r#"{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"#,
        r#""currentVoters":[{"voterId":1}],"data_version":0}"#
    );
    const VERSION_1: &str = concat!(
        r#"{"leaderId":1,"leaderEpoch":2,"votedId":-1,"#,
        r#""votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#
    );

    fn decode(text: &str) -> Result<QuorumState, DecodeError> {
        QuorumState::decode(text.as_bytes())
    }

    #[test]
    fn kafka_bytes_to_fields_and_back() {
        let state = decode(VERSION_0).unwrap();
        let expected = QuorumState {
            data_version: 0,
            cluster_id: String::new(),
            leader_id: 1,
            leader_epoch: 1,
            voted_id: -1,
            voted_directory_id: KafkaUuid::ZERO,
            applied_offset: 0,
            current_voters: Some(vec![1]),
        };
        assert_eq!(state, expected);
        assert_eq!(state.encode(), VERSION_0);

        let state = decode(VERSION_1).unwrap();
        assert_eq!((state.data_version, state.leader_epoch), (1, 2));
        assert_eq!(state.current_voters, Some(Vec::new()));
        assert_eq!(state.encode(), VERSION_1);
    }

    #[test]
    fn each_cause_has_its_error() {
        let message = |text: &str| decode(text).unwrap_err().to_string();
        assert_eq!(
            message(&VERSION_1.replace("version\":1", "version\":2")),
            "quorum state data_version is 2, newest known is 1 (at position 0)"
        );
        assert_eq!(
            message(&VERSION_1.replace("version\":1", "version\":0")),
            "quorum state clusterId is not readable: it is missing (at position 0)"
        );
        assert_eq!(
            message(&VERSION_0.replace("\"votedId\":-1", "\"votedId\":\"x\"")),
            "quorum state votedId is not readable: \"x\" (at position 0)"
        );
        assert_eq!(
            message("{}"),
            "quorum state data_version is not readable: it is missing (at position 0)"
        );
        assert_eq!(
            message("\n"),
            "quorum state is not readable: the first line is empty (at position 0)"
        );
        assert!(decode("[]").is_err());
    }

    proptest! {
        #[test]
        fn round_trip(
            numbers: (i32, i32, i32, i64),
            cluster_id: String,
            directory_id: [u8; 16],
            current_voters: Option<Vec<i32>>,
            newer: bool,
        ) {
            let (leader_id, leader_epoch, voted_id, applied_offset) = numbers;
            let mut state = QuorumState {
                data_version: i16::from(newer),
                cluster_id,
                leader_id,
                leader_epoch,
                voted_id,
                voted_directory_id: KafkaUuid::ZERO,
                applied_offset,
                current_voters,
            };
            if newer {
                state.cluster_id = String::new();
                state.voted_directory_id = KafkaUuid(directory_id);
                state.applied_offset = 0;
                state.current_voters = Some(Vec::new());
            }
            prop_assert_eq!(decode(&state.encode()), Ok(state));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = QuorumState::decode(&bytes);
        }
    }
}
