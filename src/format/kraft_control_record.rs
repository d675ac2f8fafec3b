//! The values of the control records that only KRaft files have: types 2 to 6.
//!
//! | type            | fields                                                             |
//! |-----------------|--------------------------------------------------------------------|
//! | LEADER_CHANGE   | int16 Version; int32 LeaderId; Voters; GrantingVoters              |
//! | - each voter    | int32 VoterId; in layout 1 also uuid VoterDirectoryId              |
//! | SNAPSHOT_HEADER | int16 Version; int64 LastContainedLogTimestamp                     |
//! | SNAPSHOT_FOOTER | int16 Version                                                      |
//! | KRAFT_VERSION   | int16 Version; int16 KRaftVersion                                  |
//! | KRAFT_VOTERS    | int16 Version; Voters                                              |
//! | - each voter    | int32 VoterId; uuid VoterDirectoryId; Endpoints; KRaftVersionFeature |
//! | - each endpoint | string Name; string Host; uint16 Port                              |
//! | - KRaftVersionFeature | int16 MinSupportedVersion; int16 MaxSupportedVersion         |
//!
//! All are flexible ([`super::compact`]). Version is a field like the others and does not choose
//! the layout: Kafka 4.3.1 reads every value as version 0, whatever it says
//! (`ControlRecordUtils`). Bytes behind a message are ignored.

use super::compact::{CompactReader, write_array_count, write_no_tagged_fields, write_string};
use super::kafka_uuid::KafkaUuid;
use crate::error::DecodeError;

/// The layout in which Kafka 4.3.1 reads and writes all of these messages.
pub const CURRENT_VERSION: i16 = 0;

/// A new leader of the quorum (`LeaderChangeMessage`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    /// The field of that name.
    pub version: i16,
    /// Id of the new leader.
    pub leader_id: i32,
    /// All voters of the epoch.
    pub voters: Vec<LeaderChangeVoter>,
    /// The voters that elected the leader.
    pub granting_voters: Vec<LeaderChangeVoter>,
}

/// A voter in a [`LeaderChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderChangeVoter {
    /// The voter's id.
    pub voter_id: i32,
    /// Id of the voter's log directory; in layout 1 only, else [`KafkaUuid::ZERO`].
    pub voter_directory_id: KafkaUuid,
}

impl LeaderChange {
    /// The message in a value of the given layout, 0 or 1; Kafka takes [`CURRENT_VERSION`].
    ///
    /// # Errors
    /// If the bytes end inside the message.
    pub fn decode(value: &[u8], layout: i16) -> Result<Self, DecodeError> {
        let mut fields = CompactReader::new("leader change", value);
        let message = Self {
            version: fields.int16("version")?,
            leader_id: fields.int32("leaderId")?,
            voters: decode_leader_change_voters(&mut fields, "voters", layout)?,
            granting_voters: decode_leader_change_voters(&mut fields, "grantingVoters", layout)?,
        };
        fields.skip_tagged_fields()?;
        Ok(message)
    }

    /// The value in the given layout, 0 or 1.
    #[must_use]
    pub fn encode(&self, layout: i16) -> Vec<u8> {
        let mut out = self.version.to_be_bytes().to_vec();
        out.extend(self.leader_id.to_be_bytes());
        for voters in [&self.voters, &self.granting_voters] {
            write_array_count(voters.len(), &mut out);
            for voter in voters {
                out.extend(voter.voter_id.to_be_bytes());
                if layout > 0 {
                    out.extend(voter.voter_directory_id.0);
                }
                write_no_tagged_fields(&mut out);
            }
        }
        write_no_tagged_fields(&mut out);
        out
    }
}

fn decode_leader_change_voters(
    fields: &mut CompactReader<'_>,
    field: &'static str,
    layout: i16,
) -> Result<Vec<LeaderChangeVoter>, DecodeError> {
    let count = fields.array_count(field)?;
    let mut voters = Vec::new();
    for _ in 0..count {
        let voter_id = fields.int32("voterId")?;
        let voter_directory_id = if layout > 0 {
            fields.uuid("voterDirectoryId")?
        } else {
            KafkaUuid::ZERO
        };
        fields.skip_tagged_fields()?;
        voters.push(LeaderChangeVoter {
            voter_id,
            voter_directory_id,
        });
    }
    Ok(voters)
}

/// The first record of a snapshot (`SnapshotHeaderRecord`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The field of that name.
    pub version: i16,
    /// Timestamp of the last record of the log in the snapshot, in milliseconds.
    pub last_contained_log_timestamp: i64,
}

impl SnapshotHeader {
    /// The message in a value.
    ///
    /// # Errors
    /// If the bytes end inside the message.
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = CompactReader::new("snapshot header", value);
        let message = Self {
            version: fields.int16("version")?,
            last_contained_log_timestamp: fields.int64("lastContainedLogTimestamp")?,
        };
        fields.skip_tagged_fields()?;
        Ok(message)
    }

    /// The value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.version.to_be_bytes().to_vec();
        out.extend(self.last_contained_log_timestamp.to_be_bytes());
        write_no_tagged_fields(&mut out);
        out
    }
}

