//! The library of verilated models that `models.py` makes; the structs match those in rows.h.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::slice;

use libloading::{Library, Symbol};

use crate::model::{self, CoreFunctions};
use crate::tiled::{self, TiledFunctions};

/// A row of `msr_core` or `msr_pair_core`.
#[derive(Clone, Copy)]
#[repr(C)]
struct CoreRow {
    name: *const c_char,
    streams: u32,
    block: u32,
    winner_only: bool,
    compute_ahead: bool,
    sorted: bool,
    tree: bool,
    keyed: bool,
    functions: CoreFunctions,
}

/// A row of `msr_tiled_core`.
#[derive(Clone, Copy)]
#[repr(C)]
struct TiledRow {
    name: *const c_char,
    streams: u32,
    width: u32,
    functions: TiledFunctions,
}

#[repr(C)]
struct Rows {
    core_bytes: u32,
    tiled_bytes: u32,
    cores: *const CoreRow,
    pairs: *const CoreRow,
    tiled: *const TiledRow,
    core_count: u64,
    pair_count: u64,
    tiled_count: u64,
}

/// All compiled configurations.
#[derive(Debug)]
pub struct Models {
    /// Those of `msr_core`, at least one.
    pub cores: Vec<model::Configuration>,
    /// Those of `msr_pair_core`.
    pub pairs: Vec<model::Configuration>,
    /// Those of `msr_tiled_core`.
    pub tiled: Vec<tiled::Configuration>,
}

impl Models {
    /// Loads the library at `path`, which stays loaded.
    pub fn load(path: &Path) -> Result<Self, String> {
        let of = |error| format!("{error}; rtl/bulk/models.py makes the library");
        // SAFETY: the library's initialisers are those of C++ and Verilator.
        let library = unsafe { Library::new(path) }.map_err(of)?;
        // SAFETY: models.py makes libraries with this function.
        let rows: Symbol<'_, unsafe extern "C" fn() -> Rows> =
            unsafe { library.get(b"millstream_rows") }.map_err(of)?;
        // SAFETY: it has no arguments.
        let rows = unsafe { rows() };
        if (rows.core_bytes as usize, rows.tiled_bytes as usize)
            != (size_of::<CoreRow>(), size_of::<TiledRow>())
        {
            return Err(format!("{}: it has other structs; make it again", path.display()));
        }
        if rows.core_count == 0 {
            return Err(format!("{}: it has no configuration of msr_core", path.display()));
        }
        // The names and functions are in the library.
        std::mem::forget(library);
        // SAFETY: the library has as many rows as it says, and its structs have our sizes.
        let (cores, pairs, tiled) = unsafe {
            (
                slice::from_raw_parts(rows.cores, rows.core_count as usize),
                slice::from_raw_parts(rows.pairs, rows.pair_count as usize),
                slice::from_raw_parts(rows.tiled, rows.tiled_count as usize),
            )
        };
        Ok(Self {
            cores: cores.iter().map(core).collect(),
            pairs: pairs.iter().map(core).collect(),
            tiled: tiled.iter().map(tiled_core).collect(),
        })
    }

    /// Returns the configuration of `msr_core` called `name`.
    pub fn core(&self, name: &str) -> Result<model::Configuration, String> {
        let found = self.cores.iter().find(|known| known.name == name);
        found.copied().ok_or_else(|| format!("the library has no configuration {name}"))
    }
}

/// Returns a name of the library.
fn name(name: *const c_char) -> &'static str {
    // SAFETY: names are literals of the library, which stays loaded.
    unsafe { CStr::from_ptr(name) }.to_str().expect("names are ASCII")
}

fn core(row: &CoreRow) -> model::Configuration {
    model::Configuration {
        name: name(row.name),
        streams: row.streams as usize,
        winner_only: row.winner_only,
        compute_ahead: row.compute_ahead,
        sorted: row.sorted,
        tree: row.tree,
        keyed: row.keyed,
        block: row.block as usize,
        functions: row.functions,
    }
}

fn tiled_core(row: &TiledRow) -> tiled::Configuration {
    tiled::Configuration {
        name: name(row.name),
        streams: row.streams as usize,
        width: row.width as usize,
        functions: row.functions,
    }
}
