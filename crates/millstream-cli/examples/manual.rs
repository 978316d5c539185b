//! Writes the man pages and the shell completions of the command, as in /usr/share.
//!
//! Usage: `cargo run -p millstream-cli --example manual -- DIR`.

// The command uses all of its arguments.
#![allow(dead_code, unreachable_pub)]

#[path = "../src/arguments.rs"]
mod arguments;

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let Some(share) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(std::io::Error::other("usage: manual DIR"));
    };
    let mut command = arguments::Arguments::command();
    for (shell, directory) in [
        (Shell::Bash, "bash-completion/completions"),
        (Shell::Zsh, "zsh/vendor-completions"),
        (Shell::Fish, "fish/vendor_completions.d"),
    ] {
        let directory = share.join(directory);
        std::fs::create_dir_all(&directory)?;
        generate_to(shell, &mut command, "millstream", directory)?;
    }
    // Debian's name of the file for bash.
    let bash = share.join("bash-completion/completions");
    std::fs::rename(bash.join("millstream.bash"), bash.join("millstream"))?;
    let command = command.disable_help_subcommand(true);
    let pages = share.join("man/man1");
    std::fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(command, pages)
}
