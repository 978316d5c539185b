//! Fair queueing, rounds and their credit-aware forms, once more and slowly.
//!
//! Every tag and clock is an exact rational, every winner is found by looking at every stream, and
//! nothing is remembered that can be worked out again. [`model`] holds the inputs and outputs,
//! [`link`] the simulated link, [`gate`] who may send at all (credits and token buckets), [`rule`]
//! what a discipline hears and says; each discipline then has its own file: [`gps`] and [`wfq`],
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
