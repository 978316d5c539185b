//! The switch fabric: end-points and switches joined by links with credit-based flow control.

pub mod topology;
pub mod traffic;
