//! Mutators: small random changes to bytes, text, records and Ethernet frames.
//!
//! Each call makes one change. [`mutant`] makes several and asks the target's first parser whether
//! it accepts the result. If the target has such a check, about nine of ten mutants pass it; the
//! tenth runs unchecked.

use fastrand::Rng;
use std::sync::Arc;

use crate::{Target, records};

/// Boundary values.
const BOUNDARY_VALUES: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    63,
    127,
    128,
    255,
    256,
    1_500,
    65_535,
    65_536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 48,
    i64::MAX.cast_unsigned(),
    u64::MAX,
];

/// The maximum number of attempts at a mutant that the first parser accepts.
const ATTEMPTS: usize = 12;

/// One mutant in this many runs unchecked.
const UNCHECKED: u32 = 10;

/// The mutator of the driver (libFuzzer).
pub type Raw<'a> = dyn FnMut(&mut Vec<u8>) + 'a;

/// The random choices of one mutant.
pub struct Mutation {
    /// Random number generator.
    pub random: Rng,
    /// Tokens of the parser's grammar.
    pub words: &'static [&'static [u8]],
    /// Inputs to splice from.
    pub seeds: Arc<[Vec<u8>]>,
}

/// Returns a mutant of `input` of at most `most` bytes. `raw` is the driver's mutator, if it has
/// one. The result is a function of the arguments.
pub fn mutant(
    target: &Target,
    seeds: &Arc<[Vec<u8>]>,
    input: &[u8],
    random: u64,
    most: usize,
    mut raw: Option<&mut Raw<'_>>,
) -> Vec<u8> {
    let random = Rng::with_seed(random);
    let mut mutation = Mutation { random, words: target.words, seeds: Arc::clone(seeds) };
    let admits = |input: &[u8]| target.admits.is_none_or(|admits| admits(input));
    let mut from = input.to_vec();
    // A change to a rejected input rarely makes it valid.
    if (from.is_empty() || !admits(&from)) && mutation.one_in(2) || mutation.one_in(50) {
        from = mutation.seed();
    }
    let unchecked = mutation.one_in(UNCHECKED);
    let mut last = from.clone();
    for _ in 0..ATTEMPTS {
        last.clone_from(&from);
        for _ in 0..1 + mutation.below(4) {
            match &mut raw {
                Some(raw) if mutation.one_in(3) => raw(&mut last),
                _ => (target.mutate)(&mut mutation, &mut last),
            }
        }
        last.truncate(most);
        if unchecked || admits(&last) {
            break;
        }
    }
    last
}

