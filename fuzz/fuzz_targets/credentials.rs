//! Whatever somebody sends whom the server does not know, nothing is done for them, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let answers = millstream_media::fuzzing::guarded_requests(bytes);
    assert!(answers.is_empty() || answers.starts_with(b"RTSP/1.0 "));
    let text = String::from_utf8_lossy(&answers);
    // What the server can do is told to anybody; no stream, and no session.
    let told = |line: &str| line.starts_with("Session:") || line == "Content-Type: application/sdp";
    assert!(!text.lines().any(told), "{text}");
});
