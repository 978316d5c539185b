//! The `overhead` and `framing` of a link or port: bytes beside a packet's length, or the name of a
//! link technology, which has both.
//!
//! Source of names and bytes: tc-cake(8), overhead compensation parameters. It counts beside the IP
//! packet. Packet lengths here include the Ethernet header, so a name adds 14 bytes less.

use millstream::{Framing, Link};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;
use toml::Spanned;

use crate::error::{Problem, nearest};
use crate::units::Rate;

/// The Ethernet header that is part of a packet's length, bytes.
const ETHERNET_HEADER: i32 = 14;
/// The least overhead, bytes, as in tc-cake(8).
const LEAST: i32 = -64;

const EXPECTED: &str =
    "a whole number of bytes, at least -64, or a name such as \"ethernet\" or \"pppoe-ptm\"";

/// Names, bytes beside the IP packet, and framing.
const TECHNOLOGIES: &[(&str, i32, Framing)] = &[
    ("none", ETHERNET_HEADER, Framing::None),
    ("ethernet", 38, Framing::None),
    ("docsis", 18, Framing::None),
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

/// The framing in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FramingName {
    None,
    Atm,
    Ptm,
}

impl FramingName {
    fn of(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::None,
            Framing::Atm => Self::Atm,
            Framing::Ptm => Self::Ptm,
        }
    }

    fn framing(self) -> Framing {
        match self {
            Self::None => Framing::None,
            Self::Atm => Framing::Atm,
            Self::Ptm => Framing::Ptm,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Atm => "atm",
            Self::Ptm => "ptm",
        }
    }
}

/// Bytes on the wire per packet in addition to its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overhead {
    /// The bytes.
    bytes: i32,
    /// The technology, if the file has a name other than "none".
    technology: Option<(&'static str, Framing)>,
}

impl Overhead {
    fn of_name(name: &str) -> Result<Self, String> {
        let is_name = |known: &str| known == name || known.strip_suffix("snap") == Some(name);
        let Some((known, bytes, framing)) = TECHNOLOGIES.iter().find(|(known, ..)| is_name(known))
        else {
            let near = nearest(name, TECHNOLOGIES.iter().map(|(known, ..)| *known));
            let meant = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(format!("`{name}` is not an overhead; expected {EXPECTED}{meant}"));
        };
        let technology = (name != "none").then_some((*known, *framing));
        Ok(Self { bytes: bytes - ETHERNET_HEADER, technology })
    }

    /// Returns whether it is a name that assumes lengths with an Ethernet header.
    pub(crate) fn assumes_ethernet(self) -> bool {
        self.technology.is_some()
    }

    /// Returns the link of `rate` with this overhead and the file's `framing`.
    pub(crate) fn link(self, rate: Rate, framing: Option<&Spanned<FramingName>>) -> Link {
        let of_name = self.technology.map_or(Framing::None, |(_, framing)| framing);
        let framing = framing.map_or(of_name, |given| given.get_ref().framing());
        Link::new(rate.0, self.bytes).framed(framing)
    }

    /// Checks that the file's `framing` is that of the named technology.
    pub(crate) fn check(self, framing: Option<&Spanned<FramingName>>, problems: &mut Vec<Problem>) {
        if let (Some((name, of_name)), Some(given)) = (self.technology, framing)
            && given.get_ref().framing() != of_name
        {
            let (given, framing) = (given.span(), given.get_ref().name());
            let of_name = FramingName::of(of_name).name();
            let message = format!("`framing` \"{framing}\" beside the `overhead` \"{name}\"");
            let help = format!(
                "\"{name}\" has framing \"{of_name}\"; remove `framing`, or give \
                                the overhead in bytes"
            );
            problems.push(Problem::new(given, message).help(help));
        }
    }
}