impl Mutation {
    /// Returns a random number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.random.usize(..bound) }
    }

    /// Returns true with probability 1/`times`.
    pub fn one_in(&mut self, times: u32) -> bool {
        self.random.u32(..times) == 0
    }

    /// Returns a random element of `values`, which must not be empty.
    pub fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// Returns a boundary value or a random number.
    pub fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.random.u64(..) >> self.below(64),
            1 => self.of(&BOUNDARY_VALUES).wrapping_add(self.random.u64(..3)).wrapping_sub(1),
            2 => 1 << self.below(64),
            _ => self.of(&BOUNDARY_VALUES),
        }
    }

    /// Returns a random seed; empty if there are none.
    pub fn seed(&mut self) -> Vec<u8> {
        let at = self.below(self.seeds.len());
        self.seeds.get(at).cloned().unwrap_or_default()
    }

    /// Returns the start and end of a random range of `input`, at most `most` long.
    fn part(&mut self, input: &[u8], most: usize) -> (usize, usize) {
        let from = self.below(input.len());
        let length = 1 + self.below(most);
        (from, input.len().min(from + length))
    }

    /// Makes one change to bytes.
    pub fn bytes(&mut self, input: &mut Vec<u8>) {
        if input.is_empty() {
            return input.push(self.random.u8(..));
        }
        let at = self.below(input.len());
        match self.below(9) {
            0 => input[at] ^= 1 << self.below(8),
            1 => input[at] = self.random.u8(..),
            2 => input[at] = input[at].wrapping_add(self.random.u8(..35)).wrapping_sub(17),
            3 => self.write_number(input, at),
            4 => {
                let (from, to) = self.part(input, 8);
                input.drain(from..to);
            }
            5 => {
                let (from, to) = self.part(input, 32);
                let part = input[from..to].to_vec();
                input.splice(at..at, part);
            }
            6 => {
                let bytes: Vec<u8> = (0..1 + self.below(6)).map(|_| self.random.u8(..)).collect();
                input.splice(at..at, bytes);
            }
            7 if !self.words.is_empty() => {
                let word = self.of(self.words);
                let end = if self.random.bool() { at } else { input.len().min(at + word.len()) };
                input.splice(at..end, word.iter().copied());
            }
            _ => {
                let other = self.seed();
                if !other.is_empty() {
                    let (from, to) = self.part(&other, 64);
                    let end = input.len().min(at + (to - from));
                    input.splice(at..end, other[from..to].iter().copied());
                }
            }
        }
    }

    /// Overwrites 1, 2, 4 or 8 bytes at `at` with a number of random byte order.
    fn write_number(&mut self, input: &mut [u8], at: usize) {
        let number = self.number();
        let bytes = 1 << self.below(4);
        let little = number.to_le_bytes();
        let mut word = little[..bytes].to_vec();
        if self.random.bool() {
            word.reverse();
        }
        for (to, from) in input[at..].iter_mut().zip(word) {
            *to = from;
        }
    }

    /// Makes one change to text: a number, a word or a line, rarely its bytes.
    pub fn text(&mut self, input: &mut Vec<u8>) {
        match self.below(10) {
            0..=3 => self.digits(input),
            4 | 5 => self.line(input),
            6 | 7 => self.word(input),
            8 => {
                // Replaces a quoted string by another of the input.
                let quotes: Vec<usize> = positions(input, |byte| byte == b'"');
                if let [.., _] = quotes[..] {
                    let first = 2 * self.below(quotes.len() / 2);
                    let other = 2 * self.below(quotes.len() / 2);
                    if let (Some(&[from, to]), Some(&[begin, end])) =
                        (quotes.get(first..first + 2), quotes.get(other..other + 2))
                    {
                        let part = input[begin + 1..end].to_vec();
                        input.splice(from + 1..to, part);
                    }
                }
            }
            _ => self.bytes(input),
        }
    }

    /// Replaces a decimal number.
    fn digits(&mut self, input: &mut Vec<u8>) {
        let starts: Vec<usize> = (0..input.len())
            .filter(|at| input[*at].is_ascii_digit())
            .filter(|at| *at == 0 || !input[at - 1].is_ascii_digit())
            .collect();
        if starts.is_empty() {
            return self.bytes(input);
        }
        let at = self.of(&starts);
        let length = input[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = match self.below(5) {
            0 => self.number(),
            1 => self.random.u64(..1 << 32),
            _ => self.random.u64(..300),
        };
        input.splice(at..at + length, number.to_string().into_bytes());
    }

    /// Copies, moves or removes a line.
    fn line(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> =
            input.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if lines.is_empty() {
            return self.bytes(input);
        }
        let (from, to) = (self.below(lines.len()), self.below(lines.len()));
        match self.below(4) {
            0 => lines.insert(to, lines[from].clone()),
            1 => lines.swap(from, to),
            2 => {
                lines.remove(from);
            }
            _ => {
                let other = self.seed();
                let others: Vec<&[u8]> = other.split_inclusive(|byte| *byte == b'\n').collect();
                if !others.is_empty() {
                    lines.insert(to, self.of(&others).to_vec());
                }
            }
        }
        *input = lines.concat();
    }

    /// Replaces a run of letters by a token, or inserts one.
    fn word(&mut self, input: &mut Vec<u8>) {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let starts: Vec<usize> = positions(input, is_letter)
            .into_iter()
            .filter(|at| *at == 0 || !is_letter(input[at - 1]))
            .collect();
        if starts.is_empty() || self.words.is_empty() {
            return self.bytes(input);
        }
        let at = self.of(&starts);
        let length = input[at..].iter().take_while(|byte| is_letter(**byte)).count();
        let end = if self.one_in(6) { at } else { at + length };
        let word = self.of(self.words);
        input.splice(at..end, word.iter().copied());
    }

    /// Makes one change to an input of [`records`]: one record by `each`, or the list of records.
    pub fn records(&mut self, input: &mut Vec<u8>, each: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        let mut parts: Vec<Vec<u8>> =
            records::split(input).into_iter().map(<[u8]>::to_vec).collect();
        if parts.is_empty() {
            *input = self.seed();
            return;
        }
        let (from, to) = (self.below(parts.len()), self.below(parts.len()));
        match self.below(12) {
            0 => parts.insert(to, parts[from].clone()),
            1 => parts.swap(from, to),
            2 if parts.len() > 1 => {
                parts.remove(from);
            }
            3 => {
                let other = self.seed();
                let others = records::split(&other);
                if !others.is_empty() {
                    parts.insert(to, self.of(&others).to_vec());
                }
            }
            _ => each(self, &mut parts[from]),
        }
        *input = records::join(&parts);
    }

    /// Makes one change to an Ethernet frame. The IPv4 length and checksum are mostly fixed up.
    pub fn frame(&mut self, frame: &mut Vec<u8>) {
        // Mostly changes headers: payload bytes seldom matter.
        if self.one_in(3) || frame.len() < 60 {
            self.bytes(frame);
        } else {
            let mut head: Vec<u8> = frame.drain(..60).collect();
            self.bytes(&mut head);
            frame.splice(..0, head);
        }
        if !self.one_in(12) {
            fix_ipv4(frame, !self.one_in(4));
        }
    }
}

fn positions(input: &[u8], what: impl Fn(u8) -> bool) -> Vec<usize> {
    (0..input.len()).filter(|at| what(input[*at])).collect()
}

/// Fixes the checksum of an IPv4 frame (tagged or not), and its length if `length`.
fn fix_ipv4(frame: &mut [u8], length: bool) {
    let at = if frame.get(12..14) == Some(&[0x81, 0]) { 18 } else { 14 };
    if frame.get(at - 2..at) != Some(&[8, 0]) || frame.len() < at + 20 {
        return;
    }
    let total = u16::try_from(frame.len() - at).unwrap_or(u16::MAX);
    let ip = &mut frame[at..];
    if length && usize::from(u16::from_be_bytes([ip[2], ip[3]])) > usize::from(total) {
        ip[2..4].copy_from_slice(&total.to_be_bytes());
    }
    let header = usize::from(ip[0] & 15) * 4;
    let Some(header) = ip.get_mut(..header).filter(|header| header.len() >= 20) else { return };
    header[10..12].fill(0);
    let words = header.as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let [.., high, low] = (!(sum + (sum >> 16))).to_be_bytes();
    header[10..12].copy_from_slice(&[high, low]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_mutant() {
        let target = crate::target("csv");
        let seeds = (target.seeds)().into();
        let make = |random| mutant(target, &seeds, &seeds[0], random, 4_096, None);
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }

    #[test]
    fn the_checksum_of_a_changed_frame_is_fixed() {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 9, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]);
        fix_ipv4(&mut frame, true);
        let sum: u32 = frame[14..].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
