//! Browsers in a cluster: the servers name each other, accept each other's pages, and send new
//! viewers to the one with the most room; a page plays on after the end of its server.

use super::{Additions, Hosts, await_metric, on};
use crate::player::{Server, assert_conserved, is_installed};
use crate::test_clips::TestClips;
use crate::webrtc::browser::Browser;
use crate::webrtc::viewer::{Response, SDP, Viewer, request};
use crate::webrtc::{TOKENS, clips, secret};
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

/// The credentials of requests.
const QUERY: &str = "?token=open%20sesame";

/// Waits until `holds`.
fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the file of a server at 127.0.0.`host` that is `own` of `members`.
fn local_file(host: usize, own: &str, members: &[&str], clip: &Path, tokens: &str) -> String {
    let members: Vec<String> = members.iter().map(|member| format!("\"{member}\"")).collect();
    format!(
        "[scenario]\nduration = \"1 s\"\n[media]\nlisten = \"127.0.0.{host}:0\"\n\
         http = \"127.0.0.{host}:0\"\nwebrtc = \"127.0.0.{host}:0\"\ntokens = \"{tokens}\"\n\
         [media.cluster]\nlisten = \"{own}\"\nmembers = [{}]\nsecret = \"secret\"\n\
         dead-after = \"500 ms\"\n[link]\nrate = \"50 Mbps\"\noverhead = 28\n\
         [scheduler]\ndiscipline = \"dwcs\"\n[[stream]]\nname = \"again\"\nperiod = \"40 ms\"\n\
         late = \"drop\"\nfirst-deadline = \"2 s\"\n\
         source = {{ kind = \"mpeg\", file = \"{}\", repeat = true }}\n\
         [[stream]]\nname = \"live\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
         source = {{ kind = \"live\", rate = \"1 Mbps\" }}\n\
         [[stream]]\nname = \"room\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
         source = {{ kind = \"live\", rate = \"1 Mbps\", paths = 2 }}\n",
        members.join(", "),
        clip.display(),
    )
}

fn serve(text: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let (file, secret) = (folder.path().join("media.toml"), folder.path().join("secret"));
    std::fs::write(&file, text).unwrap();
    std::fs::write(&secret, [7; 32]).unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    Server::serve(&file, folder)
}

fn origin(server: &Server) -> String {
    format!("http://{}", server.webrtc.unwrap())
}

/// Returns the URLs that a response names, sorted.
fn alternates(response: &Response) -> Vec<String> {
    let links = response.head.lines().filter_map(|line| line.strip_prefix("Link: <"));
    let mut urls: Vec<String> =
        links.map(|link| link.strip_suffix(">; rel=\"alternate\"").unwrap().to_owned()).collect();
    urls.sort_unstable();
    urls
}

/// An offer that passes the checks before a redirect, and is refused after them.
const OFFER: &str = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
    m=video 9 UDP/TLS/RTP/SAVPF 102\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=recvonly\r\n\
    a=rtpmap:102 H264/90000\r\na=fmtp:102 packetization-mode=1\r\n";

/// Asks whether a page of `origin` may send a request.
fn preflight(server: &Server, path: &str, origin: &str) -> Response {
    let headers = format!(
        "Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\n\
         Access-Control-Request-Headers: content-type\r\n"
    );
    request(server.webrtc.unwrap(), &format!("OPTIONS {path}"), &headers, "")
}

#[test]
fn servers_of_a_cluster_name_each_other_and_accept_each_others_pages() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(75);
    let tokens = secret(&clips, "t", TOKENS);
    let free = |host: usize| {
        let socket = UdpSocket::bind(format!("127.0.0.{host}:0")).unwrap();
        socket.local_addr().unwrap().to_string()
    };
    let members: Vec<String> = (1..4).map(free).collect();
    let listed: Vec<&str> = members.iter().map(String::as_str).collect();
    let file = |number: usize, listed: &[&str]| {
        local_file(number + 1, &members[number], listed, &clips.path("plain.ts"), &tokens)
    };
    let mut servers: Vec<Server> = (0..3).map(|number| serve(&file(number, &listed))).collect();
    let origins: Vec<String> = servers.iter().map(origin).collect();
    let page = |server: &Server| {
        request(server.webrtc.unwrap(), &format!("GET /watch/again{QUERY}"), "", "")
    };
    let urls = |kind: &str, of: &[usize]| -> Vec<String> {
        let mut urls: Vec<String> =
            of.iter().map(|number| format!("{}/{kind}/again", origins[*number])).collect();
        urls.sort_unstable();
        urls
    };
    for (number, others) in [[1, 2], [0, 2], [0, 1]].into_iter().enumerate() {
        await_that("pages name the others", || {
            alternates(&page(&servers[number])) == urls("watch", &others)
        });
    }
    // The page may send requests to the members only.
    let head = page(&servers[0]).head;
    let policy = format!("connect-src 'self' {} {};", origins[1], origins[2]);
    assert!(head.contains(&policy), "{head}");

    // All have equal room, so the viewer stays. The answer and its session name the others.
    let again = format!("/whep/again{QUERY}");
    let first = servers[0].webrtc.unwrap();
    let viewer = Viewer::open(first, &again, "").unwrap();
    assert_eq!(alternates(&viewer.response), urls("whep", &[1, 2]));
    let ask = |session: &str| request(first, &format!("OPTIONS {session}"), "", "");
    let session = ask(&viewer.session);
    assert_eq!((session.status, alternates(&session)), (204, urls("whep", &[1, 2])));
    let unknown = ask("/session/1");
    assert_eq!((unknown.status, alternates(&unknown)), (404, Vec::new()));

    // Pages of members may ask and offer, and nothing else.
    let allowed = preflight(&servers[1], "/whep/again", &origins[0]);
    assert_eq!(allowed.status, 204, "{allowed:?}");
    assert_eq!(allowed.header("Access-Control-Allow-Origin"), Some(&*origins[0]));
    assert_eq!(allowed.header("Access-Control-Allow-Credentials"), None);
    assert_eq!(alternates(&allowed), Vec::<String>::new());
    assert_eq!(preflight(&servers[1], "/session/1", &origins[0]).status, 204);
    for (path, from) in [
        ("/whip/live", &*origins[0]),
        ("/watch/again", &*origins[0]),
        ("/whep/../whip/live", &*origins[0]),
        ("/whep/again", "http://evil.example"),
        ("/whep/again", "null"),
        ("/whep/again", &format!("{}/", origins[0])),
        ("/whep/again", &origins[0].replace("http", "https")),
    ] {
        let refused = preflight(&servers[1], path, from);
        assert_eq!(refused.status, 403, "{path} from {from}: {refused:?}");
        assert_eq!(refused.header("Access-Control-Allow-Origin"), None, "{refused:?}");
    }
    let second = servers[1].webrtc.unwrap();
    let from = format!("Origin: {}\r\n", origins[0]);
    let refused = Viewer::open(second, "/whep/again", &from).err().unwrap();
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("Access-Control-Allow-Origin"), Some(&*origins[0]));
    assert_eq!(alternates(&refused), Vec::<String>::new());
    let moved = Viewer::open(second, &again, &from).unwrap();
    let answer = &moved.response;
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some(&*origins[0]));
    assert!(answer.header("Access-Control-Expose-Headers").unwrap().contains("Link, Location"));
    assert_eq!(alternates(answer), urls("whep", &[0, 2]));

    // The third server now has the most room.
    let placed = format!("{}/whep/placed/again{QUERY}", origins[2]);
    let offer = |headers: &str, sdp| request(first, &format!("POST {again}"), headers, sdp);
    let (from, other) = (format!("{SDP}Origin: {}\r\n", origins[0]), OFFER.replace("H264", "VP8"));
    await_that("a new viewer is sent to the server with the most room", || {
        // An offer that no server accepts is not redirected, and takes no place.
        for (headers, sdp, status) in [
            (&*from, "v=0", 400),
            (&*from, &*other, 406),
            (from.strip_prefix(SDP).unwrap(), OFFER, 415),
        ] {
            assert_eq!(offer(headers, sdp).status, status, "{sdp}");
        }
        let redirected = offer(&from, OFFER);
        redirected.status == 307 && redirected.header("Location") == Some(&*placed)
    });
    // The server redirects once after each status of the third, so one offer does not suffice.
    let stays = |headers: &str| {
        for _ in 0..20 {
            assert_eq!(offer(&format!("{SDP}{headers}"), OFFER).status, 400, "{headers}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    // Credentials in a header would not reach the other server.
    stays("Authorization: Bearer open sesame\r\n");
    // Browsers hide the origin of a member's page after a redirect.
    stays(&format!("Origin: {}\r\n", origins[1]));
    // Another member may have a publisher, but no member has a stream that is not in the file.
    for (name, named) in [("live", 2), ("room/a", 2), ("room/.a", 0), ("none", 0), ("none/a", 0)] {
        let missing = request(first, &format!("POST /whep/{name}{QUERY}"), SDP, "v=0");
        assert_eq!((missing.status, alternates(&missing).len()), (404, named), "{missing:?}");
        let page = request(first, &format!("GET /watch/{name}{QUERY}"), "", "");
        assert_eq!((page.status, alternates(&page).len()), (200, named), "{page:?}");
    }
    let third = servers[2].webrtc.unwrap();
    let last = Viewer::open(third, placed.strip_prefix(&origins[2]).unwrap(), "").unwrap();
    assert_eq!(alternates(&last.response), urls("whep", &[0, 1]));

    // A dead member is not named, but its pages may go on.
    servers[1].crash();
    await_that("a dead member is not named", || {
        alternates(&page(&servers[0])) == urls("watch", &[2])
    });
    assert_eq!(preflight(&servers[0], "/whep/again", &origins[1]).status, 204);
    // A server knows the pages of the members in its file only.
    assert_conserved(&servers.remove(2).end());
    let server = serve(&file(2, &listed[1..]));
    assert_eq!(preflight(&server, "/whep/again", &origins[0]).status, 403);
    server.end();
    assert_conserved(&servers.remove(0).end());
}

/// Returns the table of the stream `again`.
fn again(clip: &Path) -> String {
    format!(
        "[[stream]]\nname = \"again\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
         first-deadline = \"2 s\"\nsource = {{ kind = \"mpeg\", file = \"{}\", repeat = true }}\n",
        clip.display()
    )
}

/// Starts three servers with these link rates that play `again` to browsers with a token, and a
/// browser that opens the page of the first.
fn watch(hosts: &Hosts, rates: [&str; 3], clips: &TestClips) -> (Vec<Server>, Browser) {
    let (clip, tokens) = (clips.path("plain.ts"), secret(clips, "t", TOKENS));
    let streams = again(&clip);
    let server = |(host, rate): (u8, &str)| {
        let media = format!("webrtc = \"10.77.0.{host}:8889\"\ntokens = \"{tokens}\"");
        let additions = Additions { media: &media, streams: &streams, ..Additions::default() };
        hosts.server_with(host, rate, 7, additions)
    };
    let servers: Vec<Server> = (1..).zip(rates).map(server).collect();
    for server in &servers {
        await_metric(server, "cluster_members", 2);
        let get = format!("GET /watch/again{QUERY}");
        let page = || request(server.webrtc.unwrap(), &get, "", "");
        await_that("pages name the others", || alternates(&page()).len() == 2);
    }
    let browser = Browser::open(&format!("{}/watch/again{QUERY}#stats", origin(&servers[0])));
    browser.statistics_with(|video| video["framesDecoded"].as_u64() >= Some(50));
    (servers, browser)
}

/// Waits until the browser plays on; returns the number of the server.
fn next_server(browser: &Browser, servers: &[Server]) -> usize {
    let line = browser.line_with("plays on at");
    eprintln!("{line}");
    let number = servers.iter().position(|server| {
        let at = format!("plays on at {} after", origin(server));
        line.contains(&at)
    });
    let number = number.unwrap();
    // The statistics are those of the new session.
    browser.statistics_with(|video| video["framesDecoded"].as_u64() >= Some(25));
    assert_eq!(servers[number].status()["webrtc"]["viewers"], 1);
    number
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn a_page_plays_on_at_another_server_after_each_kill() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(250);
    on(3, |hosts| {
        let (mut servers, browser) = watch(hosts, ["50 Mbps"; 3], &clips);
        servers[0].crash();
        servers.remove(0);
        let next = next_server(&browser, &servers);
        // The page has learned the alternates of its new server.
        servers[next].crash();
        servers.remove(next);
        assert_eq!(next_server(&browser, &servers), 0);
        assert_conserved(&servers.remove(0).end());
    });
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn a_page_plays_on_at_another_server_after_its_host_falls_silent() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(250);
    on(3, |hosts| {
        let (servers, browser) = watch(hosts, ["50 Mbps"; 3], &clips);
        hosts.cut_off(1);
        assert_ne!(next_server(&browser, &servers), 0);
    });
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn a_page_plays_at_the_server_with_the_most_room_and_then_at_another_one() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(250);
    on(3, |hosts| {
        let rates = ["5 Mbps", "50 Mbps", "20 Mbps"];
        let (mut servers, browser) = watch(hosts, rates, &clips);
        assert_eq!(servers[1].status()["webrtc"]["viewers"], 1);
        servers[1].crash();
        servers.remove(1);
        next_server(&browser, &servers);
    });
}

#[test]
#[ignore = "make soak: needs Chromium"]
fn a_page_plays_at_its_server_if_it_cannot_reach_the_one_with_the_most_room() {
    if !is_installed("chromium") || !is_installed("ffmpeg") {
        return;
    }
    let clips = clips(250);
    on(2, |hosts| {
        let streams = again(&clips.path("plain.ts"));
        // Nothing listens at the origin of the second server.
        let server = |(host, rate, cluster): (u8, &str, &str)| {
            let media = format!("webrtc = \"10.77.0.{host}:8889\"");
            let additions =
                Additions { media: &media, cluster, streams: &streams, ..Additions::default() };
            hosts.server_with(host, rate, 7, additions)
        };
        let servers =
            [(1, "5 Mbps", ""), (2, "50 Mbps", "origin = \"http://10.77.0.2:9\"")].map(server);
        let page = || request(servers[0].webrtc.unwrap(), "GET /watch/again", "", "");
        await_that("the page names the other", || {
            alternates(&page()) == ["http://10.77.0.2:9/watch/again"]
        });
        let browser = Browser::open(&format!("{}/watch/again#stats", origin(&servers[0])));
        browser.statistics_with(|video| video["framesDecoded"].as_u64() >= Some(25));
        assert_eq!(servers[0].status()["webrtc"]["viewers"], 1);
    });
}
