//! The number of clients that the link of a scenario admits, by stream.

use millstream_scenario::Scenario;

use crate::MediaError;
use crate::files::library::Library;
use crate::scheduler::Schedule;
use crate::scheduler::admission::Admission;

/// The admission result of one stream on an empty link.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TitleAdmission {
    /// The stream's name.
    pub name: String,
    /// The number of admitted clients if all play this stream, at most the session limit.
    pub room: u64,
    /// Whether the discipline serves by deadline; only then does admission guarantee loss windows.
    pub by_deadline: bool,
    /// The reason for the refusal if the link admits not even one client.
    pub refused: Option<String>,
}

/// Computes the admission result of each stream of `scenario`, reading its files.
///
/// # Errors
/// Fails if the scenario cannot be served, or a media file cannot be read.
pub fn admission_of(scenario: &Scenario) -> Result<Vec<TitleAdmission>, MediaError> {
    let library = Library::open(scenario)?;
    let demands = library.demands();
    let empty = Admission::new(scenario.link.rate_bps);
    let most = u64::from(scenario.media.sessions);
    let titles = library.titles.iter().enumerate();
    let own = titles.filter(|(_, title)| title.looser_than.is_none() && title.is_shown());
    Ok(own
        .map(|(at, title)| TitleAdmission {
            name: title.name.clone(),
            room: empty.room(&demands, at, most),
            by_deadline: library.schedule != Schedule::Fifo,
            refused: empty.admits(&demands, at, 1).err(),
        })
        .collect())
}
