//! End-to-end tests of the command: arguments, files, tables, errors and exit statuses.

#![allow(clippy::unwrap_used)]

mod attach_tc;
mod check;
mod exit_status;
mod fabric;
mod messages;
mod plan;
mod run;
mod start;
mod sweep;
mod tables;
mod trace;
