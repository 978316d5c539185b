//! Network namespaces joined by veth pairs, created for one test and removed when it ends.

use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The number of networks that this process has created.
static CREATED: AtomicU32 = AtomicU32::new(0);

/// The network source (a0, f0) – (a1, f1) router (b1) – (b0) sink.
pub(crate) struct Network {
    prefix: String,
    namespaces: Vec<&'static str>,
}

impl Network {
    pub(crate) fn new() -> Self {
        let root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let installed = |program| Command::new(program).arg("-V").output().is_ok();
        assert!(
            root && ["ip", "ping", "ethtool"].into_iter().all(installed),
            "this test creates network namespaces: run it as root, with iproute2, iputils-ping and \
             ethtool"
        );
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("ms{}-{number}", std::process::id());
        let mut network = Self { prefix, namespaces: Vec::new() };
        for name in ["source", "router", "sink"] {
            network.add_namespace(name);
        }
        for (left, a, right, b) in [
            ("source", "a0", "router", "a1"),
            ("source", "f0", "router", "f1"),
            ("router", "b1", "sink", "b0"),
        ] {
            let (left, right) = (network.name(left), network.name(right));
            let add = ["-n", &left, "link", "add", a, "type", "veth", "peer", "name", b, "netns"];
            run(&[&add[..], &[&right]].concat());
            run(&["-n", &left, "link", "set", a, "up"]);
            run(&["-n", &right, "link", "set", b, "up"]);
        }
        network
    }

    /// Creates a namespace.
    pub(crate) fn add_namespace(&mut self, name: &'static str) {
        run(&["netns", "add", &self.name(name)]);
        self.namespaces.push(name);
    }

    /// Creates a veth pair between two namespaces; the far end is up and has the address `mac`.
    pub(crate) fn join(&self, left: &str, a: &str, right: &str, b: &str, mac: Option<[u8; 6]>) {
        let (left, right) = (self.name(left), self.name(right));
        run(&["-n", &left, "link", "add", a, "type", "veth", "peer", "name", b, "netns", &right]);
        if let Some(mac) = mac {
            let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
            run(&["-n", &right, "link", "set", b, "address", &mac]);
        }
        run(&["-n", &right, "link", "set", b, "up"]);
    }

    /// Creates a veth pair within a namespace.
    pub(crate) fn add_veth_pair(&self, namespace: &str, a: &str, b: &str) {
        let of = self.name(namespace);
        run(&["-n", &of, "link", "add", a, "type", "veth", "peer", "name", b]);
        run(&["-n", &of, "link", "set", a, "up"]);
        run(&["-n", &of, "link", "set", b, "up"]);
    }

    /// Moves a device to another namespace and sets it up.
    pub(crate) fn move_device(&self, from: &str, device: &str, to: &str) {
        let (from, to) = (self.name(from), self.name(to));
        run(&["-n", &from, "link", "set", device, "netns", &to]);
        run(&["-n", &to, "link", "set", device, "up"]);
    }

    /// Asserts that these programs are installed.
    pub(crate) fn require(&self, programs: &[&str]) {
        for program in programs {
            let found = Command::new("which").arg(program).output();
            let found = found.is_ok_and(|output| output.status.success());
            assert!(
                found,
                "this test runs `{program}`: install it (scripts/test-tools.sh, as root)"
            );
        }
    }

    fn name(&self, of: &str) -> String {
        format!("{}-{of}", self.prefix)
    }

    pub(crate) fn mac(&self, namespace: &str, interface: &str) -> [u8; 6] {
        let show = ["-n", &self.name(namespace), "-j", "link", "show", interface];
        let shown: Value = serde_json::from_slice(&run(&show)).unwrap();
        let text = shown[0]["address"].as_str().unwrap().to_owned();
        let bytes: Vec<u8> =
            text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        bytes.try_into().unwrap()
    }

    /// Returns a router file with ports for the reserved flow and the flood, and a slow output.
    pub(crate) fn router(&self) -> String {
        let hex = self.mac("sink", "b0").map(|byte| format!("{byte:02x}")).join(":");
        let port = |name: &str, rate: &str| {
            format!("[[port]]\nname = \"{name}\"\nkind = \"interface\"\nrate = \"{rate}\"\n")
        };
        let ports = [("a1", "1 Gbps"), ("f1", "1 Gbps"), ("b1", "10 Mbps")];
        let ports: String = ports.iter().map(|(name, rate)| port(name, rate)).collect();
        format!(
            "[router]\nname = \"flood\"\n{ports}\
             [[path]]\nname = \"voice\"\nmatch = {{ dscp = 46 }}\nreservation = \"100 Mcps\"\n\
             queue = 2048\nweight = 100\n\
             [[path]]\nname = \"best-effort\"\n\
             [[route]]\nprefix = \"10.2.0.0/16\"\nport = \"b1\"\nneighbour = \"{hex}\"\n"
        )
    }

