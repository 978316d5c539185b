//! `millstream route calibrate FILE`: measures the cost of a router's functions on this machine.

use millstream_router::live::{Calibration, FRAME_BYTES, calibrate as measure};
use millstream_scenario::RouterScenario;
use std::fmt::Write as _;

use crate::arguments::CalibrateArguments;
use crate::failure::Failure;
use crate::print;
use crate::route::failure;
use crate::terminal::{print_text, text_table};

/// Measures the costs and prints a table and the lines for the router file.
pub(crate) fn calibrate(arguments: &CalibrateArguments) -> Result<(), Failure> {
    let scenario = RouterScenario::load(&arguments.file)?;
    let costs = measure(&scenario).map_err(failure)?;
    if arguments.json {
        let by_name = |of: &[(String, Option<u64>)]| -> serde_json::Value {
            of.iter()
                .map(|(name, ns)| (name.clone(), (*ns).into()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let value = serde_json::json!({
            "router": scenario.name, "frame_bytes": FRAME_BYTES, "functions": costs.functions,
            "cost_ns": { "ports": by_name(&costs.ports), "paths": by_name(&costs.paths) },
        });
        return print(&(serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"));
    }
    print_text(&text(&costs))
}

fn text(costs: &Calibration) -> String {
    let header = FRAME_BYTES.map(|bytes| format!("{bytes} bytes (ns)"));
    let header = ["function", &header[0], &header[1]];
    let rows = costs.functions.iter().map(|of| {
        let cells =
            of.ns.map_or(["–", "–"].map(str::to_owned), |ns| ns.map(|ns| ns.to_string()));
        [of.function.clone()].into_iter().chain(cells).collect()
    });
    let mut text = text_table(&header, rows);
    text +=
        "Costs per packet, memory to memory; devices cost more. For the file, the higher costs:\n";
    for (table, of) in [("port", &costs.ports), ("path", &costs.paths)] {
        for (name, ns) in of {
            let _ = match ns {
                Some(ns) => writeln!(text, "\n[[{table}]]  # {name}\ncost = \"{ns} ns\""),
                None => {
                    writeln!(text, "\n# {table} {name}: no packet was found that reaches it")
                }
            };
        }
    }
    text
}
