//! `attach --via tc`: classes of HTB with fq_codel instead of the BPF qdisc.

use millstream_bpf::tc::{HANDLE, TcCommands};
use millstream_scenario::Scenario;

use super::{run, segmentation_note};
use crate::arguments::AttachArguments;
use crate::failure::Failure;
use crate::init::interfaces::Interface;
use crate::terminal::{print_text, say};

/// Prints the commands, and runs them unless it is a dry run. If one fails, the interface has the
/// kernel's default qdisc.
pub(super) fn attach(arguments: &AttachArguments, scenario: &Scenario) -> Result<(), Failure> {
    let interface = &arguments.interface;
    let mut commands = TcCommands::of_scenario(scenario, interface)?;
    if let Some(segments) = arguments.gso_max_segs {
        commands.limit_segments(interface, segments);
    }
    if arguments.dry_run {
        return print_text(&commands.script());
    }
    Interface::read(interface)?;
    print_text(&commands.script())?;
    for step in &commands.steps {
        let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
        let Some((program, words)) = words.split_first() else { continue };
        if let Err(failure) = run(program, words) {
            // Removes what the commands before have made.
            let _ = run("tc", &["qdisc", "del", "dev", interface, "root"]);
            return Err(failure);
        }
    }
    if let Some(note) = segmentation_note(interface, scenario) {
        say(&note);
    }
    Ok(())
}

/// Removes the classes, if the interface has them; returns whether it had.
pub(super) fn detach(interface: &str) -> Result<bool, Failure> {
    let Ok(shown) = run("tc", &["qdisc", "show", "dev", interface, "root"]) else {
        return Ok(false);
    };
    let shown = String::from_utf8_lossy(&shown);
    let mut words = shown.split_whitespace().skip(1);
    let had = words.next() == Some("htb") && words.next() == Some(HANDLE);
    if had {
        run("tc", &["qdisc", "del", "dev", interface, "root"])?;
    }
    Ok(had)
}