    /// Runs `work` in a new thread in a namespace.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        namespace: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let file = File::open(format!("/run/netns/{}", self.name(namespace))).unwrap();
        thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        })
    }

    /// Counts received packets up to `most`; the capture is open when this returns.
    pub(crate) fn count(
        &self,
        namespace: &str,
        interface: &'static str,
        filter: &'static str,
        most: u64,
    ) -> JoinHandle<u64> {
        let (ready, listening) = mpsc::channel();
        let counting = self.within(namespace, move || {
            let mut capture = open_capture(interface, filter);
            ready.send(()).unwrap();
            let began = Instant::now();
            let mut count = 0;
            while count < most && began.elapsed() < TIMEOUT {
                match capture.next_packet() {
                    Ok(_) => count += 1,
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
            count
        });
        listening.recv().unwrap();
        counting
    }

    /// Sends `packets` copies of a frame, with pauses.
    pub(crate) fn send(
        &self,
        namespace: &str,
        interface: &'static str,
        frame: &[u8],
        packets: u64,
        pause: Duration,
    ) {
        let frame = frame.to_vec();
        let sending = self.within(namespace, move || {
            let mut capture = pcap::Capture::from_device(interface).unwrap().open().unwrap();
            for _ in 0..packets {
                capture.sendpacket(&frame[..]).unwrap();
                thread::sleep(pause);
            }
        });
        sending.join().unwrap();
    }

    /// Sends copies of a frame as fast as possible until stopped; returns after the first one.
    pub(crate) fn flood(&self, namespace: &str, interface: &'static str, frame: Vec<u8>) -> Flood {
        self.flood_by(namespace, interface, vec![frame], Duration::ZERO)
    }

    /// Floods like [`flood`](Self::flood), with several frames in turn and a pause after each.
    pub(crate) fn flood_by(
        &self,
        namespace: &str,
        interface: &'static str,
        frames: Vec<Vec<u8>>,
        pause: Duration,
    ) -> Flood {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let (first, begun) = mpsc::channel();
        let sending = self.within(namespace, move || {
            let mut capture = pcap::Capture::from_device(interface).unwrap().open().unwrap();
            let mut sent = 0;
            for frame in frames.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let is_sent = capture.sendpacket(&frame[..]).is_ok();
                if is_sent && sent == 0 {
                    first.send(()).unwrap();
                }
                sent += u64::from(is_sent);
                thread::sleep(pause);
            }
            sent
        });
        begun.recv().unwrap();
        Flood { sending, stopped }
    }

    /// Sends UDP packets to 10.2.0.9 from the router's kernel by `device`, to the neighbour `mac`.
    pub(crate) fn send_by_kernel(&self, device: &str, mac: &str, packets: u32) {
        let of = self.name("router");
        run(&["-n", &of, "addr", "add", "10.1.0.1/24", "dev", device]);
        run(&["-n", &of, "neigh", "add", "10.1.0.2", "lladdr", mac, "dev", device]);
        run(&["-n", &of, "route", "add", "10.2.0.0/16", "via", "10.1.0.2"]);
        let sending = self.within("router", move || {
            let socket = UdpSocket::bind("10.1.0.1:0").unwrap();
            for _ in 0..packets {
                socket.send_to(&[0; 100], "10.2.0.9:9").unwrap();
            }
        });
        sending.join().unwrap();
    }

    /// Fetches `path` of an HTTP server in a namespace.
    pub(crate) fn get(&self, namespace: &str, address: &'static str, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let asking = self.within(namespace, move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        asking.join().unwrap()
    }

    /// Waits until the status page at `status` shows that a port's device is away, or is not.
    pub(crate) fn await_port(&self, status: &'static str, port: &str, away: bool) {
        let began = Instant::now();
        loop {
            let answer = self.get("router", status, "/status");
            let body = answer.split_once("\r\n\r\n").unwrap().1;
            let shown: Value = serde_json::from_str(body).unwrap();
            let of = shown["ports"].as_array().unwrap().iter().find(|of| of["name"] == port);
            if of.unwrap()["away"] == away {
                return;
            }
            assert!(began.elapsed() < TIMEOUT, "{port}: {shown}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the kernel's counts of the packets that a device has received and sent.
    pub(crate) fn statistics(&self, namespace: &str, device: &str) -> (u64, u64) {
        let show = ["-n", &self.name(namespace), "-j", "-s", "link", "show", device];
        let shown: Value = serde_json::from_slice(&run(&show)).unwrap();
        let of = |way: &str| shown[0]["stats64"][way]["packets"].as_u64().unwrap();
        (of("rx"), of("tx"))
    }

    /// Returns the number of datagrams dropped in a namespace because a socket buffer was full.
    pub(crate) fn datagrams_lost_by_sockets(&self, namespace: &str) -> u64 {
        let text = self.execute(namespace, &["cat", "/proc/net/snmp"]);
        let mut rows = text.lines().filter(|line| line.starts_with("Udp: "));
        let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
        let at = names.split(' ').position(|name| name == "RcvbufErrors").unwrap();
        values.split(' ').nth(at).unwrap().parse().unwrap()
    }

    /// Records received frames until stopped; the capture is open when this returns.
    pub(crate) fn record(
        &self,
        namespace: &str,
        interface: &'static str,
        filter: &'static str,
    ) -> FrameRecorder {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let (ready, listening) = mpsc::channel();
        let watching = self.within(namespace, move || {
            let mut capture = open_capture(interface, filter);
            ready.send(()).unwrap();
            let mut frames = Vec::new();
            loop {
                let last = stop.load(Ordering::Acquire);
                while let Ok(packet) = capture.next_packet() {
                    frames.push(packet.data.to_vec());
                }
                if last {
                    return frames;
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        listening.recv().unwrap();
        FrameRecorder { watching, stopped }
    }

    /// Starts a program in a namespace.
    pub(crate) fn spawn(&self, namespace: &str, command: &[&str]) -> Program {
        let mut program = Command::new("ip");
        program.args(["netns", "exec", &self.name(namespace)]).args(command);
        program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Program { child: Some(program.spawn().unwrap()) }
    }

    /// Waits until a program in a namespace listens on a TCP port.
    pub(crate) fn await_listener(&self, namespace: &str, port: u16) {
        let began = Instant::now();
        let filter = format!("sport = :{port}");
        while self.execute(namespace, &["ss", "-Hltn", &filter]).is_empty() {
            assert!(began.elapsed() < TIMEOUT, "no listener on port {port}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until `holds` is true.
    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < TIMEOUT, "{what}: not after {}: {TIMEOUT:?}", self.prefix);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a program in a namespace; returns its standard output.
    pub(crate) fn execute(&self, namespace: &str, command: &[&str]) -> String {
        let name = self.name(namespace);
        let output = run(&[&["netns", "exec", &name][..], command].concat());
        String::from_utf8(output).unwrap()
    }

    /// Runs a program like [`execute`](Self::execute), but does not require success; the result
    /// includes standard error.
    pub(crate) fn try_execute(&self, namespace: &str, command: &[&str]) -> String {
        let name = self.name(namespace);
        let mut program = Command::new("ip");
        let output = program.args(["netns", "exec", &name]).args(command).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Configures a host's address and default gateway.
    pub(crate) fn host(&self, namespace: &str, device: &str, address: &str, gateway: &str) {
        let of = self.name(namespace);
        run(&["-n", &of, "address", "add", address, "dev", device]);
        run(&["-n", &of, "route", "add", "default", "via", gateway]);
    }

    /// Returns whether the sender of a datagram to the closed port `address` receives an error.
    pub(crate) fn is_refused(&self, from: &str, address: &'static str) -> bool {
        let asking = self.within(from, move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect(address).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            socket.send(b"anybody?").unwrap();
            socket.recv(&mut [0]).unwrap_err().kind() == ErrorKind::ConnectionRefused
        });
        asking.join().unwrap()
    }

    /// Sends `bytes` by TCP to `address`; returns sums of what was sent and received.
    pub(crate) fn transfer(
        &self,
        from: &str,
        to: &str,
        address: &'static str,
        bytes: usize,
    ) -> (u64, u64) {
        self.transfer_by(from, (to, address), address, bytes)
    }

    /// Transfers like [`transfer`](Self::transfer), to a listener behind another address.
    pub(crate) fn transfer_by(
        &self,
        from: &str,
        (to, listens): (&str, &'static str),
        address: &'static str,
        bytes: usize,
    ) -> (u64, u64) {
        let sum = |data: &[u8]| data.iter().zip(1u64..).map(|(byte, k)| u64::from(*byte) * k).sum();
        let (ready, listening) = mpsc::channel();
        let receiving = self.within(to, move || {
            let listener = listen(listens);
            ready.send(()).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let mut data = Vec::new();
            stream.read_to_end(&mut data).unwrap();
            sum(&data)
        });
        listening.recv().unwrap();
        let sending = self.within(from, move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let data: Vec<u8> = (0..bytes).map(|k| (k * k % 251).to_le_bytes()[0]).collect();
            stream.write_all(&data).unwrap();
            sum(&data)
        });
        (sending.join().unwrap(), receiving.join().unwrap())
    }

    /// Starts the router; it forwards packets when this returns.
    pub(crate) fn start(&self, program: &str, file: &Path) -> Running {
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.name("router"), program, "route"])
            .arg(file)
            .args(["--json", "--for", "120 s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The router logs that its ports are open.
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (ready, opened) = mpsc::channel();
        let log = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&log);
        let reading = thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                *written.lock().unwrap() += &(line.clone() + "\n");
                if line.contains("ports are open") {
                    let _ = ready.send(());
                }
            }
        });
        let child = Running { child, log, reading };
        assert!(opened.recv_timeout(TIMEOUT).is_ok(), "the router did not start");
        child
    }
}

/// Opens a listener; waits while the address is in use.
///
/// A program that another test starts holds copies of this process's sockets until it executes, so
/// a listener that is closed may listen for a moment longer.
fn listen(address: &str) -> TcpListener {
    let began = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && began.elapsed() < TIMEOUT => {
                thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.unwrap(),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "del", &self.name(name)]).output();
        }
    }
}

pub(crate) struct Flood {
    sending: JoinHandle<u64>,
    stopped: Arc<AtomicBool>,
}

impl Flood {
    /// Stops the flood; returns the number of sent packets.
    pub(crate) fn stop(self) -> u64 {
        self.stopped.store(true, Ordering::Relaxed);
        self.sending.join().unwrap()
    }
}

/// A running program; dropping this value kills it.
pub(crate) struct Program {
    child: Option<Child>,
}

impl Program {
    /// Waits until the program succeeds; returns its standard output.
    pub(crate) fn finish(mut self) -> String {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stderr), text(&output.stdout));
        text(&output.stdout)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) struct FrameRecorder {
    watching: JoinHandle<Vec<Vec<u8>>>,
    stopped: Arc<AtomicBool>,
}

impl FrameRecorder {
    /// Stops recording; returns the first bytes of each received frame.
    pub(crate) fn stop(self) -> Vec<Vec<u8>> {
        self.stopped.store(true, Ordering::Release);
        self.watching.join().unwrap()
    }
}

pub(crate) struct Running {
    child: Child,
    log: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
}

impl Running {
    /// Returns whether the log contains `text`.
    pub(crate) fn has_logged(&self, text: &str) -> bool {
        self.log.lock().unwrap().contains(text)
    }

    /// Makes the router reload its file (SIGHUP).
    pub(crate) fn reload(&self) {
        self.signal(Signal::SIGHUP);
    }

    /// Pins the router to these processors.
    pub(crate) fn pin(&self, processors: &CpuSet) {
        sched_setaffinity(self.pid(), processors).unwrap();
    }

    /// Returns the lines of /proc/PID/status on privileges.
    pub(crate) fn privileges(&self) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let of = |line: &&str| line.starts_with("Cap") || line.starts_with("NoNew");
        status.lines().filter(of).collect::<Vec<_>>().join("\n")
    }

    /// Returns the status file of each thread.
    pub(crate) fn threads(&self) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status"));
        threads.map(|thread| status(thread.unwrap()).unwrap()).collect()
    }

    /// Stops the router by SIGINT; returns its report.
    pub(crate) fn stop(self) -> Value {
        self.stop_with_log().0
    }

    /// Returns the number of voluntary context switches of all threads.
    pub(crate) fn voluntary_switches(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let slept = |task: fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
        };
        tasks.flatten().map(slept).sum()
    }

    /// Stops the router by SIGINT; returns its report and its log.
    pub(crate) fn stop_with_log(self) -> (Value, String) {
        self.signal(Signal::SIGINT);
        let output = self.child.wait_with_output().unwrap();
        self.reading.join().unwrap();
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        (serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{log}")), log)
    }

    fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
}

/// Opens a capture of the first bytes of received frames that pass `filter`.
fn open_capture(interface: &str, filter: &str) -> pcap::Capture<pcap::Active> {
    let capture = pcap::Capture::from_device(interface).unwrap();
    let capture = capture.immediate_mode(true).buffer_size(64 << 20).snaplen(128);
    let mut capture = capture.timeout(100).open().unwrap().setnonblock().unwrap();
    capture.direction(pcap::Direction::In).unwrap();
    capture.filter(filter, true).unwrap();
    capture
}

fn run(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("ip").args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {errors}", arguments.join(" "));
    output.stdout
}
