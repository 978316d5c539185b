//! Tests of received packets: the output's length limit, and filters with the flow cache.

use etherparse::PacketBuilder;
use millstream::Link;
use millstream_scenario::{Match, RouterScenario};
use millstream_sync::clock::tsc::Clock;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::error::PortError;
use crate::ids::{InputId, OutputId, PacketHandle, PathId, PortId};
use crate::io::port::Port;
use crate::live::machine::LiveMachine;
use crate::live::netlink::{Change, NextHopKind};
use crate::net::classifier::Classifier;
use crate::net::filter::Filters;
use crate::net::forwarder::Forwarder;
use crate::net::pool::Pool;
use crate::router::machine::{Machine, Verdict};

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 0, 9];
const LONGEST_BYTES: u32 = 200;

/// A port that receives these frames and carries frames of up to [`LONGEST_BYTES`].
struct Frames(Vec<Vec<u8>>);

impl Port for Frames {
    fn receive(
        &mut self,
        pool: &mut Pool,
        _: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        into.extend(self.0.drain(..).filter_map(|frame| pool.copy(&frame)));
        Ok(into.len())
    }

    fn transmit(&mut self, _: &mut Pool, _: &[PacketHandle]) -> Result<usize, PortError> {
        Ok(0)
    }

    fn ended(&self) -> bool {
        self.0.is_empty()
    }

    fn longest_bytes(&self) -> u32 {
        LONGEST_BYTES
    }
}

/// Returns a frame of one UDP flow, `bytes` long.
fn frame(bytes: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(NEIGHBOUR, ROUTER);
    let builder = builder.ipv4([10, 1, 0, 9], [10, 2, 0, 9], 9).udp(1, 2);
    builder.write(&mut frame, &vec![0; bytes as usize - 42]).unwrap();
    frame
}

/// Returns a machine with ports 0 and 1; port 0 receives frames of `lengths`.
fn machine(lengths: &[u32], classifier: Classifier) -> LiveMachine<Frames> {
    let (pool, function) = (Pool::new(64), Forwarder::new(Default::default()));
    let mut machine = LiveMachine::new(Clock::default(), pool, classifier, function);
    let frames = lengths.iter().map(|bytes| frame(*bytes)).collect();
    machine.add(Frames(frames), ROUTER, Link::new(1_000_000_000, 0));
    machine.add(Frames(Vec::new()), ROUTER, Link::new(1_000_000_000, 0));
    machine
}

#[test]
fn a_packet_longer_than_the_outputs_frames_is_dropped() {
    let lengths = [LONGEST_BYTES, LONGEST_BYTES + 1];
    let mut machine = machine(&lengths, Classifier::new(vec![Match::default()]));
    let host = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 9));
    machine.kernel_changed(&[
        Change::Route("10.2.0.0/16".parse().unwrap(), Some(NextHopKind::Port(PortId(1), None))),
        Change::Neighbour(PortId(1), host, Some(NEIGHBOUR)),
    ]);
    let mut received = Vec::new();
    machine.receive(InputId(0), 8, &mut received);
    let verdicts =
        received.into_iter().map(|(path, mut packet)| machine.forward(path, &mut packet));
    assert_eq!(verdicts.collect::<Vec<_>>(), [Verdict::Send(OutputId(1)), Verdict::Drop]);
}

/// A filter matches on the length, which the flow cache does not compare.
#[test]
fn filters_keep_flows_out_of_the_flow_cache() {
    let mut text = "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
                    address = \"10.1.0.1/24\"\n"
        .to_owned();
    for filter in ["greater 150", "ip"] {
        text += &format!("[[path]]\nname = \"{filter}\"\nmatch = {{ filter = '{filter}' }}\n");
    }
    let scenario = RouterScenario::parse("test.toml", &text, Path::new("")).unwrap();
    let classifier =
        Classifier::new(vec![Match::default(); 2]).with_filters(Filters::load(&scenario).unwrap());
    let mut machine = machine(&[160, 100, 160], classifier);
    let mut received = Vec::new();
    machine.receive(InputId(0), 8, &mut received);
    let paths = received.into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(paths, [0, 1, 0].map(PathId));
}
