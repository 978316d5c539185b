//! Transport streams by SRT (draft-sharabayko-srt): a program of Haivision's libsrt has the
//! connection.
//!
//! ```text
//! sender ── SRT ──> srt-live-transmit ── UDP, loopback ──> TransportReceiver of the stream
//!                   started, and started again, by the runner of hooks
//! ```
//! No Rust library of SRT is kept as well as libsrt. The program runs outside of the confined
//! server, so the server does not parse SRT. The program parses packets from a network, so it has
//! no capabilities. If the server runs as root, the program runs as `nobody`. It serves one sender
//! at a time.

use millstream_scenario::SrtInput;
use std::net::SocketAddr;
use std::path::Path;

use crate::MediaError;
use crate::live::publishing::LiveSpec;
use crate::rtsp::access::secret_file;

/// The program, of the Debian package `srt-tools`.
pub(crate) const PROGRAM: &str = "srt-live-transmit";

/// The program that drops privileges before it runs `PROGRAM`, of the Debian package `util-linux`,
/// and its arguments. `--pdeathsig`: the kernel kills `PROGRAM` when the runner of hooks ends.
const DROP: &str = "setpriv";
const DROPPED: [&str; 5] =
    ["--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--pdeathsig", "KILL"];

/// More arguments if the server runs as root: they empty the bounding set of capabilities, and set
/// user and group to `nobody`.
const DROPPED_OF_ROOT: [&str; 4] =
    ["--bounding-set=-all", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// The lengths of a passphrase (SRT: `SRTO_PASSPHRASE`), bytes.
const PASSPHRASE: std::ops::RangeInclusive<usize> = 10..=79;

/// A program that receives a transport stream by SRT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SrtCommand {
    /// What messages about it call it.
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
}

/// Returns the command that receives the transport stream of a live stream by SRT and sends it to
/// `to`. `folder` is the base of the passphrase's file.
///
/// # Errors
/// Fails if a program is not installed or the passphrase cannot be used.
pub(crate) fn command(
    spec: &LiveSpec,
    srt: &SrtInput,
    to: SocketAddr,
    folder: &Path,
) -> Result<SrtCommand, MediaError> {
    let stream = &spec.name;
    for (program, package) in [(PROGRAM, "srt-tools"), (DROP, "util-linux")] {
        if !is_installed(program) {
            let message = format!("stream `{stream}`: `srt` needs the program {program} in PATH");
            return Err(MediaError::new(message).help(format!("install it: apt install {package}")));
        }
    }
    let passphrase = match &srt.passphrase {
        Some(file) => Some(passphrase(stream, &folder.join(file))?),
        None => None,
    };
    let name = format!("{PROGRAM} of stream `{stream}`, srt://{}", srt.address);
    let is_root = rustix::process::geteuid().is_root();
    Ok(SrtCommand { name, command: arguments(srt, passphrase.as_deref(), to, is_root) })
}

/// Returns the words of the command.
fn arguments(
    srt: &SrtInput,
    passphrase: Option<&str>,
    to: SocketAddr,
    is_root: bool,
) -> Vec<String> {
    let SrtInput { address, is_caller, latency_ms, .. } = srt;
    let mode = if *is_caller { "caller" } else { "listener" };
    let mut from = format!("srt://{address}?mode={mode}&latency={latency_ms}");
    if let Some(passphrase) = passphrase {
        from += &format!("&passphrase={passphrase}");
    }
    if let Some(streamid) = &srt.streamid {
        from += &format!("&streamid={streamid}");
    }
    let to = format!("udp://{to}");
    let of_root = if is_root { &DROPPED_OF_ROOT[..] } else { &[] };
    let program = [PROGRAM, "-q", "-loglevel:error", &from, &to];
    let words = [DROP].into_iter().chain(DROPPED).chain(of_root.iter().copied()).chain(program);
    words.map(Into::into).collect()
}

/// Reads a passphrase. The program takes it from a URL and does not decode special characters.
fn passphrase(stream: &str, path: &Path) -> Result<String, MediaError> {
    let text = secret_file(path).map_err(|mut error| {
        error.message = format!("stream `{stream}`, `passphrase` of `srt`: {}", error.message);
        error
    })?;
    let text = text.trim_end_matches(['\r', '\n']);
    let may = |letter: char| letter.is_ascii_alphanumeric() || "-._~".contains(letter);
    if PASSPHRASE.contains(&text.len()) && text.chars().all(may) {
        return Ok(text.to_owned());
    }
    let message = format!(
        "stream `{stream}`, `passphrase` = \"{}\": {} bytes, or other characters",
        path.display(),
        text.len()
    );
    let (least, most) = (PASSPHRASE.start(), PASSPHRASE.end());
    Err(MediaError::new(message).help(format!("{least} to {most} letters, digits and -._~")))
}

/// Returns whether a program is in a directory of PATH.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn passphrases_are_read_from_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str, mode| {
            let path = folder.path().join("secret");
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            passphrase("cam", &path).map_err(|error| error.message)
        };
        assert_eq!(read("open-sesame\n", 0o600), Ok("open-sesame".to_owned()));
        for text in ["too-short", &"x".repeat(80), "open sesame", "open&sesame", "open%20sesame"] {
            let why = read(text, 0o600).unwrap_err();
            assert!(why.contains("stream `cam`") && why.contains("secret"), "{why}");
        }
        assert!(read("open-sesame", 0o604).unwrap_err().contains("other users have access"));
        let why = passphrase("cam", Path::new("/nonexistent")).unwrap_err().message;
        assert!(why.starts_with("stream `cam`, `passphrase` of `srt`: /nonexistent: "), "{why}");
    }

    #[test]
    fn the_command_has_every_key_and_no_privileges() {
        let srt = SrtInput {
            address: "[::1]:8890".parse().unwrap(),
            is_caller: true,
            latency_ms: 200,
            passphrase: None,
            streamid: Some("publish:cam".to_owned()),
        };
        let to = "127.0.0.1:5004".parse().unwrap();
        let from = "srt://[::1]:8890?mode=caller&latency=200";
        let program = ["srt-live-transmit", "-q", "-loglevel:error"];
        let words = arguments(&srt, Some("open-sesame"), to, true);
        assert_eq!(words[0], "setpriv");
        assert_eq!(words[1..6], DROPPED);
        assert_eq!(words[6..10], DROPPED_OF_ROOT);
        assert_eq!(words[10..13], program);
        let with_passphrase = format!("{from}&passphrase=open-sesame&streamid=publish:cam");
        assert_eq!(words[13..], [&with_passphrase, "udp://127.0.0.1:5004"]);
        let srt = SrtInput { streamid: None, is_caller: false, ..srt };
        let words = arguments(&srt, None, to, false);
        assert_eq!(words[6..9], program);
        assert_eq!(words[9..], [&from.replace("caller", "listener"), "udp://127.0.0.1:5004"]);
        assert!(!is_installed("millstream-has-no-such-program"));
    }
}