/// The last record of a snapshot (`SnapshotFooterRecord`). Without it the snapshot is not
/// complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotFooter {
    /// The field of that name.
    pub version: i16,
}

impl SnapshotFooter {
    /// The message in a value.
    ///
    /// # Errors
    /// If the bytes end inside the message.
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = CompactReader::new("snapshot footer", value);
        let version = fields.int16("version")?;
        fields.skip_tagged_fields()?;
        Ok(Self { version })
    }

    /// The value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.version.to_be_bytes().to_vec();
        write_no_tagged_fields(&mut out);
        out
    }
}

/// The `kraft.version` in force from here on (`KRaftVersionRecord`). Kafka 3.8 and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KRaftVersion {
    /// The field of that name.
    pub version: i16,
    /// 0, or 1 with voters that can change.
    pub kraft_version: i16,
}

impl KRaftVersion {
    /// The message in a value.
    ///
    /// # Errors
    /// If the bytes end inside the message.
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = CompactReader::new("kraft version", value);
        let message = Self {
            version: fields.int16("version")?,
            kraft_version: fields.int16("kRaftVersion")?,
        };
        fields.skip_tagged_fields()?;
        Ok(message)
    }

    /// The value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.version.to_be_bytes().to_vec();
        out.extend(self.kraft_version.to_be_bytes());
        write_no_tagged_fields(&mut out);
        out
    }
}

/// The voters of the quorum from here on (`VotersRecord`). Kafka 3.8 and later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KRaftVoters {
    /// The field of that name.
    pub version: i16,
    /// The voters.
    pub voters: Vec<KRaftVoter>,
}

/// A voter in [`KRaftVoters`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KRaftVoter {
    /// The voter's id.
    pub voter_id: i32,
    /// Id of the voter's log directory.
    pub voter_directory_id: KafkaUuid,
    /// Where the voter listens.
    pub endpoints: Vec<KRaftVoterEndpoint>,
    /// The lowest `kraft.version` the voter supports.
    pub min_supported_version: i16,
    /// The highest `kraft.version` the voter supports.
    pub max_supported_version: i16,
}

/// Where a voter listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KRaftVoterEndpoint {
    /// Name of the listener.
    pub name: String,
    /// Host name.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl KRaftVoters {
    /// The message in a value.
    ///
    /// # Errors
    /// If the bytes end inside the message, or a string is null.
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = CompactReader::new("kraft voters record", value);
        let version = fields.int16("version")?;
        let count = fields.array_count("voters")?;
        let mut voters = Vec::new();
        for _ in 0..count {
            voters.push(KRaftVoter::decode(&mut fields)?);
        }
        fields.skip_tagged_fields()?;
        Ok(Self { version, voters })
    }

    /// The value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.version.to_be_bytes().to_vec();
        write_array_count(self.voters.len(), &mut out);
        for voter in &self.voters {
            voter.encode(&mut out);
        }
        write_no_tagged_fields(&mut out);
        out
    }
}