/// Returns `text`, bytes or a name, as the value of `overhead` in a file.
///
/// # Errors
/// Fails if it is neither.
pub fn parse_overhead(text: &str) -> Result<String, String> {
    match text.parse::<i32>() {
        Ok(bytes) if bytes >= LEAST => Ok(bytes.to_string()),
        Ok(bytes) => Err(format!("overhead of {bytes} bytes; expected {EXPECTED}")),
        Err(_) => Overhead::of_name(text).map(|_| format!("\"{text}\"")),
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
                let allowed = i32::try_from(bytes).ok().filter(|bytes| *bytes >= LEAST);
                let bytes = allowed.ok_or_else(|| E::invalid_value(given, &self))?;
                Ok(Overhead { bytes, technology: None })
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
        let names: Vec<&str> = TECHNOLOGIES.iter().map(|(name, ..)| *name).collect();
        json_schema!({
            "description": EXPECTED,
            "anyOf": [
                { "type": "integer", "format": "int32", "minimum": LEAST },
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
        // tc-cake(8): the bytes of an IP packet's overhead, and its keyword for the framing.
        let manual = [
            ("ethernet", 38, Framing::None),
            ("docsis", 18, Framing::None),
            ("pppoe-ptm", 30, Framing::Ptm),
            ("bridged-ptm", 22, Framing::Ptm),
            ("pppoa-vcmux", 10, Framing::Atm),
            ("pppoa-llc", 14, Framing::Atm),
            ("pppoe-vcmux", 32, Framing::Atm),
            ("pppoe-llcsnap", 40, Framing::Atm),
            ("pppoe-llc", 40, Framing::Atm),
            ("bridged-vcmux", 24, Framing::Atm),
            ("bridged-llcsnap", 32, Framing::Atm),
            ("ipoa-vcmux", 8, Framing::Atm),
            ("ipoa-llcsnap", 16, Framing::Atm),
            ("conservative", 48, Framing::Atm),
        ];
        let link = |name| Overhead::of_name(name).unwrap().link(Rate(1), None);
        for (name, bytes, framing) in manual {
            assert_eq!(link(name), Link::new(1, bytes - 14).framed(framing), "{name}");
        }
        assert_eq!(link("none"), Link::new(1, 0));
        assert_eq!(TECHNOLOGIES.len(), manual.len(), "`none` instead of the alias of LLC");
        let unknown = Overhead::of_name("ethernet2").unwrap_err();
        assert!(unknown.contains("did you mean `ethernet`?"), "{unknown}");
    }

    #[test]
    fn framing_is_a_key_and_must_be_that_of_the_name() {
        let parse = |keys: &str| {
            let text = format!(
                "[scenario]\nduration = \"1 s\"\n[link]\nrate = \"8 Mbit/s\"\n{keys}\n\
                 [scheduler]\ndiscipline = \"fifo\"\n[[stream]]\nname = \"a\"\n\
                 source = {{ kind = \"cbr\", bytes = 1514, interval = \"10 ms\" }}\n"
            );
            Scenario::parse("a.toml", &text, Path::new(""))
        };
        // 1,514 bytes are an IP packet of 1,500: 32 cells of 53 bytes under IPoA over VC-MUX.
        let ns = |keys| parse(keys).unwrap().link.transmission_ns(1_514);
        assert_eq!(ns("overhead = \"ipoa-vcmux\""), 32 * 53_000);
        assert_eq!(ns("overhead = -6\nframing = \"atm\""), 32 * 53_000);
        assert_eq!(ns("overhead = \"ipoa-vcmux\"\nframing = \"atm\""), 32 * 53_000);
        assert_eq!(ns("overhead = \"pppoe-ptm\""), 1_554_000);
        assert_eq!(ns("framing = \"ptm\""), 1_538_000);
        assert_eq!(ns("overhead = \"none\"\nframing = \"none\""), 1_514_000);
        for (name, framing, has) in [
            ("ethernet", "atm", "none"),
            ("pppoe-vcmux", "ptm", "atm"),
            ("bridged-ptm", "none", "ptm"),
        ] {
            let error = parse(&format!("overhead = \"{name}\"\nframing = \"{framing}\""));
            let help = error.unwrap_err().problems[0].help.clone().unwrap();
            assert!(help.contains(&format!("has framing \"{has}\"")), "{help}");
        }
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
        let bytes: Vec<i32> = router.ports.iter().map(|port| port.link.overhead_bytes).collect();
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
        for overhead in ["-65", "4294967296", "1.5", "true"] {
            let message = refused(overhead, "");
            assert!(message.contains("\"ethernet\" or \"pppoe-ptm\""), "{overhead}: {message}");
        }
        let message = refused("\"ethernet\"", "[media]\n");
        assert!(message.contains("media packets are UDP payloads"), "{message}");
    }
}
