//! No bytes of a module make its loading or its calls panic, lose a buffer or a packet, or take more than it
//! may; what is refused says why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_router::live::{
    Classifier, Clock, Extensions, Forwarder, Hop, LiveMachine, MemoryPort, Pool, Routes,
};
use millstream_router::{Machine, Verdict};
use millstream_scenario::{Match, RouterScenario};
use std::cell::LazyCell;
use std::fs;
use tempfile::TempDir;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BUFFERS: u32 = 8;
const PACKETS: u64 = 6;
const FILE: &str = r#"
[router]
[[port]]
name = "a"
kind = "tap"
rate = "1 Gbps"
address = "10.0.0.1/24"
[[path]]
name = "all"
extension = { module = "module.wasm", memory = "128 KiB", fuel = 5000, faults = 3 }
"#;

thread_local! {
    static FOLDER: LazyCell<TempDir> = LazyCell::new(|| TempDir::new().expect("a folder"));
}

/// A UDP packet of 60 bytes to 10.2.0.1.
fn frame() -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([4, 4, 4, 4, 4, 4, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 0, 0]);
    frame.extend([10, 1, 0, 1, 10, 2, 0, 1]);
    frame.resize(60, 0);
    let words = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fuzz_target!(|module: &[u8]| {
    FOLDER.with(|folder| {
        let scenario = RouterScenario::parse("fuzz.toml", FILE, folder.path()).expect("right");
        fs::write(folder.path().join("module.wasm"), module).expect("written");
        let extensions = match Extensions::load(&scenario) {
            Ok(extensions) => extensions,
            Err(error) => {
                assert!(error.to_string().contains("module.wasm") && error.help.is_some());
                return;
            }
        };
        let mut routes = Routes::default();
        let hop = Hop { output: 0, from: MAC, to: [9; 6] };
        routes.add("0.0.0.0/0".parse().expect("a prefix"), hop);
        let classifier = Classifier::new(vec![Match::default()]);
        let function = Forwarder::new(routes);
        let mut machine =
            LiveMachine::new(Clock::default(), Pool::new(BUFFERS), classifier, function);
        machine.add(MemoryPort::new(vec![frame()], PACKETS), MAC, 1_000_000_000, 0);
        machine.extend(extensions, &[]);
        let mut read = Vec::new();
        let (mut sent, mut dropped) = (0, 0);
        while machine.receive(0, 1, &mut read) > 0 {
            let (path, mut packet) = read.pop().expect("of the only path");
            if machine.forward(path, &mut packet) == Verdict::Send(0) {
                assert_eq!(machine.transmit(0, &[packet]), 1);
                sent += 1;
            } else {
                machine.discard(packet);
                dropped += 1;
            }
        }
        let did = machine.extension(0).expect("it is there");
        let failed = did.out_of_fuel + did.over_memory + did.trapped + did.bad_length;
        assert_eq!(did.called + did.while_stopped, PACKETS);
        assert!(failed + did.dropped + did.while_stopped <= dropped && sent + dropped == PACKETS);
        assert_eq!(machine.free_buffers(), BUFFERS as usize);
    });
});
