//! A stream's current window-constraint x'/y' and the two rules that change it.
//!
//! Rule A applies when a head is served, rule B when a request period ends while the head waits
//! (algorithms.md, section 1). Neither changes a stream of window-constraint 0/0.

use crate::model::StreamSpec;
use crate::mutant::Mutant;

/// x, y, x', y' and the tag.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// x and y as configured.
    given: (u64, u64),
    /// x'.
    pub x: u64,
    /// y'.
    pub y: u64,
    tag: bool,
}

impl Window {
    /// Returns the stream's initial window-constraint.
    #[must_use]
    pub fn new(spec: &StreamSpec) -> Self {
        let (x, y) = (u64::from(spec.window.0), u64::from(spec.window.1));
        Self { given: (x, y), x, y, tag: false }
    }

    /// Restores x/y. Only rule A clears the tag.
    pub fn reset(&mut self) {
        (self.x, self.y) = self.given;
    }

    /// Applies rule A: the head is served before its deadline.
    pub fn served(&mut self, rtas99: bool, mutant: Option<Mutant>) {
        let is = |fault| mutant == Some(fault);
        if is(Mutant::NoRuleA) {
            return;
        }
        let equal_branch = if rtas99 {
            is(Mutant::Rtas99EqualBranch)
        } else {
            !is(Mutant::RuleAWithoutEqualBranch)
        };
        if self.y > self.x {
            self.y -= 1;
        } else if equal_branch && self.y == self.x && self.x > 0 {
            self.x -= 1;
            self.y -= 1;
        }
        // Only the standard rules set the tag.
        if (self.x == 0 && self.y == 0) || (self.tag && !is(Mutant::RuleAKeepsTag)) {
            self.reset();
            self.tag = false;
        }
    }

    /// Applies rule B: a request period ended while the head waited. Returns whether this is a
    /// violation.
    pub fn missed(&mut self, rtas99: bool, mutant: Option<Mutant>) -> bool {
        let is = |fault| mutant == Some(fault);
        let (x, y) = self.given;
        let violated = self.x == 0 && y > 0;
        if is(Mutant::NoRuleB) {
            return violated;
        }
        if self.x > 0 {
            self.x -= 1;
            self.y -= 1;
            if self.x == 0 && self.y == 0 && !is(Mutant::RuleBWithoutReset) {
                self.reset();
            }
        } else if violated {
            let growth = match (rtas99, x) {
                (true, 0) if is(Mutant::Rtas99GrowsByOneWithoutLosses) => 1,
                (true, 0) => y,
                (true, _) if is(Mutant::Rtas99GrowthRoundedDown) => (y - x) / x,
                (true, _) => (y - x).div_ceil(x),
                (false, _) => 1,
            };
            self.y += if is(Mutant::RuleBWithoutGrowth) { 0 } else { growth };
            self.tag = if rtas99 { is(Mutant::Rtas99Tags) } else { !is(Mutant::RuleBWithoutTag) };
        }
        violated
    }
}
