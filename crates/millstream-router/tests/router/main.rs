//! Tests of the router's public interface, in one binary.

#![allow(clippy::unwrap_used)]

mod caps;
mod extension;
mod filter;
mod hostile;
mod ipv6;
mod laws;
mod live;
mod overload;
mod proxy;
mod reload;
mod support;
mod vlan;
