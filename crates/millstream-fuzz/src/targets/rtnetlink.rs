//! No rtnetlink messages make the router panic. The reported changes, applied in order, give the
//! tables that it holds.

use millstream_router::live;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "rtnetlink",
    first_parser: "a message about links, addresses, neighbours or routes",
    seeds,
    words: &[
        &[7, 0, 0, 0],
        &[8, 0, 0, 0],
        &[254, 0, 0, 0],
        &[2, 0],
        &[10, 0],
        &[10, 0, 0, 9],
        &[10, 2, 0, 0],
        &[0x20, 1, 0x0d, 0xb8],
        &[24],
        &[16],
        &[128],
    ],
    mutate,
    admits: None,
    run: |input| live::rtnetlink(input) > 0,
};

/// Bytes before each message, including its length.
const HEADER: usize = 16;

fn seeds() -> Vec<Vec<u8>> {
    let messages = live::rtnetlink_messages();
    let mut seeds = vec![messages.concat()];
    seeds.extend(messages);
    seeds
}

/// Returns the valid messages of an input.
fn split(input: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut rest = input;
    while let Some(length) = rest.first_chunk::<4>() {
        let length = u32::from_ne_bytes(*length) as usize;
        let Some(message) = rest.get(..length).filter(|_| length >= HEADER) else { break };
        messages.push(message.to_vec());
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    messages
}

/// Returns the offset of a message's attributes, by its type.
fn attributes_from(message: &[u8]) -> usize {
    match message.get(4) {
        Some(16 | 17) => HEADER + 16,
        Some(20 | 21) => HEADER + 8,
        _ => HEADER + 12,
    }
}

/// Changes one message, or the list of messages; message and attribute lengths stay valid.
fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    let mut messages = split(input);
    if messages.is_empty() {
        *input = mutation.seed();
        return;
    }
    if mutation.one_in(16) {
        return mutation.bytes(input);
    }
    let (from, to) = (mutation.below(messages.len()), mutation.below(messages.len()));
    match mutation.below(8) {
        0 => messages.insert(to, messages[from].clone()),
        1 => messages.swap(from, to),
        2 => {
            let others = split(&mutation.seed());
            if !others.is_empty() {
                messages.insert(to, mutation.of(&others));
            }
        }
        _ => message(mutation, &mut messages[from]),
    }
    input.clear();
    for mut message in messages {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        message[..4].copy_from_slice(&length.to_ne_bytes());
        input.extend(&message);
        input.resize(input.len().next_multiple_of(4), 0);
    }
}

/// Changes a message's header or one of its attributes.
fn message(mutation: &mut Mutation, message: &mut Vec<u8>) {
    let begin = attributes_from(message).min(message.len());
    if mutation.one_in(3) {
        let mut head: Vec<u8> = message[4..begin].to_vec();
        let length = head.len();
        mutation.bytes(&mut head);
        head.resize(length, 0);
        message[4..begin].copy_from_slice(&head);
        return;
    }
    let mut rest = &message[begin..];
    let mut attributes = Vec::new();
    while let Some(head) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]])).clamp(4, rest.len());
        attributes.push(rest[2..length].to_vec());
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    if attributes.is_empty() {
        attributes.push(vec![1, 0]);
    }
    let (from, to) = (mutation.below(attributes.len()), mutation.below(attributes.len()));
    match mutation.below(8) {
        0 => attributes.insert(to, attributes[from].clone()),
        1 => {
            attributes.remove(from);
        }
        2 => attributes[from][0] = mutation.random.u8(..32),
        _ => mutation.bytes(&mut attributes[from]),
    }
    message.truncate(begin);
    for attribute in attributes {
        let length = u16::try_from(attribute.len() + 2).unwrap_or(u16::MAX);
        message.extend(length.to_ne_bytes());
        message.extend(attribute);
        message.resize(message.len().next_multiple_of(4), 0);
    }
}
