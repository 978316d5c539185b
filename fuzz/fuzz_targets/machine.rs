//! No frames make a router with addresses of its own panic or lose a buffer: ARP, neighbour discovery, echo, ICMP
//! errors, classification, translation and forwarding together, on a port for frames without a VLAN and on one for VLAN 10.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_router::live::{
    Classifier, Clock, Forwarder, LiveMachine, MemoryPort, Pool, Routes, VlanPort,
};
use millstream_router::{Machine, Verdict};
use millstream_scenario::{Match, PcpSource, PortForward, PortNat};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BUFFERS: u32 = 64;

fuzz_target!(|frames: Vec<&[u8]>| {
    let frames: Vec<Vec<u8>> = frames.into_iter().take(64).map(<[u8]>::to_vec).collect();
    let many = frames.len();
    let mut routes = Routes::default();
    let net = "10.0.0.1/24".parse().expect("a network");
    routes.add_resolved(net, 0, MAC, None);
    routes.add_resolved("10.9.0.0/16".parse().expect("a prefix"), 0, MAC, "10.0.0.9".parse().ok());
    let net_v6 = "2001:db8:1::1/64".parse().expect("a network");
    routes.add_resolved(net_v6, 0, MAC, None);
    let far = "2001:db8:9::/48".parse().expect("a prefix");
    routes.add_resolved(far, 0, MAC, "fe80::9".parse().ok());
    let other = "10.1.0.1/24".parse().expect("a network");
    routes.add_resolved(other, 1, MAC, None);
    let voice = Match { dscp: Some(46), ..Match::default() };
    let calls = Match { pcp: Some(5), vlan: Some(10), ..Match::default() };
    let classifier = Classifier::new(vec![voice, calls]);
    let function = Forwarder::new(routes);
    let mut machine = LiveMachine::new(Clock::default(), Pool::new(BUFFERS), classifier, function);
    let device = MemoryPort::new(frames, many as u64);
    let vlans = [(None, PcpSource::Keep), (Some(10), PcpSource::Dscp)];
    for port in VlanPort::share(device, &vlans) {
        machine.add(port, MAC, 1_000_000_000, 0);
    }
    machine.set_address(0, [net, net_v6]);
    machine.set_address(1, [other]);
    let to = "10.1.0.5:53".parse().expect("a host's port");
    let forwards = vec![PortForward { protocol: 17, port: 53, to }];
    machine.translate(0, Some(&PortNat { flows: 4, host_flows: 2, check_source: true, forwards }));
    let mut read = Vec::new();
    while machine.receive(0, 8, &mut read) + machine.receive(1, 8, &mut read) > 0 {
        for (path, mut packet) in read.drain(..) {
            match machine.forward(path, &mut packet) {
                Verdict::Send(output) if machine.transmit(output, &[packet]) == 1 => {}
                Verdict::Hold => {}
                Verdict::Send(_) | Verdict::Drop | Verdict::Consume => machine.discard(packet),
            }
        }
        machine.give_back(false, &mut read);
    }
    machine.give_back(true, &mut read);
    for (_, packet) in read.drain(..) {
        machine.discard(packet);
    }
    assert_eq!(machine.free_buffers(), BUFFERS as usize);
});
