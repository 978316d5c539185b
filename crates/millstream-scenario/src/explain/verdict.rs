//! The verdict on a contract: one of three answers, each with its reason.
//!
//! | answer | reason |
//! |---|---|
//! | guaranteed | the theorem, with every premise checked |
//! | infeasible | the number that shows it |
//! | not known | the failing premises, each with the smallest change that makes it hold |

use serde::Serialize;

/// Whether a contract is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A theorem guarantees the contract, and its premises hold.
    Guaranteed,
    /// The contract cannot be kept while every stream uses what its own contract allows.
    Infeasible,
    /// No theorem applies.
    NotKnown,
}

impl Answer {
    /// Returns its name in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "guaranteed",
            Self::Infeasible => "infeasible",
            Self::NotKnown => "not known",
        }
    }
}

/// A checked premise of a theorem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PremiseCheck {
    /// The premise's name, in kebab case.
    pub premise: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// The reason why it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An answer with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The answer.
    #[serde(rename = "verdict")]
    pub answer: Answer,
    /// The theorem that guarantees the contract, or the one with the fewest failing premises.
    pub theorem: Option<String>,
    /// The guarantee, the number that makes it infeasible, or the failing premises.
    pub because: String,
    /// The smallest changes that make the failing premises hold.
    pub change: Option<String>,
    /// The theorem's premises.
    pub premises: Vec<PremiseCheck>,
}

impl Verdict {
    /// Returns a guarantee that needs no theorem.
    pub(super) fn trivial(because: &str) -> Self {
        Self {
            answer: Answer::Guaranteed,
            theorem: None,
            because: because.into(),
            change: None,
            premises: Vec::new(),
        }
    }

    /// Returns infeasibility by the number in `because`.
    pub(super) fn infeasible(because: String, change: Option<String>) -> Self {
        Self { answer: Answer::Infeasible, theorem: None, because, change, premises: Vec::new() }
    }
}

/// The reason why a premise fails, and the change that makes it hold.
#[derive(Clone)]
pub(super) struct FailedPremise {
    pub(super) detail: String,
    pub(super) change: Option<String>,
}

impl FailedPremise {
    pub(super) fn new(detail: impl Into<String>, change: impl Into<String>) -> Self {
        Self { detail: detail.into(), change: Some(change.into()) }
    }
}

/// The premises of one theorem while they are checked.
#[derive(Clone)]
pub(super) struct Checks {
    theorem: String,
    premises: Vec<PremiseCheck>,
    unmet: Vec<FailedPremise>,
    /// The premise that is not checked, for tests.
    assumed: Option<&'static str>,
}

impl Checks {
    pub(super) fn new(theorem: impl Into<String>, assumed: Option<&'static str>) -> Self {
        let theorem = theorem.into();
        Self { theorem, premises: Vec::new(), unmet: Vec::new(), assumed }
    }

    /// Adds a premise, which holds if `unmet` is `None`.
    pub(super) fn add(&mut self, premise: &'static str, unmet: Option<FailedPremise>) {
        let unmet = unmet.filter(|_| self.assumed != Some(premise));
        let detail = unmet.as_ref().map(|unmet| unmet.detail.clone());
        self.premises.push(PremiseCheck { premise, holds: unmet.is_none(), detail });
        self.unmet.extend(unmet);
    }

    /// Returns how many premises fail.
    pub(super) fn failing(&self) -> usize {
        self.unmet.len()
    }

    /// Returns the verdict; `promise` is the guarantee of the theorem.
    pub(super) fn verdict(self, promise: impl Into<String>) -> Verdict {
        let all = |part: &dyn Fn(&FailedPremise) -> Option<&str>, between: &str| {
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
