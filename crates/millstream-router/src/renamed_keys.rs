//! JSON keys of reports that were renamed: written under both names, read under either.
//!
//! [`renamed_key!`] makes a module for `#[serde(flatten, with = "…")]` on a `u64` field. The old
//! key is deprecated and stays until the next breaking release.

/// Makes the module `$module`, which writes a counter as `$new` and as the deprecated `$old`.
macro_rules! renamed_key {
    ($module:ident, $new:literal, $old:literal) => {
        mod $module {
            use serde::ser::SerializeMap;
            use serde::{Deserialize, Deserializer, Serializer};

            #[derive(Deserialize)]
            struct Keys {
                #[serde(rename = $new)]
                new: Option<u64>,
                #[serde(rename = $old)]
                old: Option<u64>,
            }

            pub(super) fn serialize<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(Some(2))?;
                map.serialize_entry($new, value)?;
                map.serialize_entry($old, value)?;
                map.end()
            }

            pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<u64, D::Error> {
                let keys = Keys::deserialize(from)?;
                Ok(keys.new.or(keys.old).unwrap_or(0))
            }
        }
    };
}

pub(crate) use renamed_key;
