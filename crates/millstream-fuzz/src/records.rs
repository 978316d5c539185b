//! Splits an input into length-prefixed records.
//!
//! ```text
//! length (2, little-endian) | bytes | length | bytes …
//! ```
//! Every byte string is valid: a length beyond the end is truncated.

/// Returns the records of an input.
#[must_use]
pub fn split(input: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = input;
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(more.len());
        let (part, more) = more.split_at(length);
        parts.push(part);
        rest = more;
    }
    parts
}

/// Joins records into an input; each is truncated to 65,535 bytes.
#[must_use]
pub fn join<P: AsRef<[u8]>>(parts: &[P]) -> Vec<u8> {
    let mut input = Vec::new();
    for part in parts {
        let part = part.as_ref();
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        input.extend_from_slice(&length.to_le_bytes());
        input.extend_from_slice(&part[..usize::from(length)]);
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_inverts_join() {
        let parts: [&[u8]; 3] = [b"ab", b"", b"cde"];
        assert_eq!(split(&join(&parts)), parts);
        assert_eq!(split(&[9, 0, 1, 2]), [&[1, 2][..]]);
        assert!(split(&[7]).is_empty());
    }
}
