//! Validation of the UDP address at which a live source receives a transport stream.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use toml::Spanned;

use crate::error::Problem;
use crate::file::media::{AudioCodecName, CodecName};
use crate::file::{File, SourceTable};
use crate::source::{Source, UdpInput};
use crate::validate::media::address;

/// Checks that two streams do not receive at one address, by UDP or by SRT.
pub(in crate::validate) fn check_udp(file: &File, problems: &mut Vec<Problem>) {
    let mut seen: Vec<(SocketAddr, &str)> = Vec::new();
    for stream in file.stream.iter().map(Spanned::get_ref) {
        let Some(Source::Live(live)) = &stream.source.source else { continue };
        let udp = live.udp.as_ref().map(|udp| ("udp", udp.address));
        let srt = live.srt.as_ref().filter(|srt| !srt.is_caller);
        let srt = srt.map(|srt| ("srt", srt.address));
        let Some((key, own)) = udp.or(srt).filter(|(_, own)| own.port() != 0) else { continue };
        let name = stream.name.get_ref();
        match seen.iter().find(|(address, _)| *address == own) {
            Some((address, other)) => {
                let message = format!("`{other}` and `{name}` both have `{key}` {address}");
                let problem = Problem::new(stream.source.span.clone(), message);
                problems.push(problem.help("a transport stream belongs to one stream"));
            }
            None => seen.push((own, name)),
        }
    }
}

/// Reports `publish` if `key` receives from senders without user names.
pub(super) fn check_users(key: &str, help: &str, keys: &SourceTable, problems: &mut Vec<Problem>) {
    if let Some(publish) = &keys.publish {
        let message = format!("`publish` with `{key}`, whose senders have no user names");
        problems.push(Problem::new(publish.span(), message).help(help));
    }
}

/// Validates `udp` of a live source and the keys that belong to it.
pub(super) fn udp(keys: &SourceTable, problems: &mut Vec<Problem>) -> Option<UdpInput> {
    let Some(udp) = &keys.udp else {
        let others = [("udp-from", &keys.udp_from), ("udp-interface", &keys.udp_interface)];
        for (key, value) in others {
            if let Some(value) = value {
                let message = format!("`{key}` without `udp`");
                let help = "udp = \"127.0.0.1:5004\", an address that receives";
                problems.push(Problem::new(value.span(), message).help(help));
            }
        }
        return None;
    };
    check_codecs("udp", keys, problems);
    let address = address(Some(udp), problems)?;
    let interface = parsed(keys.udp_interface.as_ref(), "an IPv4 address", "192.0.2.7", problems);
    let is_group = address.is_ipv4() && address.ip().is_multicast();
    if let Some(text) = keys.udp_interface.as_ref().filter(|_| !is_group) {
        let message = format!("`udp-interface` with `udp` {address}");
        let help = "only an IPv4 group, 224.0.0.0/4, is joined by an interface of that address; \
                    for IPv6, append %NUMBER of the interface to the group";
        problems.push(Problem::new(text.span(), message).help(help));
    }
    let from = parsed::<IpAddr>(keys.udp_from.as_ref(), "an address", "192.0.2.9", problems);
    if let Some((text, from)) = keys.udp_from.as_ref().zip(from)
        && from.is_ipv4() != address.is_ipv4()
    {
        let message = format!("`udp-from` of {from} with `udp` {address}");
        let help = "both are IPv4, or both IPv6";
        problems.push(Problem::new(text.span(), message).help(help));
    }
    if from.is_none() {
        let help = "add udp-from = \"ADDRESS\", the only sender, or take `publish` out";
        check_users("udp", help, keys, problems);
    }
    Some(UdpInput { address, from, interface })
}

/// Checks the codecs of a source that receives transport streams by `key`, and that it has no
/// paths.
pub(super) fn check_codecs(key: &str, keys: &SourceTable, problems: &mut Vec<Problem>) {
    let has_not =
        |codec: &CodecName| matches!(codec, CodecName::Av1 | CodecName::Vp8 | CodecName::Vp9);
    if let Some(codec) = keys.codec.as_ref().filter(|codec| has_not(codec.get_ref())) {
        let message = format!("`{key}` with video that transport streams do not have");
        let help = format!("codec = \"h264\", \"h265\" or \"mpeg\", or take `{key}` out");
        problems.push(Problem::new(codec.span(), message).help(help));
    }
    let is_read =
        |audio: &AudioCodecName| matches!(audio, AudioCodecName::Aac | AudioCodecName::Mpeg);
    if let Some(audio) = keys.audio.as_ref().filter(|audio| !is_read(audio.get_ref())) {
        let message = format!("`{key}` with audio that is not read from transport streams");
        let help = format!("audio = \"aac\" or \"mpeg\", or take `{key}` or `audio` out");
        problems.push(Problem::new(audio.span(), message).help(help));
    }
    if let Some(paths) = &keys.paths {
        let problem = Problem::new(paths.span(), format!("`paths` with `{key}`"));
        problems.push(problem.help("a transport stream names no path; take one of the two out"));
    }
}

