//! The cost of a frame, part by part, for the benchmark `frame`.
//!
//! The dispatcher runs without a clock, so it processes its frames back to back, with or without
//! the work after a decision.

use millstream::selector::Selector;
use millstream::{Dwcs, EdfFirst, Heap};
use millstream_extension::Limits;
use millstream_scenario::{Allowance, Scenario};
use std::io;
use std::net::UdpSocket;
use std::time::Instant;

use crate::data_plane::packet_sender::{Network, write_packet};
use crate::files::library::Library;
use crate::instruction::api;
use crate::instruction::compiler::Compiler;
use crate::instruction::runtime::Instructions;
use crate::scheduler::client::{Client, ReportTime};
use crate::scheduler::dispatch::{Dispatch, PacketSender, Sending};
use crate::scheduler::frame_filter::FrameFilter;
use crate::shared_memory::instruction_table::NewInstruction;
use crate::shared_memory::region::{
    GlobalField, Region, RequestedState, SessionField, link_fields,
};
use crate::wake_socket::event_counter;

/// The work after a frame was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// No work: scheduling only.
    Scheduling,
    /// Write the frame's RTP packets to memory, headers and payload.
    Packets,
    /// Send the frame to a socket on loopback that has no reader.
    Kernel,
}

/// The mean cost of a frame, ns.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The number of processed frames.
    pub frames: u64,
    /// The time per frame, ns.
    pub frame_ns: u64,
    /// The kernel's part of the time per frame, ns.
    pub kernel_ns: u64,
}

/// A packet sender that writes packets to memory if `written`, and discards them.
struct DiscardingSender {
    written: bool,
    buffer: Vec<u8>,
}

impl PacketSender for DiscardingSender {
    fn packets(&mut self, of: &Sending<'_>, first: usize, packets: usize) -> bool {
        if !self.written {
            return true;
        }
        self.buffer.clear();
        let all = of.packets.records;
        for (at, packet) in all.iter().enumerate().skip(first).take(packets) {
            write_packet(&mut self.buffer, of, at, packet, at + 1 == all.len());
        }
        std::hint::black_box(&mut self.buffer);
        true
    }

    fn report(&mut self, _: &Client, _: ReportTime, _: bool) {}
}

/// Plays the scenario's first file to `clients` clients for `periods` periods.
///
/// If there is a module `filter`, it filters each frame.
///
/// # Errors
/// Fails if a socket or the memory cannot be created.
///
/// # Panics
/// Panics if the scenario cannot be served, or the module cannot be used.
pub fn frame(
    scenario: &Scenario,
    clients: u32,
    periods: u64,
    part: Part,
    filter: Option<&[u8]>,
) -> io::Result<Cost> {
    let library = Library::open(scenario).expect("a valid media scenario");
    let (region, _file) = Region::create_with(clients, filter.is_some())?;
    for (field, value) in link_fields(scenario.link.wire()) {
        region.set(field, value);
    }
    let selector = Selector::new(Dwcs::<EdfFirst>::default(), Heap::default());
    let period_ns = library.store.media()[0].period_ns;
    let mut dispatch = Dispatch::new(library.store, region, selector, Instructions::default(), 0);
    if let Some((table, wasm)) = region.instruction_table().zip(filter) {
        let Allowance { memory_bytes, fuel, faults } = Allowance::default();
        let limits = Limits { memory_bytes, fuel, faults };
        let (name, streams, wasm) = ("filter".to_owned(), api::ALL, wasm.to_vec());
        table.slot(0).write(&NewInstruction { name, limits, streams, wasm });
        dispatch.filter = Instructions::open(table, Compiler::start(table, || ())?);
        assert!(dispatch.filter.filters(0), "the module has no filter");
    }
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    let sink = sink.local_addr()?;
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let [rtp, rtcp] = sockets;
    let mut network = Network::new(rtp, rtcp, event_counter()?, region)?;
    let mut discarding = DiscardingSender { written: part == Part::Packets, buffer: Vec::new() };
    let mut step = |now_ns| match part {
        Part::Kernel => dispatch.step(now_ns, &mut network),
        _ => dispatch.step(now_ns, &mut discarding),
    };
    for client in 0..clients {
        let row = region.session(client as usize);
        row.set_address(sink.ip(), sink.port(), sink.port());
        row.set(SessionField::RequestedState, RequestedState::Play as u64);
        region.notices().push([client.into(), 0, 0, 0]);
        // The clients start at different phases of the period.
        step(u64::from(client) * period_ns / u64::from(clients));
    }
    let sent = || (0..clients as usize).map(|at| region.session(at).resolved()).sum::<u64>();
    let (mut now_ns, end_ns) = (period_ns, period_ns * (periods + 1));
    let (before, kernel_ns, begun) = (sent(), region.get(GlobalField::SendingNs), Instant::now());
    while now_ns < end_ns {
        now_ns = step(now_ns).max(now_ns + 1);
    }
    let whole_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let frames = (sent() - before).max(1);
    let kernel_ns = (region.get(GlobalField::SendingNs) - kernel_ns) / frames;
    Ok(Cost { frames, frame_ns: whole_ns / frames, kernel_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_part_measures_every_frame_of_every_client() {
        let text = "[link]\nrate = \"1 Gbit/s\"\n[scheduler]\ndiscipline = \"dwcs\"\n[[stream]]\n\
                    name = \"film\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
                    source = { kind = \"mpeg\", file = \"clip.mpg\" }\n";
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data");
        let scenario = Scenario::parse("a.toml", text, &folder).unwrap();
        for part in [Part::Scheduling, Part::Packets, Part::Kernel] {
            let cost = frame(&scenario, 3, 20, part, None).unwrap();
            assert_eq!(cost.frames, 60, "{part:?}");
            assert_eq!(cost.kernel_ns > 0, part == Part::Kernel);
            let filter = crate::instruction::tests::module("(i32.const 1)", "(i32.const 0)");
            assert_eq!(frame(&scenario, 3, 20, part, Some(&filter)).unwrap().frames, 60);
        }
    }
}
