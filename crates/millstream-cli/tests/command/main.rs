//! The command as its users meet it: arguments, files, tables, errors and exit statuses.

#![allow(clippy::unwrap_used)]

mod check;
mod exit_status;
mod fabric;
mod plan;
mod run;
mod sweep;
mod trace;
