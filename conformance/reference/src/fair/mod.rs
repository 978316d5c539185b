//! Reference of fair queueing, round robins and their credit-aware forms.
//!
//! Every tag and clock is an exact rational, every winner is found by comparing all streams, and
//! values that can be recomputed are not stored. [`model`] holds the inputs and outputs, [`link`]
//! the simulated link, [`gate`] the eligibility of streams (credits and token buckets), [`rule`]
//! the interface of disciplines. Each discipline has its own file: [`gps`] and [`wfq`],
//! [`head_tags`] (SCFQ, SFQ, virtual clock), [`wf2q_plus`], [`ring`] (DRR, WRR) and [`slots`]
//! (WIRR, tables).

pub mod gate;
pub mod gps;
pub mod head_tags;
pub mod link;
pub mod model;
pub mod ring;
pub mod rule;
pub mod slots;
pub mod wf2q_plus;
pub mod wfq;

pub use link::run;
pub use model::{CreditReturn, Discipline, Outcome, Service, Spec, StreamSpec};