/// Parses the address in a key.
fn parsed<T: FromStr>(
    text: Option<&Spanned<String>>,
    what: &str,
    example: &str,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let text = text?;
    let found = text.get_ref().parse().ok();
    if found.is_none() {
        let message = format!("`{}` is not {what}", text.get_ref());
        let help = format!("for example \"{example}\"");
        problems.push(Problem::new(text.span(), message).help(help));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::*;
    use crate::Scenario;
    use std::net::Ipv4Addr;
    use std::path::Path;

    #[test]
    fn every_key_is_parsed() {
        let udp = |keys: &str| parse(&format!("rate = \"1 Mbit/s\", {keys}")).map(|live| live.udp);
        let expected = UdpInput {
            address: "239.1.2.3:5004".parse().unwrap(),
            from: Some("192.0.2.9".parse().unwrap()),
            interface: Some(Ipv4Addr::new(192, 0, 2, 7)),
        };
        let keys = "udp = \"239.1.2.3:5004\", udp-from = \"192.0.2.9\", \
                    udp-interface = \"192.0.2.7\", codec = \"h265\", audio = \"mpeg\"";
        assert_eq!(udp(keys), Ok(Some(expected)));
        let expected =
            UdpInput { address: "[ff02::1%2]:5004".parse().unwrap(), from: None, interface: None };
        assert_eq!(udp("udp = \"[ff02::1%2]:5004\""), Ok(Some(expected)));
        assert_eq!(udp("codec = \"h264\""), Ok(None));
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        for (source, parts) in [
            ("udp = \"5004\"", ["`5004` is not an address", "127.0.0.1:"]),
            ("udp-from = \"192.0.2.9\"", ["`udp-from` without `udp`", "udp = "]),
            ("udp-interface = \"192.0.2.9\"", ["`udp-interface` without", "udp = "]),
            ("udp = \"239.0.0.1:1\", udp-from = \"camera\"", ["`camera` is not", "192.0.2.9"]),
            ("udp = \"[::1]:1\", udp-from = \"10.0.0.1\"", ["10.0.0.1 with `udp` [::1]:1", "IPv6"]),
            ("udp = \"239.0.0.1:1\", udp-interface = \"eth0\"", ["`eth0` is not", "192.0.2.7"]),
            ("udp = \"10.0.0.1:1\", udp-interface = \"10.0.0.1\"", ["10.0.0.1:1", "224.0.0.0/4"]),
            ("udp = \"127.0.0.1:1\", codec = \"vp9\"", ["video that", "\"h265\""]),
            ("udp = \"127.0.0.1:1\", audio = \"opus\"", ["audio that", "\"mpeg\""]),
            ("udp = \"10.0.0.1:1\", publish = [\"a\"]", ["`publish` with `udp`", "udp-from"]),
            ("udp = \"127.0.0.1:1\", paths = 2", ["`paths` with `udp`", "names no path"]),
        ] {
            let error = parse(&format!("rate = \"1 Mbit/s\", {source}")).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
    }

    #[test]
    fn two_streams_do_not_share_an_address() {
        let of = |first: &str, second: &str| {
            let stream = |name: &str, keys: &str| {
                format!(
                    "[[stream]]\nname = \"{name}\"\nsource = {{ kind = \"live\", \
                     rate = \"1 Mbit/s\", {keys} }}\n"
                )
            };
            let text = format!(
                "[scenario]\nduration = \"1 s\"\n[link]\nrate = \"9 Mbit/s\"\n[scheduler]\n\
                 discipline = \"fifo\"\n{}{}",
                stream("a", first),
                stream("b", second)
            );
            Scenario::parse("a.toml", &text, Path::new("")).map(|_| ()).map_err(|error| {
                error.problems.iter().map(|problem| problem.message.clone()).collect::<String>()
            })
        };
        let udp = |port: u16| format!("udp = \"127.0.0.1:{port}\"");
        let srt = |mode| format!("srt = {{ address = \"127.0.0.1:5004\", mode = \"{mode}\" }}");
        let [listener, caller] = ["listener", "caller"].map(srt);
        assert_eq!(of(&udp(0), &udp(0)), Ok(()));
        assert_eq!(of(&udp(5_004), &udp(5_005)), Ok(()));
        assert_eq!(of(&caller, &caller), Ok(()));
        let both = |key| Err(format!("`a` and `b` both have `{key}` 127.0.0.1:5004"));
        assert_eq!(of(&udp(5_004), &udp(5_004)), both("udp"));
        assert_eq!(of(&listener, &listener), both("srt"));
        assert_eq!(of(&udp(5_004), &listener), both("srt"));
    }
}
