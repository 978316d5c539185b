//! A network of switches.

pub mod topology;
