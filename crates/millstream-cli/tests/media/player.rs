//! A server for tests, and a media file with known frames.

#![allow(dead_code)]

pub(crate) use millstream_player::{Player, ReceivedFrame};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The frames of the test file in coding order, repeated at 60 frames/s: type and bytes of each.
pub(crate) const PATTERN: [(u8, usize); 6] =
    [(1, 6000), (3, 1200), (3, 1200), (2, 3000), (3, 1200), (3, 1200)];

/// Returns MPEG-1 video of `frames` frames with valid headers and slices, but undecodable data.
pub(crate) fn test_video(frames: usize) -> Vec<u8> {
    let mut video = Vec::new();
    for (number, (kind, bytes)) in (0..frames).map(|number| (number, PATTERN[number % 6])) {
        if kind == 1 {
            video.extend([0, 0, 1, 0xb3, 0x16, 0x01, 0x20, 0x18, 9, 9, 0, 0, 1, 0xb8, 1, 2, 3, 4]);
        }
        // The temporal reference: the display position within the group, unique in it.
        let reference = u8::try_from([0, 1, 2, 5, 3, 4][number % 6]).unwrap();
        video.extend([0, 0, 1, 0, reference >> 2, reference << 6 | kind << 3, 0xff, 0xf8, 0]);
        video.extend([0, 0, 1, 1]);
        video.extend(vec![u8::try_from(number % 100).unwrap() + 2; bytes]);
    }
    video
}

/// Returns whether a program is installed. It must be, if the test runs as root.
pub(crate) fn is_installed(program: &str) -> bool {
    let installed = Command::new(program).arg("--version").output().is_ok();
    if !installed && !nix::unistd::geteuid().is_root() {
        eprintln!("not tested: {program} is not installed, and installing it needs root");
        return false;
    }
    assert!(installed, "{program} is missing; scripts/test-tools.sh installs it");
    true
}

/// Connects from `address`, another address of this machine.
pub(crate) fn connect_from(address: &str, to: SocketAddr) -> TcpStream {
    let flags = SockFlag::SOCK_CLOEXEC;
    let stream = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
    let from = SockaddrStorage::from(SocketAddr::new(address.parse().unwrap(), 0));
    bind(stream.as_raw_fd(), &from).unwrap();
    connect(stream.as_raw_fd(), &SockaddrStorage::from(to)).unwrap();
    stream.into()
}

/// Reads a response up to the end of its header.
pub(crate) fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Returns `rounds` deterministic mutations of `seeds` in turn: changed bytes and truncations.
pub(crate) fn mangled(seeds: &[&[u8]], rounds: usize) -> Vec<Vec<u8>> {
    let mut random = 1u64;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(random >> 33).unwrap() % limit
    };
    let mangled = (0..rounds).map(|round| {
        let mut bytes = seeds[round % seeds.len()].to_vec();
        for _ in 0..below(4) {
            let at = below(bytes.len());
            bytes[at] = u8::try_from(below(256)).unwrap();
        }
        if below(4) == 0 {
            bytes.truncate(below(bytes.len() + 1));
        }
        bytes
    });
    mangled.collect()
}

/// Waits until a process has at most `before` open files.
pub(crate) fn await_open_files(id: u32, before: usize) {
    let end = Instant::now() + Duration::from_secs(30);
    while open_files(id) > before {
        assert!(Instant::now() < end, "{} files of process {id}, {before} before", open_files(id));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn open_files(id: u32) -> usize {
    std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
}

/// Counts the open files of a process: the minimum of several samples, as connections may still be
/// closing.
pub(crate) fn count_open_files(id: u32) -> usize {
    let counts = (0..25).map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        open_files(id)
    });
    counts.min().unwrap()
}

/// Asserts that every released frame is counted once: sent, dropped, discarded or lost.
pub(crate) fn assert_conserved(account: &serde_json::Value) {
    let frames = &account["frames"];
    let count = |what: &str| -> u64 {
        match &frames[what] {
            serde_json::Value::Array(kinds) => kinds.iter().map(|n| n.as_u64().unwrap()).sum(),
            number => number.as_u64().unwrap(),
        }
    };
    let ends = ["sent", "dropped_late", "dropped_full", "filtered", "unread", "discarded", "lost"];
    assert_eq!(count("released"), ends.map(count).iter().sum::<u64>(), "{account}");
}

/// A running `millstream serve` process.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) rtsp: SocketAddr,
    pub(crate) rtsps: Option<SocketAddr>,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) webrtc: Option<SocketAddr>,
    pub(crate) hls: Option<SocketAddr>,
    pub(crate) rtmp: Option<SocketAddr>,
    /// The addresses that receive transport streams, in the order of the file.
    pub(crate) udp: Vec<SocketAddr>,
    pub(crate) data_plane: Option<u32>,
    pub(crate) stderr: Receiver<String>,
    folder: tempfile::TempDir,
}

