//! Digests of the standards' examples, and malformed or replayed credentials.

use super::*;
use crate::fuzzing::with_guarded_server;
use rtsp_types::{Method, Url, Version};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn users(text: &str, realm: &str) -> Result<Access, String> {
    let file = file(text);
    let access = Access::read(Some(file.path()), None, realm);
    access.map_err(|error| format!("{error}; {}", error.help.as_deref().unwrap_or_default()))
}

fn request(method: Method, url: &str, authorization: Option<&str>) -> Request<Vec<u8>> {
    let mut request = Request::builder(method, Version::V1_0).request_uri(Url::parse(url).unwrap());
    if let Some(text) = authorization {
        request = request.header(AUTHORIZATION, text);
    }
    request.build(Vec::new())
}

/// Returns a pass with a given nonce.
fn pass(nonce: &str) -> AuthState {
    AuthState { nonce: nonce.to_owned(), ..AuthState::default() }
}

const STREAM_URL: &str = "rtsp://h/film";

/// Access for the user Mufasa with the password "Circle Of Life".
fn mufasa(algorithm: Algorithm) -> Access {
    let digest = algorithm.hash("Mufasa:zoo:Circle Of Life");
    users(&format!("# the zoo\nMufasa:zoo:{digest}\n"), "zoo").unwrap()
}

/// Returns the response of a client with `password` to `nonce`; without `count`, as in RFC 2069.
fn answer(
    algorithm: Algorithm,
    password: &str,
    method: &str,
    nonce: &str,
    count: Option<u32>,
) -> String {
    let who = algorithm.hash(&format!("Mufasa:zoo:{password}"));
    let what = algorithm.hash(&format!("{method}:{STREAM_URL}"));
    let (middle, fields) = match count {
        None => (String::new(), String::new()),
        Some(count) => {
            let fields = format!(", qop=auth, nc={count:08x}, cnonce=\"c\"");
            (format!("{count:08x}:c:auth:"), fields)
        }
    };
    let response = algorithm.hash(&format!("{who}:{nonce}:{middle}{what}"));
    let name = if algorithm == Algorithm::Sha256 { ", algorithm=SHA-256" } else { "" };
    format!(
        "Digest username=\"Mufasa\", realm=\"zoo\", nonce=\"{nonce}\", uri=\"{STREAM_URL}\", \
         response=\"{response}\"{fields}{name}"
    )
}

fn authorize(access: &Access, pass: &mut AuthState, authorization: &str, now_ns: u64) -> Verdict {
    access.authorize(pass, &request(Method::Describe, STREAM_URL, Some(authorization)), now_ns)
}

