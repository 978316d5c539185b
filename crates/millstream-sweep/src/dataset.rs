//! The dataset as CSV and Parquet: `point`, the settings, `seed`, then the metrics of each run.

use millstream_traffic::OutputFile;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::SweepError;
use crate::grid::Grid;
use crate::outcome::Cell;
#[cfg(feature = "parquet")]
use crate::parquet_file::write_parquet;
use crate::run::CompletedRun;
use crate::setting::display_value;

/// The paths of a sweep's dataset and journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    csv: Option<PathBuf>,
    parquet: Option<PathBuf>,
    journal: PathBuf,
}

impl Output {
    /// Derives the paths from `FILE.csv`, `FILE.parquet` or a directory.
    ///
    /// The journal of a file is `FILE.….journal` next to it. Any other path is a directory with
    /// `sweep.csv`, `sweep.parquet` and `sweep.journal`; it is created if it does not exist.
    ///
    /// # Errors
    /// Fails if the directory cannot be created, or the build cannot write Parquet.
    pub fn at(path: &Path) -> Result<Self, SweepError> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let mut journal = path.as_os_str().to_owned();
        journal.push(".journal");
        if !cfg!(feature = "parquet") && extension != Some("csv") {
            let why =
                "this build cannot write Parquet: use FILE.csv, or build with `--features parquet`";
            let why = io::Error::new(io::ErrorKind::Unsupported, why);
            return Err(SweepError::file(path)(why));
        }
        let one = |csv, parquet| Self { csv, parquet, journal: journal.into() };
        match extension {
            _ if path.is_dir() => {}
            Some("csv") => return Ok(one(Some(path.to_owned()), None)),
            Some("parquet") => return Ok(one(None, Some(path.to_owned()))),
            // Extensions have letters; a directory may end with a version.
            Some(other) if other.starts_with(|letter: char| letter.is_ascii_alphabetic()) => {
                return Err(SweepError::InvalidArgument {
                    message: format!("{}: a dataset cannot be .{other}", path.display()),
                    help: Some("use FILE.csv, FILE.parquet, or a directory for both".into()),
                });
            }
            _ => {}
        }
        std::fs::create_dir_all(path).map_err(SweepError::file(path))?;
        Ok(Self {
            csv: Some(path.join("sweep.csv")),
            parquet: Some(path.join("sweep.parquet")),
            journal: path.join("sweep.journal"),
        })
    }

    /// Returns all files that a sweep writes.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.datasets().chain([self.journal()])
    }

    /// Returns the files of the dataset.
    pub fn datasets(&self) -> impl Iterator<Item = &Path> {
        self.csv.iter().chain(&self.parquet).map(PathBuf::as_path)
    }

    /// Returns the path of the journal.
    #[must_use]
    pub fn journal(&self) -> &Path {
        &self.journal
    }

    /// Writes the dataset; a reader never sees an incomplete file.
    pub(crate) fn write(&self, grid: &Grid, runs: &[CompletedRun]) -> Result<(), SweepError> {
        if let Some(path) = &self.csv {
            replace(path, |file| write_csv(file, grid, runs)).map_err(SweepError::file(path))?;
        }
        #[cfg(feature = "parquet")]
        if let Some(path) = &self.parquet {
            replace(path, |file| write_parquet(file, grid, runs))
                .map_err(SweepError::file(path))?;
        }
        Ok(())
    }
}

/// Writes a file atomically: replaces it completely or not at all.
fn replace(path: &Path, write: impl FnOnce(&mut OutputFile) -> io::Result<()>) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    write(&mut file)?;
    file.finish()
}

fn write_csv(file: &mut impl Write, grid: &Grid, runs: &[CompletedRun]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(file);
    let places = grid.settings().iter().map(|setting| setting.place.as_str());
    let columns = grid.columns().iter().map(|column| column.name);
    csv.write_record(["point"].into_iter().chain(places).chain(["seed"]).chain(columns))?;
    for CompletedRun { point, seed, rows } in runs {
        let values: Vec<String> = grid.values(*point).into_iter().map(display_value).collect();
        for row in rows {
            csv.write_field(point.to_string())?;
            for value in &values {
                csv.write_field(value)?;
            }
            csv.write_field(seed.to_string())?;
            for cell in row {
                csv.write_field(match cell {
                    Cell::None => String::new(),
                    Cell::Count(count) => count.to_string(),
                    Cell::Share(share) => share.to_string(),
                    Cell::Text(text) => text.clone(),
                })?;
            }
            csv.write_record(None::<&[u8]>)?;
        }
    }
    csv.flush()
}
