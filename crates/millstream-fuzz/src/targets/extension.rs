//! No module makes loading or calling panic, lose a buffer or packet, or exceed its limits; errors
//! give a reason.

use millstream::Link;
use millstream_router::live::{
    Classifier, Clock, Extensions, Forwarder, LiveMachine, MemoryPort, NextHop, Pool, Routes,
};
use millstream_router::{InputId, Machine, OutputId, PathId, PortId, Verdict};
use millstream_scenario::{Match, RouterScenario};
use std::cell::LazyCell;
use std::fs;
use tempfile::TempDir;

use crate::{Mutation, Target, seeds};

pub(crate) const TARGET: Target = Target {
    name: "extension",
    first_parser: "WebAssembly validation, including the exports",
    seeds: modules,
    words: &[
        b"process",
        b"packet",
        b"memory",
        &[0x41, 0],
        &[0x6a],
        &[0x0b],
        &[0x0f],
        &[0x20, 0],
        &[0x21, 0],
        &[0x00],
        &[0x03, 0x40],
        &[0x0c, 0],
        &[0x40, 0],
        &[0x36, 2, 0],
        &[0x28, 2, 0],
    ],
    mutate,
    admits: Some(|module| load(module).is_some()),
    run,
};

/// Returns a module with this body of `process`.
fn module(body: &str) -> Vec<u8> {
    let text = format!(
        "(module (memory (export \"memory\") 1)
           (global (export \"packet\") i32 (i32.const 1024))
           (global $kept (mut i32) (i32.const 0))
           (data (i32.const 0) \"\\01\\02\")
           (func (export \"process\") (param $length i32) (result i32) {body}))"
    );
    wat::parse_str(text).expect("a module")
}

/// Changes bytes of the module, which mostly invalidates it, or builds a new body.
fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    if mutation.one_in(4) {
        let body = (0..mutation.below(3)).map(|_| statement(mutation)).collect::<String>();
        *input = module(&(body + &value(mutation, 4)));
    } else {
        mutation.bytes(input);
    }
}

/// Returns a statement of WebAssembly's text format.
fn statement(mutation: &mut Mutation) -> String {
    let (first, second) = (value(mutation, 2), value(mutation, 3));
    match mutation.below(6) {
        0 => format!("(i32.store8 {first} {second})"),
        1 => format!("(i32.store16 offset=1030 {first} {second})"),
        2 => format!("(global.set $kept {first})"),
        3 => format!("(if {first} (then (return {second})))"),
        4 => format!("(loop $again (local.set $length {second}) (br_if $again {first}))"),
        _ => format!("(drop {first})"),
    }
}

/// Returns a numeric expression, nested at most `depth` deep.
fn value(mutation: &mut Mutation, depth: usize) -> String {
    if depth == 0 || mutation.one_in(3) {
        return match mutation.below(4) {
            0 => "(global.get $kept)".to_owned(),
            1 => format!("(i32.const {})", mutation.number() & 0xffff_ffff),
            2 => format!("(i32.const {})", mutation.random.u32(..2_048)),
            _ => "(local.get $length)".to_owned(),
        };
    }
    let (first, second) = (value(mutation, depth - 1), value(mutation, depth - 1));
    let binary = ["add", "sub", "mul", "div_u", "rem_s", "and", "xor", "shl", "lt_u", "eq"];
    match mutation.below(6) {
        0 => format!("(i32.load8_u {first})"),
        1 => format!("(i32.load offset=1036 {first})"),
        2 => format!("(memory.grow {first})"),
        3 => format!("(select {first} {second} (local.get $length))"),
        _ => format!("(i32.{} {first} {second})", mutation.of(&binary)),
    }
}

/// Modules that forward, drop, modify, trap, run out of fuel or memory, and return invalid lengths.
fn modules() -> Vec<Vec<u8>> {
    let bodies = [
        "(local.get $length)",
        "(i32.const 0)",
        "(i32.store8 (i32.const 1040) (i32.const 184)) (local.get $length)",
        "unreachable",
        "(loop $again (br $again)) (i32.const 1)",
        "(drop (memory.grow (i32.const 1))) (local.get $length)",
        "(i32.add (local.get $length) (i32.const 5000))",
        "(i32.div_u (local.get $length) (i32.load (i32.const 0)))",
        "(if (i32.lt_u (local.get $length) (i32.const 42)) (then (return (i32.const 0))))
         (i32.load16_u offset=2 (i32.const 1036))",
    ];
    let mut modules: Vec<Vec<u8>> = bodies.iter().map(|body| module(body)).collect();
    modules.push(seeds::file("examples/router/mark.wasm"));
    modules
}

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

/// Returns a UDP packet of 60 bytes to 10.2.0.1.
fn frame() -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([4, 4, 4, 4, 4, 4, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 0, 0]);
    frame.extend([10, 1, 0, 1, 10, 2, 0, 1]);
    frame.resize(60, 0);
    let words = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let [.., high, low] = (!((sum & 0xffff) + (sum >> 16))).to_be_bytes();
    frame[24..26].copy_from_slice(&[high, low]);
    frame
}

/// Loads this module as a path's extension. Returns the router's extensions; `None` if the module
/// is rejected.
fn load(module: &[u8]) -> Option<Extensions> {
    FOLDER.with(|folder| {
        let scenario =
            RouterScenario::parse("fuzz.toml", FILE, folder.path()).expect("a valid scenario");
        fs::write(folder.path().join("module.wasm"), module).expect("written");
        match Extensions::load(&scenario) {
            Ok(extensions) => Some(extensions),
            Err(error) => {
                assert!(error.to_string().contains("module.wasm") && error.help.is_some());
                None
            }
        }
    })
}

fn run(module: &[u8]) -> bool {
    let Some(extensions) = load(module) else { return false };
    let mut routes = Routes::default();
    let hop = NextHop { output: PortId(0), from: MAC, to: [9; 6] };
    routes.add("0.0.0.0/0".parse().expect("a prefix"), hop);
    let classifier = Classifier::new(vec![Match::default()]);
    let function = Forwarder::new(routes);
    let mut machine = LiveMachine::new(Clock::default(), Pool::new(BUFFERS), classifier, function);
    machine.add(MemoryPort::new(vec![frame()], PACKETS), MAC, Link::new(1_000_000_000, 0));
    machine.set_extensions(extensions, &[]);
    let mut read = Vec::new();
    let (mut sent, mut dropped) = (0, 0);
    while machine.receive(InputId(0), 1, &mut read) > 0 {
        let (path, mut packet) = read.pop().expect("a packet of the only path");
        if machine.forward(path, &mut packet) == Verdict::Send(OutputId(0)) {
            assert_eq!(machine.transmit(OutputId(0), &[packet]), 1);
            sent += 1;
        } else {
            machine.discard(packet);
            dropped += 1;
        }
    }
    let did = machine.extension_counters(PathId(0)).expect("an extension on path 0");
    let failed = did.out_of_fuel + did.over_memory + did.trapped + did.bad_length;
    assert_eq!(did.called + did.while_stopped, PACKETS);
    assert!(failed + did.dropped + did.while_stopped <= dropped && sent + dropped == PACKETS);
    assert_eq!(machine.free_buffers(), BUFFERS as usize);
    true
}