impl Server {
    /// Serves a file of `frames` frames as `/film`; `media` and `stream` are added to the scenario.
    pub(crate) fn start(
        frames: usize,
        rate: &str,
        media: &str,
        stream: &str,
        source: &str,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("film.m1v"), test_video(frames)).unwrap();
        let text = format!(
            "[scenario]\nduration = \"1 min\"\n[media]\nlisten = \"127.0.0.1:0\"\n{media}\n\
             [link]\nrate = \"{rate}\"\n\
             overhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n[[stream]]\nname = \"film\"\n\
             late = \"drop\"\n{stream}\n\
             source = {{ kind = \"mpeg\", file = \"film.m1v\"{source} }}\n"
        );
        std::fs::write(folder.path().join("media.toml"), text).unwrap();
        Self::serve(&folder.path().join("media.toml").clone(), folder)
    }

    pub(crate) fn serve(file: &Path, folder: tempfile::TempDir) -> Self {
        Self::serve_by(Command::new(env!("CARGO_BIN_EXE_millstream")), file, folder)
    }

    /// Serves `file` by `command`, which runs `millstream` with the appended arguments.
    pub(crate) fn serve_by(mut command: Command, file: &Path, folder: tempfile::TempDir) -> Self {
        let mut child = command
            .args(["serve", "--json"])
            .arg(file)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, stderr) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        let mut server = Self {
            child,
            rtsp: SocketAddr::from(([0; 4], 0)),
            rtsps: None,
            http: None,
            webrtc: None,
            hls: None,
            rtmp: None,
            udp: Vec::new(),
            data_plane: None,
            stderr,
            folder,
        };
        let text = std::fs::read_to_string(file).unwrap();
        let needed = 1
            + ["http =", "\"ni\"", "tls =", "webrtc =", "hls =", "rtmp ="]
                .iter()
                .filter(|key| text.contains(**key))
                .count()
            + text.matches("udp = ").count();
        let mut found = 0;
        while found < needed {
            let line = server.line();
            let address = |line: &str| line.split('/').next().unwrap().parse().unwrap();
            if let Some(rest) = line.strip_prefix("rtsp://") {
                // The server prints one line per stream.
                if server.rtsp.port() != 0 {
                    continue;
                }
                server.rtsp = address(rest);
            } else if let Some(rest) = line.strip_prefix("rtsps://") {
                if server.rtsps.is_some() {
                    continue;
                }
                server.rtsps = Some(address(rest));
            } else if let Some((rest, _)) = line.split_once("/watch/") {
                if server.webrtc.is_some() {
                    continue;
                }
                server.webrtc = Some(address(rest.split_once("://").unwrap().1));
            } else if line.ends_with("/index.m3u8") {
                if server.hls.is_some() {
                    continue;
                }
                server.hls = Some(address(line.split_once("://").unwrap().1));
            } else if let Some(rest) = line.strip_prefix("rtmp://") {
                server.rtmp = Some(address(rest));
            } else if let Some(rest) = line.strip_prefix("udp://") {
                server.udp.push(rest.split(',').next().unwrap().parse().unwrap());
            } else if let Some(rest) = line.strip_prefix("http://") {
                server.http = Some(address(rest));
            } else if let Some((_, id)) = line.split_once("process ") {
                server.data_plane = Some(id.parse().unwrap());
            } else {
                continue;
            }
            found += 1;
        }
        server
    }

    /// Kills the host process, like a crash; its data plane continues.
    pub(crate) fn crash(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Restarts the server after a crash.
    pub(crate) fn restart(mut self) -> Self {
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Self::serve(&folder.path().join("media.toml").clone(), folder)
    }

    /// Returns the next line of standard error.
    pub(crate) fn line(&self) -> String {
        self.stderr.recv_timeout(Duration::from_secs(20)).expect("a line of the server")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Fetches a page by HTTP.
    pub(crate) fn page(&self, path: &str) -> String {
        let address = self.http.unwrap();
        let mut stream = self.connect_within(address);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    }

    /// Connects within the network namespace of the server.
    fn connect_within(&self, address: SocketAddr) -> TcpStream {
        let network = |of: &str| PathBuf::from(format!("/proc/{of}/ns/net"));
        let (here, there) = (network("thread-self"), network(&self.child.id().to_string()));
        let connect = || TcpStream::connect(address).unwrap();
        if std::fs::read_link(here).unwrap() == std::fs::read_link(&there).unwrap() {
            return connect();
        }
        let namespace = std::fs::File::open(there).unwrap();
        std::thread::scope(|scope| {
            let connecting = scope.spawn(|| {
                setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
                connect()
            });
            connecting.join().unwrap()
        })
    }

    /// Fetches `/status`; again while the server is busy, for example with a new data plane.
    pub(crate) fn status(&self) -> serde_json::Value {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let page = self.page("/status");
            if !page.starts_with("HTTP/1.1 503") || Instant::now() > end {
                return serde_json::from_str(page.split_once("\r\n\r\n").unwrap().1).unwrap();
            }
        }
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(id, signal).unwrap();
    }

    /// Ends the server by SIGINT; returns its account.
    pub(crate) fn end(self) -> serde_json::Value {
        self.signal(nix::sys::signal::Signal::SIGINT);
        self.wait_for_exit()
    }

    /// Waits until the server ends; returns its account.
    pub(crate) fn wait_for_exit(mut self) -> serde_json::Value {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        let account: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(account["frames"]["unaccounted"], 0, "{account}");
        account
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the numbers of `frames` of the test file in coding order; the first one is frame 0.
pub(crate) fn coding_numbers(frames: &[ReceivedFrame]) -> HashSet<u32> {
    let Some(first) = frames.first() else { return HashSet::new() };
    let number = |frame: &ReceivedFrame| {
        let display = frame.time.wrapping_sub(first.time) / (90_000 / 60);
        display / 6 * 6 + [0, 1, 2, 4, 5, 3][(display % 6) as usize]
    };
    frames.iter().map(number).collect()
}