#[test]
fn guesses_are_backed_off_and_other_addresses_are_not() {
    let access = mufasa(Algorithm::Md5);
    let describe = |password: &str| {
        let text = answer(Algorithm::Md5, password, "DESCRIBE", "n", None);
        format!("DESCRIBE {STREAM_URL} RTSP/1.0\r\nCSeq: 1\r\nAuthorization: {text}\r\n\r\n")
    };
    let [guesser, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
    with_guarded_server(&access, |talk| {
        let mut status = |peer, request: &str| {
            String::from_utf8(talk(peer, request.as_bytes())).unwrap()[9..12].to_owned()
        };
        // Each request uses its own connection; at one instant, five are read.
        let answers: Vec<String> = (0..100).map(|_| status(guesser, &describe("guess"))).collect();
        assert!(answers[..5].iter().all(|status| status == "401"), "{answers:?}");
        assert!(answers[5..].iter().all(|status| status == "503"), "{answers:?}");
        // The right password is not read either: that would distinguish it from a wrong one.
        assert_eq!(status(guesser, &describe("Circle Of Life")), "503");
        // At another address it is read (401, stale: the nonce is not this connection's). A request
        // without credentials gets a challenge.
        assert_eq!(status(other, &describe("Circle Of Life")), "401");
        assert_eq!(status(guesser, "DESCRIBE rtsp://h/film RTSP/1.0\r\nCSeq: 1\r\n\r\n"), "401");
    });
}

#[test]
fn digests_match_the_standards_examples() {
    // RFC 7616, section 3.9.1, step by step: its paths are no RTSP URLs.
    for (algorithm, expected) in [
        (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ] {
        let who = algorithm.hash("Mufasa:http-auth@example.org:Circle of Life");
        let what = algorithm.hash("GET:/dir/index.html");
        let nonce = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
        let client = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let response = algorithm.hash(&format!("{who}:{nonce}:00000001:{client}:auth:{what}"));
        assert_eq!(response, expected);
    }
}

#[test]
fn the_right_password_is_allowed_with_every_digest() {
    for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
        let access = mufasa(algorithm);
        for count in [None, Some(1)] {
            let right = answer(algorithm, "Circle Of Life", "DESCRIBE", "n", count);
            assert_eq!(authorize(&access, &mut pass("n"), &right, 0), Verdict::Allowed);
            let guessed = answer(algorithm, "Circle of life", "DESCRIBE", "n", count);
            assert!(matches!(
                authorize(&access, &mut pass("n"), &guessed, 0),
                Verdict::Wrong(Some(_))
            ));
            let other_method = answer(algorithm, "Circle Of Life", "PLAY", "n", count);
            assert!(matches!(
                authorize(&access, &mut pass("n"), &other_method, 0),
                Verdict::Wrong(_)
            ));
        }
    }
}

#[test]
fn replayed_credentials_are_rejected() {
    let (access, algorithm) = (mufasa(Algorithm::Md5), Algorithm::Md5);
    let mut mine = pass("n");
    let by_count = |count| answer(algorithm, "Circle Of Life", "DESCRIBE", "n", Some(count));
    assert_eq!(authorize(&access, &mut mine, &by_count(3), 0), Verdict::Allowed);
    let stale = "stale=true";
    let is_stale =
        |verdict: Verdict| matches!(verdict, Verdict::Missing(Some(text)) if text.contains(stale));
    // A repeated count, an expired nonce, another connection's nonce.
    assert!(is_stale(authorize(&access, &mut mine, &by_count(3), 0)));
    assert!(is_stale(authorize(&access, &mut pass("n"), &by_count(1), NONCE_NS)));
    assert!(is_stale(authorize(&access, &mut pass("m"), &by_count(1), 0)));
    assert!(is_stale(authorize(&access, &mut AuthState::default(), &by_count(1), 0)));
    // Each challenge has a new nonce, and a connection accepts only the latest.
    let ask = |pass: &mut AuthState| {
        access.authorize(pass, &request(Method::Describe, STREAM_URL, None), 0)
    };
    let (one, two) = (ask(&mut mine), ask(&mut mine));
    assert!(
        one != two && matches!(&two, Verdict::Missing(Some(text)) if text.contains(&mine.nonce))
    );
}

#[test]
fn malformed_credentials_are_wrong_and_a_few_end_the_connection() {
    let access = mufasa(Algorithm::Md5);
    let right = answer(Algorithm::Md5, "Circle Of Life", "DESCRIBE", "n", Some(1));
    for wrong in [
        String::new(),
        "Basic TXVmYXNhOkNpcmNsZQ==".to_owned(),
        "Digest".to_owned(),
        right.replace("zoo", "moon"),
        right.replace("rtsp://h/film", "rtsp://h/other"),
        right.replace("qop=auth", "qop=auth-int"),
        right.replace("nc=00000001", "nc=1"),
        right.replace("nc=00000001", "nc=-0000001"),
        right.replace("Mufasa", "Scar"),
        format!("{right}, algorithm=SHA-512"),
        format!("{right}, username=\"Scar\""),
        format!("{right}, {right}"),
        right.replace("response=\"", "response=\"0"),
    ] {
        let verdict = authorize(&access, &mut pass("n"), &wrong, 0);
        assert!(matches!(verdict, Verdict::Wrong(_)), "{wrong}: {verdict:?}");
    }
    let mut guesses = pass("n");
    for _ in 0..MAX_WRONG {
        assert!(!guesses.is_exhausted());
        authorize(&access, &mut guesses, "Digest", 0);
    }
    assert!(guesses.is_exhausted());
}

#[test]
fn a_token_admits_only_its_connection() {
    let tokens = file(&format!("friends:{}\n", hexadecimal(&Sha256::digest("o/pen"))));
    let access = Access::read(None, Some(tokens.path()), "").unwrap();
    let ask =
        |pass: &mut AuthState, url| access.authorize(pass, &request(Method::Setup, url, None), 0);
    let mut pass = AuthState::default();
    assert_eq!(ask(&mut pass, "rtsp://h/film"), Verdict::Missing(None));
    assert_eq!(ask(&mut pass, "rtsp://h/film?token=open"), Verdict::Wrong(None));
    assert_eq!(ask(&mut pass, "rtsp://h/film?a=b&token=o%2fpen"), Verdict::Allowed);
    assert_eq!(ask(&mut pass, "rtsp://h/film/video"), Verdict::Allowed);
    assert_eq!(ask(&mut AuthState::default(), "rtsp://h/film"), Verdict::Missing(None));
}

#[test]
fn unauthenticated_requests_reveal_nothing() {
    let access = mufasa(Algorithm::Md5);
    with_guarded_server(&access, |talk| {
        let mut status = |request: String| {
            let answers = talk(IpAddr::from([127, 0, 0, 1]), request.as_bytes());
            String::from_utf8(answers).unwrap()
        };
        for method in
            ["DESCRIBE", "SETUP", "PLAY", "PAUSE", "GET_PARAMETER", "TEARDOWN", "ANNOUNCE"]
        {
            let answer = status(format!("{method} rtsp://h/nothing RTSP/1.0\r\nCSeq: 1\r\n\r\n"));
            assert!(answer.starts_with("RTSP/1.0 401"), "{answer}");
            assert!(answer.contains("WWW-Authenticate: Digest realm=\"zoo\", nonce="), "{answer}");
        }
        assert!(status("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".into()).starts_with("RTSP/1.0 200"));
        // Repeated guesses: after a few the connection is closed.
        let guess =
            format!("DESCRIBE {STREAM_URL} RTSP/1.0\r\nCSeq: 1\r\nAuthorization: Digest\r\n\r\n");
        assert_eq!(status(guess.repeat(20)).matches("RTSP/1.0 401").count(), MAX_WRONG as usize);
    });
}

#[test]
fn errors_in_files_are_reported_without_secrets() {
    let secret = "0123456789abcdef0123456789abcdef";
    let long = format!("a:zoo:{secret}\nb:zoo:{secret}{secret}");
    for (text, parts) in [
        ("a:zoo", ["line 1: not three fields", "NAME:zoo:DIGEST"]),
        (&format!("\na:moon:{secret}"), ["line 2: the realm is `moon`", "htdigest"]),
        (&format!("a:zoo:{secret}0"), ["not a digest", "hexadecimal"]),
        (&format!("a:zoo:{secret}\na:zoo:{secret}"), ["line 2", "duplicate user `a`"]),
        (&long, ["line 2", "are mixed"]),
    ] {
        let error = users(text, "zoo").unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!error.contains(secret), "{error}");
    }
    let open = file("");
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o604)).unwrap();
    let error = Access::read(None, Some(open.path()), "").unwrap_err();
    assert!(error.message.contains("mode 604") && error.help.unwrap().contains("chmod 600"));
    let tokens = file("secret\n");
    let error = Access::read(None, Some(tokens.path()), "").unwrap_err();
    assert!(error.message.contains("line 1") && !error.message.contains("secret\n"));
}

proptest::proptest! {
    #[test]
    fn arbitrary_credentials_do_not_panic(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "Digest ", "Basic ", "username=", "\"a\"", "realm=\"zoo\"", ", ", "nonce=\"\"", "uri=\"rtsp://h/film\"",
            "response=", "nc=", "ffffffff", "qop=auth", "\\", "\"", "=", "\u{e4}", "algorithm=MD5",
        ]), 0..30),
    ) {
        let mut pass = AuthState::default();
        let verdict = authorize(&mufasa(Algorithm::Md5), &mut pass, &words.concat(), 0);
        proptest::prop_assert!(matches!(verdict, Verdict::Wrong(_)));
    }
}
