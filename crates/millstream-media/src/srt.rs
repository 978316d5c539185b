//! Transport streams by SRT (draft-sharabayko-srt): a program of Haivision's libsrt has the
//! connection.
//!
//! ```text
//! sender ── SRT ──> srt-live-transmit ── UDP, loopback ──> TransportReceiver of the stream
//!                   started, and started again, by the runner of hooks
//! ```
//! No Rust library of SRT is kept as well as libsrt. The program runs outside of the confined
//! server, which therefore does not parse SRT. It serves one sender at a time.

use millstream_scenario::SrtInput;
use std::net::SocketAddr;
use std::path::Path;

use crate::MediaError;
use crate::live::publishing::LiveSpec;
use crate::rtsp::access::secret_file;

/// The program, of the Debian package `srt-tools`.
const PROGRAM: &str = "srt-live-transmit";

/// The lengths of a passphrase (SRT: `SRTO_PASSPHRASE`), bytes.
const PASSPHRASE: std::ops::RangeInclusive<usize> = 10..=79;

/// Returns the command that receives the transport stream of a live stream by SRT and sends it to
/// `to`. `folder` is the base of the passphrase's file.
///
/// # Errors
/// Fails if the program is not installed or the passphrase cannot be used.
pub(crate) fn command(
    spec: &LiveSpec,
    srt: &SrtInput,
    to: SocketAddr,
    folder: &Path,
) -> Result<Vec<String>, MediaError> {
    if !is_installed(PROGRAM) {
        let name = &spec.name;
        let message = format!("stream `{name}`: `srt` needs the program {PROGRAM}, not in PATH");
        return Err(MediaError::new(message).help("install it: apt install srt-tools"));
    }
    let SrtInput { address, is_caller, latency_ms, .. } = srt;
    let mode = if *is_caller { "caller" } else { "listener" };
    let mut from = format!("srt://{address}?mode={mode}&latency={latency_ms}");
    if let Some(file) = &srt.passphrase {
        from += &format!("&passphrase={}", passphrase(&spec.name, &folder.join(file))?);
    }
    if let Some(streamid) = &srt.streamid {
        from += &format!("&streamid={streamid}");
    }
    Ok([PROGRAM, "-q", "-loglevel:error", &from, &format!("udp://{to}")].map(Into::into).into())
}

/// Reads a passphrase. The program takes it in a URL, whose special characters it does not decode.
fn passphrase(stream: &str, path: &Path) -> Result<String, MediaError> {
    let text = secret_file(path)?;
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
    use crate::fuzzing::live;
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
    }

    #[test]
    fn the_command_has_every_key() {
        if !is_installed(PROGRAM) {
            return;
        }
        let srt = SrtInput {
            address: "[::1]:8890".parse().unwrap(),
            is_caller: true,
            latency_ms: 200,
            passphrase: None,
            streamid: Some("publish:cam".to_owned()),
        };
        let to = "127.0.0.1:5004".parse().unwrap();
        let spec = &live().streams[0].spec;
        let command = command(spec, &srt, to, Path::new("")).unwrap();
        let from = "srt://[::1]:8890?mode=caller&latency=200&streamid=publish:cam";
        assert_eq!(command[3..], [from, "udp://127.0.0.1:5004"]);
        assert!(!is_installed("millstream-has-no-such-program"));
    }
}
