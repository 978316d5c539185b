//! Virtual deadline scheduling: windows with equal or different request periods.
//!
//! ```text
//! virtual deadline  Vd = start of the period + T·k'/m'        least Vd first
//! ```
//!
//! with m' and k' of [`Windowed`]. For unit jobs every window is kept if Σ m·C/(y·T) ≤ 1 and every
//! stream requires all, one or none of its requests. [`Bounds::vds`](crate::bounds::Bounds::vds)
//! covers other windows. Source: Zhang, West and Qi 2004.

use core::cmp::Ordering;

use super::windowed::{Owed, OwedOrder, Windowed};
use crate::bounds::{DeadlineGuarantee, Guarantee, Theorem};
use crate::catalogue::DisciplineRow;

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "vds",
    summary: "virtual deadline scheduling: x-of-y windows where periods differ",
    needs: &["period"],
    uses: &["window", "late"],
    guarantee: Guarantee::Deadlines(DeadlineGuarantee {
        theorems: &[Theorem::UnitJobs],
        every_request: false,
        settings: None,
    }),
    build: |options, structure, form| structure.join_expiring(form, options, Vds::default()),
    ..DisciplineRow::DEFAULT
};

/// Virtual deadline scheduling.
pub type Vds = Windowed<VirtualDeadline>;

/// The virtual deadline.
#[derive(Clone, Copy, Debug)]
pub struct VirtualDeadline(Owed);

impl OwedOrder for VirtualDeadline {
    #[inline]
    fn of(owed: &Owed) -> Self {
        Self(*owed)
    }
}

impl Ord for VirtualDeadline {
    /// Compares whole nanoseconds, then the remainders' cross products.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = |Self(owed): &Self| {
            let services = i128::from(owed.services);
            // Vd = end + T·(k' − m')/m', where k' < m' once a violation is certain.
            let offset = i128::from(owed.period_ns) * (i128::from(owed.periods) - services);
            (
                i128::from(owed.end_ns) + offset.div_euclid(services),
                offset.rem_euclid(services),
                services,
            )
        };
        let (whole, rest, services) = parts(self);
        let (other_whole, other_rest, other_services) = parts(other);
        whole.cmp(&other_whole).then_with(|| (rest * other_services).cmp(&(other_rest * services)))
    }
}

impl PartialOrd for VirtualDeadline {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for VirtualDeadline {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for VirtualDeadline {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Window;

    /// Returns the virtual deadline Vd = `end_ns` + T·(k' − m')/m', ns.
    fn deadline(end_ns: u64, period_ns: u64, services: u32, periods: u32) -> VirtualDeadline {
        let window = Window::default();
        VirtualDeadline::of(&Owed { end_ns, period_ns, window, services, periods })
    }

    #[test]
    fn fractions_of_a_nanosecond_are_compared() {
        // 10 + 1/3, 10 + 1/2, 10 + 2/3 and 11.
        let ascending = [
            deadline(10, 1, 3, 4),
            deadline(10, 1, 2, 3),
            deadline(10, 1, 3, 5),
            deadline(11, 1, 5, 5),
        ];
        for (at, one) in ascending.iter().enumerate() {
            for (other_at, other) in ascending.iter().enumerate() {
                assert_eq!(one.cmp(other), at.cmp(&other_at));
                assert_eq!(one.partial_cmp(other), Some(at.cmp(&other_at)));
                assert_eq!(one == other, at == other_at);
            }
        }
        // 20 + 30·1/2 = 35 = 25 + 10·2/2.
        assert_eq!(deadline(20, 30, 2, 3), deadline(25, 10, 2, 4));
        // 12 − 5/2 = 9 + 1/2, of a violation that is certain.
        assert_eq!(deadline(12, 5, 2, 1), deadline(9, 1, 2, 3));
        assert!(deadline(12, 5, 3, 1) < deadline(9, 1, 2, 2), "12 − 10/3 before 9");
    }
}
