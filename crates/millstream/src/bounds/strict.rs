//! Shares of a class's service that hold from any instant, so that they compose in a tree.
//!
//! A child that is backlogged while its class gives W bytes of service gets at least f·(W − E) of
//! them, from whatever instant W is counted. Then a class that gets r·(t − θ) in any time t, while
//! it is backlogged, gives the child f·r·(t − θ − E/r). L_j, Q_j, φ_j are the children's greatest
//! lengths, quanta and weights, i the child.
//!
//! ```text
//!         f          E
//! WF²Q+   φ/Σφ       (ΣL + L_i)/f
//! SFQ     φ/Σφ       ΣL + max L + 2·L_i/f
//! DRR     Q/(Q + G)  max L + Σ_{j≠i} L_j + G·(1 + 2·L_i/Q) + L_i/f      G = Σ_{j≠i} (Q_j + e_j)
//! ```
//!
//! The head of a child that is a class has an estimated length, so no proof uses finish tags or
//! exact deficits. Service is charged when it starts, so one packet of the child may have been
//! charged and not yet been sent.
//!
//! **WF²Q+.** Let S_j of a child without packets be max(F, V). Then Σφ_j·(S_j − V) ≥ 0 always: a
//! service of ℓ bytes adds ℓ, and in its time V·Σφ grows by ℓ; where V leaps to the least S, all
//! terms are at least 0. A served packet has S ≤ V, so φ_j·(S_j − V) ≤ L_j. Hence φ_i·(S_i − V) is
//! between −Σ_{j≠i} L_j and L_i, for any order of the eligible packets.
//!
//! **SFQ.** v is the start tag in service, the least of all. So v ≤ S_i ≤ v + L_i/φ_i, and another
//! child gets at most φ_j·Δv + L_j.
//!
//! **DRR.** While the child has n whole turns, another has at most n + 1, of Q_j bytes and what it
//! had saved. A class may exceed its deficit by a packet that is longer than the estimate, and
//! forget that when it empties: e_j = L_j for classes, 0 for streams.
//!
//! Source: the proofs above; the form is that of worst-case fair indices, Bennett and Zhang 1997.

use super::Bounds;

/// A share of a class's service, from any instant while the child is backlogged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrictShare {
    /// f as a fraction; the denominator is not 0.
    pub share: (u128, u128),
    /// E, bytes of the class's service, rounded up.
    pub behind_bytes: u128,
}

/// Returns the lengths of all children on the wire: their sum and their maximum.
fn lengths(bounds: &Bounds<'_>) -> (u128, u128) {
    let lengths = bounds.streams.iter().map(|of| bounds.wire(of.largest_bytes));
    (lengths.clone().sum(), lengths.max().unwrap_or(0))
}

/// Returns the share of `child` by weights and the bytes of the class that carry `own` bytes of it,
/// if it has a share.
fn by_weight(bounds: &Bounds<'_>, child: usize, own: u128) -> Option<((u128, u128), u128)> {
    let weight = u128::from(bounds.streams.get(child)?.weight);
    let weights: u128 = bounds.streams.iter().map(|of| u128::from(of.weight)).sum();
    (weight > 0).then(|| ((weight, weights), (own * weights).div_ceil(weight)))
}

/// Returns the share under WF²Q+; `None` if its clock gains on the link.
pub(crate) fn wf2q_plus(bounds: &Bounds<'_>, child: usize) -> Option<StrictShare> {
    let exact = bounds.effective() == bounds.rate();
    let own = bounds.wire(bounds.streams.get(child)?.largest_bytes);
    // A byte for what rounding tags loses in 2⁴⁰/Σφ packets.
    let (share, behind_bytes) = by_weight(bounds, child, lengths(bounds).0 + own + 1)?;
    exact.then_some(StrictShare { share, behind_bytes })
}

/// Returns the share under SFQ.
pub(crate) fn start_time(bounds: &Bounds<'_>, child: usize) -> Option<StrictShare> {
    let own = bounds.wire(bounds.streams.get(child)?.largest_bytes);
    let (all, longest) = lengths(bounds);
    let (share, own) = by_weight(bounds, child, 2 * own + 1)?;
    Some(StrictShare { share, behind_bytes: all + longest + own })
}

/// Returns the share under DRR.
pub(crate) fn deficit(bounds: &Bounds<'_>, child: usize) -> Option<StrictShare> {
    let of = bounds.streams.get(child)?;
    let (quantum, own) = (u128::from(of.quantum_bytes), bounds.wire(of.largest_bytes));
    if quantum == 0 {
        return None;
    }
    let (all, longest) = lengths(bounds);
    let mut others = 0;
    for (_, other) in bounds.others(child) {
        let exceeded = if other.is_class { bounds.wire(other.largest_bytes) } else { 0 };
        others += u128::from(other.quantum_bytes) + exceeded;
    }
    let turns = others + (2 * own * others).div_ceil(quantum);
    let whole = quantum + others;
    Some(StrictShare {
        share: (quantum, whole),
        behind_bytes: longest + (all - own) + turns + (own * whole).div_ceil(quantum),
    })
}
