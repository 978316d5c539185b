//! The version of the ABI, which is apart from that of the package.

/// The major version of the ABI, part of the shared library's name. A change breaks programs.
pub const MS_ABI_MAJOR: u32 = 1;
/// The minor version of the ABI. A change adds functions, codes or fields.
pub const MS_ABI_MINOR: u32 = 0;
/// The patch version of the ABI.
pub const MS_ABI_PATCH: u32 = 0;
