//! No shared memory of a dead data plane makes its successor panic or loop: it rejects the memory
//! or resumes.

use millstream_media::fuzzing::{Edit, takeover};

use crate::{Mutation, Target, records};

pub(crate) const TARGET: Target = Target {
    name: "takeover",
    first_parser: "the headers of region, store, rings and frame cache",
    seeds,
    words: &[],
    mutate,
    admits: None,
    run,
};

/// Start time of the data plane, ns; times near it are boundary values.
const BEGIN_NS: u64 = 1 << 50;

fn edit(part: u8, at: u16, value: u64) -> Vec<u8> {
    Edit { part, at, value }.bytes()
}

/// Returns the memory of a dead data plane, unchanged and with an edit of each part.
fn seeds() -> Vec<Vec<u8>> {
    let one = |part, at, value| records::join(&[edit(part, at, value)]);
    vec![
        records::join(&[edit(1, 0, 1)]),
        records::join(&[edit(1, 2, 0), edit(3, 400, 7), edit(4, 40, 9), edit(9, 2, 3)]),
        one(0, 2, 1_000),
        one(2, 33, 5),
        one(5, 3, 6),
        one(6, 100, 1),
        one(7, 0, 1 << 20),
    ]
}

/// Changes one edit, or the list of edits.
fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    if mutation.one_in(3) {
        let added = any(mutation);
        input.extend(records::join(&[added]));
        return;
    }
    mutation.records(input, |mutation, bytes| {
        let Some(mut edit) = Edit::read(bytes).filter(|_| !mutation.one_in(4)) else {
            *bytes = any(mutation);
            return;
        };
        match mutation.below(3) {
            0 => edit.at = mutation.random.u16(..),
            1 => edit.value = edit.value.wrapping_add(mutation.random.u64(..5)).wrapping_sub(2),
            _ => edit.value = value(mutation),
        }
        *bytes = edit.bytes();
    });
}

/// Returns a random edit; most change sessions, few change headers, which are rejected.
fn any(mutation: &mut Mutation) -> Vec<u8> {
    let part = mutation.of(&[0, 1, 1, 1, 1, 1, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let at = match part {
        // Mostly skips the magic number and the session count.
        0 if !mutation.one_in(20) => 2 + mutation.random.u16(..30),
        // The used words of a row.
        1 => 96 * mutation.random.u16(..7) + mutation.random.u16(..68),
        3 if !mutation.one_in(20) => 10 + mutation.random.u16(..2_000),
        4 if !mutation.one_in(20) => 16 + mutation.random.u16(..2_000),
        _ => mutation.random.u16(..),
    };
    // Lengths that are rejected test one comparison each.
    let part = if part == 7 && !mutation.one_in(4) { 1 } else { part };
    let value = value(mutation);
    edit(part, at, value)
}

fn value(mutation: &mut Mutation) -> u64 {
    match mutation.below(4) {
        0 => mutation.random.u64(..6),
        1 => BEGIN_NS.wrapping_add(mutation.number() & 0xffff_ffff).wrapping_sub(1 << 31),
        _ => mutation.number(),
    }
}

fn run(input: &[u8]) -> bool {
    let edits: Vec<Edit> = records::split(input).into_iter().filter_map(Edit::read).collect();
    takeover(&edits)
}
