//! A switched network: end-points, their traffic, and the switches between them.

pub mod traffic;
