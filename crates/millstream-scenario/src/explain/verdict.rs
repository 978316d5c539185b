//! The answer to "will this contract be kept?": one of three, each with its reason.
//!
//! | answer | carries |
//! |---|---|
//! | guaranteed | the theorem, every premise of which was checked |
//! | infeasible | the number that shows it |
//! | not known | the premises that fail, and the smallest change that would make each hold |

use serde::Serialize;

/// Whether a contract will be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A theorem says so, and its premises hold.
    Guaranteed,
    /// It cannot be kept while every stream uses what its contract allows.
    Infeasible,
    /// No theorem applies.
    NotKnown,
}

impl Answer {
    /// As in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "guaranteed",
            Self::Infeasible => "infeasible",
            Self::NotKnown => "not known",
        }
    }
}

/// A premise of a theorem, checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PremiseCheck {
    /// Its name, kebab case.
    pub premise: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An answer with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The answer.
    #[serde(rename = "verdict")]
    pub answer: Answer,
    /// The theorem that guarantees the contract, or that comes nearest to it.
    pub theorem: Option<String>,
    /// What is guaranteed, the number that makes it infeasible, or the premises that fail.
    pub because: String,
    /// The smallest changes that would make the failing premises hold.
    pub change: Option<String>,
    /// The theorem's premises.
    pub premises: Vec<PremiseCheck>,
}

impl Verdict {
    /// Guaranteed without a theorem about others.
    pub(super) fn trivial(because: &str) -> Self {
        Self {
            answer: Answer::Guaranteed,
            theorem: None,
            because: because.into(),
            change: None,
            premises: Vec::new(),
        }
    }

    /// Infeasible by the number that `because` names.
    pub(super) fn infeasible(because: String, change: Option<String>) -> Self {
        Self { answer: Answer::Infeasible, theorem: None, because, change, premises: Vec::new() }
    }
}

/// Why a premise fails, and what would make it hold.
#[derive(Clone)]
pub(super) struct Unmet {
    pub(super) detail: String,
    pub(super) change: Option<String>,
}

impl Unmet {
    pub(super) fn new(detail: impl Into<String>, change: impl Into<String>) -> Self {
        Self { detail: detail.into(), change: Some(change.into()) }
    }
}

/// The premises of one theorem while they are checked.
#[derive(Clone)]
pub(super) struct Checks {
    theorem: String,
    premises: Vec<PremiseCheck>,
    unmet: Vec<Unmet>,
    /// Taken to hold, whatever it is: a test's canary.
    assumed: Option<&'static str>,
}

impl Checks {
    pub(super) fn new(theorem: impl Into<String>, assumed: Option<&'static str>) -> Self {
        let theorem = theorem.into();
        Self { theorem, premises: Vec::new(), unmet: Vec::new(), assumed }
    }

    /// One more premise, which holds if `unmet` is `None`.
    pub(super) fn add(&mut self, premise: &'static str, unmet: Option<Unmet>) {
        let unmet = unmet.filter(|_| self.assumed != Some(premise));
        let detail = unmet.as_ref().map(|unmet| unmet.detail.clone());
        self.premises.push(PremiseCheck { premise, holds: unmet.is_none(), detail });
        self.unmet.extend(unmet);
    }

    /// How many premises fail.
    pub(super) fn failing(&self) -> usize {
        self.unmet.len()
    }

    /// The verdict, `promise` being what the theorem guarantees.
    pub(super) fn verdict(self, promise: impl Into<String>) -> Verdict {
        let all = |part: &dyn Fn(&Unmet) -> Option<&str>, between: &str| {
            let parts: Vec<_> = self.unmet.iter().filter_map(part).collect();
            (!parts.is_empty()).then(|| parts.join(between))
        };
        let (answer, because, change) = match all(&|unmet| Some(&unmet.detail), "; ") {
            None => (Answer::Guaranteed, promise.into(), None),
            Some(because) => {
                (Answer::NotKnown, because, all(&|unmet| unmet.change.as_deref(), ", and "))
            }
        };
        let (theorem, premises) = (Some(self.theorem), self.premises);
        Verdict { answer, theorem, because, change, premises }
    }
}
