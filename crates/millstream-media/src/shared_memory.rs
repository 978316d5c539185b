//! Memory that server and data plane share: session rows, message rings and the frame store.

pub(crate) mod region;
pub(crate) mod ring;
pub(crate) mod store;
