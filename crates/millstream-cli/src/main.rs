//! The `millstream` command: parses arguments and calls the crates.
//!
//! Exit status: 0 done; 1 the run failed; 2 the command line or a file is wrong; 3 from `check`: a
//! contract cannot be kept; 130 interrupted. Results go to standard output, all else to standard
//! error.

mod arguments;
#[cfg(feature = "attach")]
mod attach;
mod bench;
#[cfg(feature = "live")]
mod calibrate;
mod check;
#[cfg(feature = "live")]
mod confine;
mod examples;
mod fabric;
mod failure;
mod hardware;
mod init;
mod interrupt;
#[cfg(not(feature = "live"))]
mod not_live;
mod outputs;
mod plan;
mod progress;
#[cfg(feature = "live")]
mod route;
mod run;
mod selection;
#[cfg(feature = "live")]
mod serve;
mod sweep;
mod terminal;
#[cfg(feature = "live")]
mod top;
mod trace;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::Failure;
#[cfg(not(feature = "live"))]
pub(crate) use not_live::{route, serve};
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Init(arguments) => init::init(&arguments),
        Command::Examples(arguments) => examples::examples(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Sweep(arguments) => sweep::sweep(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        #[cfg(feature = "attach")]
        Command::Attach(arguments) => attach::attach(&arguments),
        #[cfg(feature = "attach")]
        Command::Detach(arguments) => attach::detach(&arguments),
        #[cfg(not(feature = "attach"))]
        Command::Attach(_) | Command::Detach(_) => Err(without_qdisc()),
        #[cfg(feature = "live")]
        Command::Route(arguments) => route::route(&arguments),
        #[cfg(feature = "live")]
        Command::Top(arguments) => top::top(&arguments),
        #[cfg(feature = "live")]
        Command::Serve(arguments) => serve::serve(&arguments),
        #[cfg(feature = "live")]
        Command::Ni => serve::data_plane(),
        #[cfg(feature = "live")]
        Command::Producer => serve::frame_reader(),
        #[cfg(feature = "live")]
        Command::Hooks => serve::hooks(),
        #[cfg(not(feature = "live"))]
        Command::Route(_)
        | Command::Top(_)
        | Command::Serve(_)
        | Command::Ni
        | Command::Producer
        | Command::Hooks => Err(not_live::failure()),
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

/// Returns the error of commands that need the qdisc, in a build without it.
#[cfg(not(feature = "attach"))]
fn without_qdisc() -> Failure {
    Failure::Input(miette::miette!(
        help = "build the whole command: cargo build --release -p millstream-cli",
        "this build does not have the kernel's qdisc"
    ))
}

/// Writes a result to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output("standard output", &error))
}
