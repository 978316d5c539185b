//! The `[[path]]` tables of a new router file: voice and the rest, or the tins of a CAKE preset.
//!
//! Sources of the tins: tc-cake(8) and, for diffserv8, which it does not list, `sch_cake` of Linux
//! 5.9 and later.

use std::fmt::Write as _;

use crate::arguments::DiffservPreset;

/// The paths without a preset.
const VOICE_AND_REST: &str = r#"# Voice: packets marked "expedited forwarding".
[[path]]
name = "voice"
match = { protocol = "udp", dscp = 46 }
weight = 4

[[path]]
name = "best-effort""#;

/// A tin: the path's name, its code points as a TOML value (none: all others), and its weight. The
/// weights of a preset add up to 16.
type Tin = (&'static str, Option<&'static str>, u32);

const BESTEFFORT: &[Tin] = &[("best-effort", None, 16)];

/// The guaranteed shares are CAKE's thresholds; best effort has the rest.
const DIFFSERV4: &[Tin] = &[
    ("voice", Some(r#"["CS7", "CS6", "EF", "VA", "CS5", "CS4"]"#), 4),
    ("video", Some(r#"["AF4x", "AF3x", "CS3", "AF2x", "CS2", 4]"#), 8),
    ("bulk", Some(r#"["CS1", "LE"]"#), 1),
    ("best-effort", None, 3),
];

/// CAKE orders these tins by priority, with thresholds that add up to more than the link. A share
/// for each must be chosen.
const DIFFSERV8: &[Tin] = &[
    ("network-control", Some(r#"["CS7", "CS6"]"#), 1),
    ("voice", Some(r#"["EF", "VA", "CS5", "CS4"]"#), 2),
    ("shell", Some(r#""CS2""#), 1),
    ("low-latency", Some(r#"["AF2x", 4]"#), 2),
    ("video", Some(r#"["AF4x", "AF3x", "CS3"]"#), 4),
    ("high-throughput", Some(r#"["AF1x", "CS1", 2]"#), 2),
    ("background", Some(r#""LE""#), 1),
    ("best-effort", None, 3),
];

/// Returns the `[[path]]` tables.
pub(super) fn paths(preset: Option<DiffservPreset>) -> String {
    let (name, tins) = match preset {
        None => return VOICE_AND_REST.to_owned(),
        Some(DiffservPreset::Besteffort) => ("besteffort", BESTEFFORT),
        Some(DiffservPreset::Diffserv4) => ("diffserv4", DIFFSERV4),
        Some(DiffservPreset::Diffserv8) => ("diffserv8", DIFFSERV8),
    };
    let mut text = format!("# The tins of CAKE's preset {name} (tc-cake(8)). ");
    text += match tins.len() {
        1 => "Each connection has its own queue.\n",
        _ => {
            "Each connection has its own queue in its\n\
             # tin. A busy tin gets at least its share, and part of what the others leave.\n"
        }
    };
    for (tin, dscp, weight) in tins {
        text += "\n";
        if tins.len() > 1 {
            let percent = f64::from(*weight) * 100.0 / 16.0;
            writeln!(text, "# A share of {percent} %.").expect("a string accepts all text");
        }
        writeln!(text, "[[path]]\nname = \"{tin}\"").expect("a string accepts all text");
        if let Some(dscp) = dscp {
            writeln!(text, "match = {{ dscp = {dscp} }}").expect("a string accepts all text");
        }
        writeln!(text, "weight = {weight}\nflows = {{}}").expect("a string accepts all text");
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_of_a_preset_are_sixteenths() {
        for tins in [BESTEFFORT, DIFFSERV4, DIFFSERV8] {
            assert_eq!(tins.iter().map(|(.., weight)| weight).sum::<u32>(), 16);
            let (_, dscp, _) = tins[tins.len() - 1];
            assert_eq!(dscp, None, "the last tin takes all other packets");
        }
    }
}
