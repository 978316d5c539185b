//! Datagrams between servers, encrypted and authenticated with the shared secret.
//!
//! ```text
//! run: began, random | counter | encrypted: [kind | run of the recipient | payload], tag
//! └──────── nonce ─────────────┘            authenticated too: both addresses
//! ```
//! A nonce is never used twice: a run is one start of a server, and its counter numbers the
//! datagrams. A recipient accepts a datagram only if its nonce is above all earlier ones from that
//! address. A datagram changes sessions only if it names the recipient's current run. So a recorded
//! datagram is useless, both now and after a restart.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use millstream_sync::clock::system::wall_ns;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, SocketAddr};

/// The longest payload, bytes: the datagram fits into one Ethernet packet.
pub(super) const PAYLOAD: usize = 1_200;

/// The size of the receive buffer, bytes.
pub(super) const DATAGRAM: usize = 2_048;

/// The shortest secret, bytes.
pub(super) const SECRET: usize = 32;

const NONCE: usize = 24;

/// One start of a server: its time by the server's own clock, ns, and an unpredictable number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) began_ns: u64,
    pub(super) random: u64,
}

/// The kind of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// A message of the membership protocol.
    Membership,
    /// A server's status.
    Status,
    /// A server's sessions.
    Sessions,
}

/// A decrypted datagram.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) run: Run,
    pub(super) counter: u64,
    pub(super) kind: Kind,
    /// The recipient's run as the sender knows it.
    pub(super) of: Run,
    pub(super) payload: Vec<u8>,
}

/// The encryption state of this server.
pub(super) struct Seal {
    cipher: XChaCha20Poly1305,
    me: SocketAddr,
    pub(super) run: Run,
    counter: u64,
}

impl Seal {
    /// Creates the state of the server at `me`; `random` is the random part of its run.
    pub(super) fn new(secret: &[u8], me: SocketAddr, random: u64) -> Self {
        let key: [u8; 32] = Sha256::digest([b"millstream cluster 1:", secret].concat()).into();
        let cipher = XChaCha20Poly1305::new(&Key::from(key));
        Self { cipher, me, run: Run { began_ns: wall_ns(), random }, counter: 0 }
    }

    /// Encrypts a datagram for the server at `to`; `of` is its last known run.
    pub(super) fn seal(&mut self, to: SocketAddr, kind: Kind, of: Run, payload: &[u8]) -> Vec<u8> {
        self.counter += 1;
        let mut datagram = Vec::with_capacity(NONCE + payload.len() + 64);
        for word in [self.run.began_ns, self.run.random, self.counter] {
            datagram.extend_from_slice(&word.to_le_bytes());
        }
        let mut head = [0; 64];
        // The buffer holds a kind and two numbers.
        let Ok(head) = postcard::to_slice(&(kind, of), &mut head) else { return Vec::new() };
        let plain = [&*head, payload].concat();
        let about = about(self.me, to);
        let Some(nonce) = nonce(&datagram) else { return Vec::new() };
        let sealed = self.cipher.encrypt(&nonce, Payload { msg: &plain, aad: &about });
        datagram.extend(sealed.unwrap_or_default());
        datagram
    }

    /// Decrypts a datagram from `from`. `None`: it is not authentic for this pair of addresses.
    pub(super) fn open(&self, from: SocketAddr, datagram: &[u8]) -> Option<Opened> {
        let nonce = nonce(datagram)?;
        let word = |at: usize| Some(u64::from_le_bytes(datagram.get(at..at + 8)?.try_into().ok()?));
        let (run, counter) = (Run { began_ns: word(0)?, random: word(8)? }, word(16)?);
        let about = about(from, self.me);
        let sealed = Payload { msg: &datagram[NONCE..], aad: &about };
        let plain = self.cipher.decrypt(&nonce, sealed).ok()?;
        let ((kind, of), payload) = postcard::take_from_bytes(&plain).ok()?;
        Some(Opened { run, counter, kind, of, payload: payload.to_vec() })
    }
}

fn nonce(datagram: &[u8]) -> Option<XNonce> {
    let bytes: [u8; NONCE] = datagram.get(..NONCE)?.try_into().ok()?;
    Some(bytes.into())
}

/// Returns both addresses as bytes.
fn about(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let bytes = |address: SocketAddr| {
        let ip = match address.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        [&ip.octets()[..], &address.port().to_le_bytes()].concat()
    };
    [bytes(from), bytes(to)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn two() -> (SocketAddr, SocketAddr, Seal, Seal) {
        let [a, b] = ["10.0.0.1:7", "10.0.0.2:7"].map(|text| text.parse().unwrap());
        (a, b, Seal::new(SECRET, a, 1), Seal::new(SECRET, b, 2))
    }

    #[test]
    fn a_datagram_opens_only_at_its_recipient() {
        let (a, b, mut one, two) = two();
        let of = Run { began_ns: 5, random: 6 };
        let sealed = one.seal(b, Kind::Status, of, b"payload");
        let opened = two.open(a, &sealed).unwrap();
        assert_eq!((opened.run, opened.counter, opened.of), (one.run, 1, of));
        assert_eq!((opened.kind, &opened.payload[..]), (Kind::Status, &b"payload"[..]));
        // Wrong sender, wrong recipient, wrong secret.
        assert_eq!(two.open(b, &sealed), None);
        assert_eq!(one.open(a, &sealed), None);
        assert_eq!(Seal::new(&[7; 32], b, 2).open(a, &sealed), None);
        assert_eq!(two.open(a, &one.seal(b, Kind::Status, of, b"payload")).unwrap().counter, 2);
    }

    #[test]
    fn changed_or_truncated_datagrams_are_rejected() {
        let (a, b, mut one, two) = two();
        let sealed = one.seal(b, Kind::Sessions, Run::default(), b"payload");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(two.open(a, &changed), None, "byte {at}");
            assert_eq!(two.open(a, &sealed[..at]), None, "{at} bytes");
        }
    }
}
