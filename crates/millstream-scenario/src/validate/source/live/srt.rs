//! Validation of the SRT connection that brings a live source's transport stream.

use std::ops::RangeInclusive;
use toml::Spanned;

use super::udp::{check_codecs, check_users};
use crate::error::Problem;
use crate::file::SourceTable;
use crate::file::media::{SrtModeName, SrtTable};
use crate::source::SrtInput;
use crate::units::Duration;
use crate::validate::media::address;

/// The range of `latency`, and its default, ms.
const LATENCIES_MS: RangeInclusive<u64> = 20..=10_000;
const LATENCY_MS: u64 = 120;

/// The longest stream id (SRT: `SRTO_STREAMID`), bytes.
const MAX_STREAMID: usize = 512;

/// Validates `srt` of a live source.
pub(super) fn srt(keys: &SourceTable, problems: &mut Vec<Problem>) -> Option<SrtInput> {
    let spanned = keys.srt.as_ref()?;
    check_codecs("srt", keys, problems);
    let others = [("udp", keys.udp.is_some()), ("on-demand", keys.on_demand.is_some())];
    for (key, _) in others.into_iter().filter(|(_, is_given)| *is_given) {
        let problem = Problem::new(spanned.span(), format!("`srt` with `{key}`"));
        problems.push(problem.help("a stream has one of them; take the other out"));
    }
    let SrtTable { address: to, mode, latency, passphrase, streamid } = spanned.get_ref();
    let is_caller = matches!(mode, Some(SrtModeName::Caller));
    if !is_caller && passphrase.is_none() {
        let help = "add passphrase = \"FILE\" to `srt`, or take `publish` out";
        check_users("srt", help, keys, problems);
    }
    let latency_ms = latency.as_ref().map_or(LATENCY_MS, |latency| {
        let Duration(time_ns) = *latency.get_ref();
        let latency_ms = time_ns / 1_000_000;
        if !LATENCIES_MS.contains(&latency_ms) {
            let message = format!("a `latency` of {latency_ms} ms");
            let problem = Problem::new(latency.span(), message);
            problems.push(problem.help("from \"20 ms\" to \"10 s\""));
        }
        latency_ms
    });
    if let Some(streamid) = streamid {
        check_streamid(streamid, is_caller, problems);
    }
    let address = address(Some(to), problems)?;
    if address.port() == 0 || address.ip().is_multicast() {
        let message = format!("`address` of {address}");
        let help = "SRT needs a port and an address of one machine, for example 0.0.0.0:8890";
        problems.push(Problem::new(to.span(), message).help(help));
    }
    Some(SrtInput {
        address,
        is_caller,
        latency_ms,
        passphrase: passphrase.as_ref().map(Into::into),
        streamid: streamid.as_ref().map(|streamid| streamid.get_ref().clone()),
    })
}

fn check_streamid(streamid: &Spanned<String>, is_caller: bool, problems: &mut Vec<Problem>) {
    let text = streamid.get_ref();
    let may = |letter: char| letter.is_ascii_alphanumeric() || "-._~:,/!".contains(letter);
    if !is_caller {
        let problem = Problem::new(streamid.span(), "`streamid` of a listener");
        problems.push(problem.help("only a caller sends it: mode = \"caller\""));
    } else if text.is_empty() || text.len() > MAX_STREAMID || !text.chars().all(may) {
        let message = format!("`streamid` of {text:?}");
        let help = format!("1 to {MAX_STREAMID} letters, digits and -._~:,/!");
        problems.push(Problem::new(streamid.span(), message).help(help));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::*;

    fn srt(keys: &str) -> Result<Option<SrtInput>, String> {
        parse(&format!("rate = \"1 Mbit/s\", srt = {{ {keys} }}")).map(|live| live.srt)
    }

    #[test]
    fn an_address_suffices_and_every_key_is_parsed() {
        let least = SrtInput {
            address: "0.0.0.0:8890".parse().unwrap(),
            is_caller: false,
            latency_ms: 120,
            passphrase: None,
            streamid: None,
        };
        assert_eq!(srt("address = \"0.0.0.0:8890\""), Ok(Some(least.clone())));
        let most = SrtInput {
            is_caller: true,
            latency_ms: 20,
            passphrase: Some("secret".into()),
            streamid: Some("publish:cam".to_owned()),
            ..least
        };
        let keys = "address = \"0.0.0.0:8890\", mode = \"caller\", latency = \"20 ms\", \
                    passphrase = \"secret\", streamid = \"publish:cam\"";
        assert_eq!(srt(keys), Ok(Some(most)));
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        let more = |keys: &str| format!("address = \"10.0.0.1:1\", {keys}");
        for (keys, parts) in [
            ("address = \"8890\"".to_owned(), ["`8890` is not an address", "127.0.0.1:"]),
            ("address = \"10.0.0.1:0\"".to_owned(), ["10.0.0.1:0", "needs a port"]),
            ("address = \"239.0.0.1:1\"".to_owned(), ["239.0.0.1:1", "one machine"]),
            (more("latency = \"11 s\""), ["11000 ms", "to \"10 s\""]),
            (more("streamid = \"a\""), ["of a listener", "caller"]),
            (more("mode = \"caller\", streamid = \"a b\""), ["\"a b\"", "512 letters"]),
            (more("mode = \"rendezvous\""), ["rendezvous", "listener"]),
            (more("pbkeylen = 32"), ["pbkeylen", "passphrase"]),
        ] {
            let error = srt(&keys).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
        let source = "rate = \"1 Mbit/s\", srt = { address = \"10.0.0.1:1\" }";
        for (keys, part) in [
            ("udp = \"10.0.0.1:1\"", "`srt` with `udp`"),
            ("on-demand = [\"a\"]", "`srt` with `on-demand`"),
            ("paths = 2", "`paths` with `srt`"),
            ("publish = [\"a\"]", "`publish` with `srt`"),
            ("codec = \"av1\"", "`srt` with video that"),
        ] {
            let error = parse(&format!("{source}, {keys}")).unwrap_err();
            assert!(error.contains(part), "{error:?} lacks {part:?}");
        }
    }
}
