//! The `millstream` command: parses arguments and calls the crates.
//!
//! Exit status: 0 done; 1 the run failed; 2 the command line or a file is wrong; 3 from `check`: a
//! contract cannot be kept; 130 interrupted. Results go to standard output, all else to standard
//! error.

mod arguments;
mod bench;
mod calibrate;
mod check;
mod confine;
mod fabric;
mod failure;
mod hardware;
mod interrupt;
mod outputs;
mod plan;
mod progress;
mod route;
mod run;
mod selection;
mod serve;
mod sweep;
mod top;
mod trace;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::Failure;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Sweep(arguments) => sweep::sweep(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Route(arguments) => route::route(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Ni => serve::processor(),
        Command::Producer => serve::producer(),
        Command::Schema(arguments) if arguments.router => {
            print(&millstream_scenario::router_schema())
        }
        Command::Schema(_) => print(&millstream_scenario::schema()),
        Command::Plan(arguments) => plan::plan(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(),
    }
}

/// Writes a result to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output("standard output", &error))
}
