//! `.kafka_cleanshutdown`: its presence says that the broker stopped cleanly.
//!
//! Up to Kafka 3.6 the file is empty; since 3.7 it holds one JSON object with `version` and
//! `brokerEpoch`. Decides `CleanShutdownFileHandler`.

use serde::{Deserialize, Serialize};

use crate::error::{DecodeError, DecodeErrorKind};

/// The content of a `.kafka_cleanshutdown` file that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanShutdown {
    /// Version of the content, 0. Kafka does not check it.
    #[serde(default)]
    pub version: i32,
    /// The broker's epoch when it stopped (KIP-966).
    pub broker_epoch: Option<i64>,
}

impl CleanShutdown {
    /// What the file whose whole content is `bytes` says; `None` if it is empty.
    ///
    /// # Errors
    /// If there is something other than such an object. Kafka goes on without a broker epoch then:
    /// the shutdown was clean all the same.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(bytes).map(Some).map_err(|error| {
            let kind = DecodeErrorKind::Text(error.to_string());
            DecodeError::new("clean shutdown file", "", 0, kind)
        })
    }

    /// The content of the file.
    #[must_use]
    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kafka_bytes_to_fields_and_back() {
        let text = r#"{"version":0,"brokerEpoch":46}"#;
        let content = CleanShutdown::decode(text.as_bytes()).unwrap().unwrap();
        assert_eq!((content.version, content.broker_epoch), (0, Some(46)));
        assert_eq!(content.encode(), text);
    }

    #[test]
    fn old_empty_file_and_unknown_fields_are_read() {
        assert_eq!(CleanShutdown::decode(b""), Ok(None));
        let content = CleanShutdown::decode(b" {\"more\":1} ").unwrap().unwrap();
        assert_eq!((content.version, content.broker_epoch), (0, None));
        assert!(CleanShutdown::decode(b"{").is_err());
    }

    proptest! {
        #[test]
        fn round_trip(version: i32, broker_epoch: i64) {
            let content = CleanShutdown { version, broker_epoch: Some(broker_epoch) };
            prop_assert_eq!(CleanShutdown::decode(content.encode().as_bytes()), Ok(Some(content)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = CleanShutdown::decode(&bytes);
        }
    }
}
