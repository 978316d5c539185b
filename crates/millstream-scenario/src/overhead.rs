//! The `overhead` of a link or port: a number of bytes, or the name of a link technology.
//!
//! Source of names and bytes: tc-cake(8), overhead compensation parameters. It counts beside the IP
//! packet. Packet lengths here include the Ethernet header, so a name adds 14 bytes less.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;

use crate::error::nearest;

/// The Ethernet header that is part of a packet's length, bytes.
const ETHERNET_HEADER: u32 = 14;
/// The longest padding of the last ATM cell of a packet, bytes.
const CELL_PADDING: u32 = 47;

const EXPECTED: &str = "a whole number of bytes, or \"none\", \"ethernet\" or \"docsis\"";

/// How a link technology divides what it carries. The transmission time has no term for cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// Frames: the overhead is constant.
    Frames,
    /// ATM: cells of 53 bytes for every 48 bytes, the last one padded.
    Atm,
    /// PTM: 65 bytes for every 64 bytes (64b/65b encoding).
    Ptm,
}

/// Names, bytes beside the IP packet, and framing.
const TECHNOLOGIES: &[(&str, u32, Framing)] = &[
    ("none", ETHERNET_HEADER, Framing::Frames),
    ("ethernet", 38, Framing::Frames),
    ("docsis", 18, Framing::Frames),
    ("pppoa-vcmux", 10, Framing::Atm),
    ("pppoa-llc", 14, Framing::Atm),
    ("pppoe-vcmux", 32, Framing::Atm),
    ("pppoe-llcsnap", 40, Framing::Atm),
    ("bridged-vcmux", 24, Framing::Atm),
    ("bridged-llcsnap", 32, Framing::Atm),
    ("ipoa-vcmux", 8, Framing::Atm),
    ("ipoa-llcsnap", 16, Framing::Atm),
    ("conservative", 48, Framing::Atm),
    ("pppoe-ptm", 30, Framing::Ptm),
    ("bridged-ptm", 22, Framing::Ptm),
];

/// Bytes on the wire per packet in addition to its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overhead {
    /// The bytes.
    pub(crate) bytes: u32,
    /// Whether the file has a name, which assumes lengths with an Ethernet header.
    pub(crate) assumes_ethernet: bool,
}

