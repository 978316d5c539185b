//! The fuzz targets, one module each.

pub(crate) mod access_files;
pub(crate) mod audio;
pub(crate) mod browsers;
pub(crate) mod c_calls;
pub(crate) mod canary;
pub(crate) mod capture;
pub(crate) mod cluster;
pub(crate) mod credentials;
pub(crate) mod csv;
pub(crate) mod extension;
pub(crate) mod hilq_exact;
pub(crate) mod journal;
pub(crate) mod machine;
pub(crate) mod mpeg;
pub(crate) mod orders;
pub(crate) mod packet;
pub(crate) mod proxy;
pub(crate) mod published;
pub(crate) mod requests;
pub(crate) mod router;
pub(crate) mod rtnetlink;
pub(crate) mod scenario;
pub(crate) mod segments;
pub(crate) mod takeover;
pub(crate) mod transport_stream;