impl KRaftVoter {
    fn decode(fields: &mut CompactReader<'_>) -> Result<Self, DecodeError> {
        let voter_id = fields.int32("voterId")?;
        let voter_directory_id = fields.uuid("voterDirectoryId")?;
        let count = fields.array_count("endpoints")?;
        let mut endpoints = Vec::new();
        for _ in 0..count {
            endpoints.push(KRaftVoterEndpoint {
                name: fields.string("name")?.into_owned(),
                host: fields.string("host")?.into_owned(),
                port: fields.uint16("port")?,
            });
            fields.skip_tagged_fields()?;
        }
        let min_supported_version = fields.int16("minSupportedVersion")?;
        let max_supported_version = fields.int16("maxSupportedVersion")?;
        // One end of KRaftVersionFeature, one of the voter.
        fields.skip_tagged_fields()?;
        fields.skip_tagged_fields()?;
        Ok(Self {
            voter_id,
            voter_directory_id,
            endpoints,
            min_supported_version,
            max_supported_version,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.voter_id.to_be_bytes());
        out.extend(self.voter_directory_id.0);
        write_array_count(self.endpoints.len(), out);
        for endpoint in &self.endpoints {
            write_string(&endpoint.name, out);
            write_string(&endpoint.host, out);
            out.extend(endpoint.port.to_be_bytes());
            write_no_tagged_fields(out);
        }
        out.extend(self.min_supported_version.to_be_bytes());
        out.extend(self.max_supported_version.to_be_bytes());
        write_no_tagged_fields(out);
        write_no_tagged_fields(out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes that hexadecimal digits stand for.
    fn hex(digits: &str) -> Vec<u8> {
        digits
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    fn directory_id() -> KafkaUuid {
        "ogYVyo_2mIRAc_6FXLdw1Q".parse().unwrap()
    }

    #[test]
    fn leader_change_of_a_broker_and_back() {
        let value = hex("00000000000102000000010002000000010000");
        let message = LeaderChange::decode(&value, CURRENT_VERSION).unwrap();
        let voter = LeaderChangeVoter {
            voter_id: 1,
            voter_directory_id: KafkaUuid::ZERO,
        };
        let expected = LeaderChange {
            version: 0,
            leader_id: 1,
            voters: vec![voter],
            granting_voters: vec![voter],
        };
        assert_eq!(message, expected);
        assert_eq!(message.encode(CURRENT_VERSION), value);
    }

    #[test]
    fn leader_change_with_directory_ids_and_back() {
        // Written by LeaderChangeMessage of 4.3.1 in version 1, which no broker uses.
        let value = hex("0001000000030300000003a20615ca8ff698844073fe855cb770d500\
             0000000400000000000000000000000000000000000200000003\
             a20615ca8ff698844073fe855cb770d50000");
        let message = LeaderChange::decode(&value, 1).unwrap();
        assert_eq!((message.version, message.leader_id), (1, 3));
        let ids: Vec<_> = message
            .voters
            .iter()
            .map(|voter| (voter.voter_id, voter.voter_directory_id))
            .collect();
        assert_eq!(ids, [(3, directory_id()), (4, KafkaUuid::ZERO)]);
        assert_eq!(message.granting_voters.len(), 1);
        assert_eq!(message.encode(1), value);
    }

    #[test]
    fn snapshot_header_and_footer_of_a_broker_and_back() {
        let value = hex("0000000001a22818348c00");
        let header = SnapshotHeader::decode(&value).unwrap();
        let expected = SnapshotHeader {
            version: 0,
            last_contained_log_timestamp: 1_795_969_004_684,
        };
        assert_eq!(header, expected);
        assert_eq!(header.encode(), value);
        let footer = SnapshotFooter::decode(&[0, 0, 0]).unwrap();
        assert_eq!(footer.version, 0);
        assert_eq!(footer.encode(), [0, 0, 0]);
    }

    #[test]
    fn kraft_version_and_voters_and_back() {
        // Written by KRaftVersionRecord and VotersRecord of 4.3.1.
        let value = hex("0000000100");
        let message = KRaftVersion::decode(&value).unwrap();
        assert_eq!(message.kraft_version, 1);
        assert_eq!(message.encode(), value);

        let value = hex(
            "00000200000003a20615ca8ff698844073fe855cb770d5020b434f4e5452\
                         4f4c4c45520b63312e6578616d706c65e6d50000000001000000",
        );
        let message = KRaftVoters::decode(&value).unwrap();
        let endpoint = KRaftVoterEndpoint {
            name: "CONTROLLER".to_owned(),
            host: "c1.example".to_owned(),
            port: 59093,
        };
        let voter = KRaftVoter {
            voter_id: 3,
            voter_directory_id: directory_id(),
            endpoints: vec![endpoint],
            min_supported_version: 0,
            max_supported_version: 1,
        };
        assert_eq!(message.voters, [voter]);
        assert_eq!(message.encode(), value);
    }

    #[test]
    fn cut_message_names_the_field() {
        let error = LeaderChange::decode(&[0, 0, 0, 0, 0, 1, 2, 0], 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "leader change voterId needs 11 bytes, 8 are there (at position 7)"
        );
        let error = KRaftVoters::decode(&[0, 0, 9, 0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kraft voters record voters needs 11 bytes, 4 are there (at position 3)"
        );
    }

    proptest! {
        #[test]
        fn voters_round_trip(
            version: i16,
            voter in any::<(i32, [u8; 16], i16, i16)>(),
            endpoints in prop::collection::vec(any::<(String, String, u16)>(), 0..3),
        ) {
            let (voter_id, directory_id, min_supported_version, max_supported_version) = voter;
            let endpoints = endpoints
                .into_iter()
                .map(|(name, host, port)| KRaftVoterEndpoint { name, host, port })
                .collect();
            let voter = KRaftVoter {
                voter_id,
                voter_directory_id: KafkaUuid(directory_id),
                endpoints,
                min_supported_version,
                max_supported_version,
            };
            let message = KRaftVoters { version, voters: vec![voter.clone(), voter] };
            prop_assert_eq!(KRaftVoters::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = LeaderChange::decode(&bytes, 0);
            let _ = LeaderChange::decode(&bytes, 1);
            let _ = SnapshotHeader::decode(&bytes);
            let _ = SnapshotFooter::decode(&bytes);
            let _ = KRaftVersion::decode(&bytes);
            let _ = KRaftVoters::decode(&bytes);
        }
    }
}