impl Overhead {
    fn of_name(name: &str) -> Result<Self, String> {
        let is_name = |known: &str| known == name || known.strip_suffix("snap") == Some(name);
        let Some((_, bytes, framing)) = TECHNOLOGIES.iter().find(|(known, ..)| is_name(known))
        else {
            let near = nearest(name, TECHNOLOGIES.iter().map(|(known, ..)| *known));
            let meant = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(format!("`{name}` is not an overhead; expected {EXPECTED}{meant}"));
        };
        match framing {
            Framing::Frames => {
                Ok(Self { bytes: bytes - ETHERNET_HEADER, assumes_ethernet: name != "none" })
            }
            // With these values no packet takes longer on the wire than it counts.
            Framing::Atm => Err(format!(
                "overhead `{name}`: ATM cells are not modelled; lower the `rate` by 5/53 and write \
                 overhead = {}, which pads the last cell",
                bytes + CELL_PADDING - ETHERNET_HEADER
            )),
            Framing::Ptm => Err(format!(
                "overhead `{name}`: PTM's 64b/65b encoding is not modelled; lower the `rate` by \
                 1/65 and write overhead = {}",
                bytes - ETHERNET_HEADER
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Overhead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesOrName;
        impl Visitor<'_> for BytesOrName {
            type Value = Overhead;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Overhead, E> {
                let given = Unexpected::Signed(bytes);
                let bytes = u32::try_from(bytes).map_err(|_| E::invalid_value(given, &self))?;
                Ok(Overhead { bytes, assumes_ethernet: false })
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Overhead, E> {
                let given = Unexpected::Unsigned(bytes);
                let bytes = i64::try_from(bytes).map_err(|_| E::invalid_value(given, &self))?;
                self.visit_i64(bytes)
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Overhead, E> {
                Overhead::of_name(name).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(BytesOrName)
    }
}

impl JsonSchema for Overhead {
    fn schema_name() -> Cow<'static, str> {
        "overhead".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = TECHNOLOGIES.iter().filter(|(_, _, framing)| *framing == Framing::Frames);
        let names: Vec<&str> = names.map(|(name, ..)| *name).collect();
        json_schema!({
            "description": EXPECTED,
            "anyOf": [
                { "type": "integer", "format": "uint32", "minimum": 0 },
                { "enum": names },
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RouterScenario, Scenario};
    use std::path::Path;

    #[test]
    fn names_are_the_bytes_of_tc_cake_less_the_ethernet_header() {
        let bytes = |name| Overhead::of_name(name).map(|overhead| overhead.bytes);
        assert_eq!([bytes("none"), bytes("ethernet"), bytes("docsis")], [Ok(0), Ok(24), Ok(4)]);
    }

    #[test]
    fn cells_are_refused_with_values_that_never_count_too_little() {
        for (name, bytes, framing) in TECHNOLOGIES {
            let lowered = match framing {
                Framing::Frames => continue,
                Framing::Atm => "by 5/53",
                Framing::Ptm => "by 1/65",
            };
            let message = Overhead::of_name(name).unwrap_err();
            let value = message.split("overhead = ").nth(1).unwrap();
            let digits = value.split(|c: char| !c.is_ascii_digit()).next().unwrap();
            let advised: u64 = digits.parse().unwrap();
            assert!(message.contains(name) && message.contains(lowered), "{message}");
            for packet in 14..1_600_u64 {
                let carried = packet - 14 + u64::from(*bytes);
                let counted = packet + advised;
                // Both in bytes of the line, 53 for 48 or 65 for 64.
                match framing {
                    Framing::Atm => assert!(carried.div_ceil(48) * 53 * 48 <= counted * 53),
                    _ => assert!(carried * 65 <= counted * 65),
                }
            }
        }
        assert!(Overhead::of_name("pppoe-vcmux").unwrap_err().contains("overhead = 65,"));
        assert!(Overhead::of_name("ipoa-vcmux").unwrap_err().contains("overhead = 41,"));
        assert!(Overhead::of_name("pppoe-ptm").unwrap_err().ends_with("overhead = 16"));
        assert_eq!(
            Overhead::of_name("bridged-llc").unwrap_err().replace("-llc", "-llcsnap"),
            Overhead::of_name("bridged-llcsnap").unwrap_err()
        );
        let unknown = Overhead::of_name("ethernet2").unwrap_err();
        assert!(unknown.contains("did you mean `ethernet`?"), "{unknown}");
    }

    #[test]
    fn links_hops_and_ports_take_names() {
        let text = "[scenario]\nduration = \"1 s\"\n[link]\nrate = \"8 Mbit/s\"\n\
            overhead = \"ethernet\"\n[scheduler]\ndiscipline = \"fifo\"\n[[hop]]\n\
            name = \"modem\"\nrate = \"8 Mbit/s\"\noverhead = \"docsis\"\n\
            [[stream]]\nname = \"a\"\n\
            source = { kind = \"cbr\", bytes = 1514, interval = \"10 ms\" }\n";
        let scenario = Scenario::parse("a.toml", text, Path::new("")).unwrap();
        // 1,514 bytes with the Ethernet header: 1,538 on Ethernet, 1,518 in DOCSIS.
        assert_eq!(scenario.link.transmission_ns(1_514), 1_538_000);
        let hops = scenario.network.unwrap().hops;
        assert_eq!(hops[1].link.transmission_ns(1_514), 1_518_000);
        let ports = "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
            overhead = \"ethernet\"\n[[port]]\nname = \"b\"\nkind = \"tap\"\nvlan = 7\n\
            rate = \"1 Gbit/s\"\noverhead = \"docsis\"\n[[path]]\nname = \"all\"\n\
            [[route]]\nprefix = \"0.0.0.0/0\"\nport = \"b\"\n\
            neighbour = \"02:00:00:00:02:01\"\n";
        let router = RouterScenario::parse("r.toml", ports, Path::new("")).unwrap();
        let bytes: Vec<u32> = router.ports.iter().map(|port| port.overhead_bytes).collect();
        assert_eq!(bytes, [24, 8], "a tag of 4 bytes beside DOCSIS");
    }

    #[test]
    fn wrong_bytes_and_names_beside_media_are_refused() {
        let refused = |overhead: &str, media: &str| {
            let text = format!(
                "[scenario]\nduration = \"1 s\"\n[link]\nrate = \"8 Mbit/s\"\n\
                 overhead = {overhead}\n[scheduler]\ndiscipline = \"fifo\"\n{media}\
                 [[stream]]\nname = \"a\"\nsource = {{ kind = \"live\", rate = \"1 Mbit/s\" }}\n"
            );
            let error = Scenario::parse("a.toml", &text, Path::new("")).unwrap_err();
            let problems = error.problems.iter();
            problems.map(|problem| problem.to_string() + " ").collect::<String>()
        };
        for overhead in ["-3", "4294967296", "1.5", "true"] {
            let message = refused(overhead, "");
            assert!(message.contains("\"ethernet\" or \"docsis\""), "{overhead}: {message}");
        }
        let message = refused("\"ethernet\"", "[media]\n");
        assert!(message.contains("media packets are UDP payloads"), "{message}");
    }
}
