//! Messages between cluster servers cause no panic, no duplicate session and no miscount. Mutations
//! change the plaintext before encryption; some datagrams are sent unencrypted.

use millstream_media::fuzzing::{Part, cluster, cluster_parts};

use crate::{Mutation, Target, records};

pub(crate) const TARGET: Target = Target {
    name: "cluster",
    first_parser: "decryption, and a membership, status or sessions message",
    seeds,
    words: &[&[127, 0, 0, 1], &[127, 0, 0, 2, 9], &[0xff; 9], &[0x80, 0x80, 1], &[0; 8]],
    mutate,
    admits: None,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    cluster_parts().iter().map(|parts| records::join(parts)).collect()
}

fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    mutation.records(input, |mutation, part| {
        if part.is_empty() {
            *part = vec![Part::TIME, 30];
        } else if mutation.one_in(6) {
            part[0] ^= mutation.of(&[
                Part::SECOND,
                Part::SECOND,
                Part::STALE,
                Part::AGAIN,
                Part::AGAIN,
                Part::RAW,
            ]);
        } else {
            let kind = part.remove(0);
            mutation.bytes(part);
            part.insert(0, kind);
        }
    });
}

fn run(input: &[u8]) -> bool {
    cluster(&records::split(input))
}
