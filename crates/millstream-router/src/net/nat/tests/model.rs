//! NAT compared with a linear list of flows, and tested on random bytes.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

/// An event: a host sends, or a server answers to an external port.
#[derive(Clone, Debug)]
enum Event {
    Send(u8, u8, u16, u8),
    Answer(u8, u8, u16),
    Wait(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let protocol = || prop_oneof![Just(UDP), Just(TCP), Just(ICMP)];
    let port = || 1_020..1_030u16;
    let event = prop_oneof![
        4 => (protocol(), 0..4u8, port(), 0..3u8).prop_map(|(p, h, n, s)| Event::Send(p, h, n, s)),
        4 => (protocol(), 0..3u8, port()).prop_map(|(p, s, n)| Event::Answer(p, s, n)),
        1 => (0..400u64).prop_map(|seconds| Event::Wait(seconds * SECOND)),
    ];
    vec(event, 0..200)
}

/// Forwarded ports: protocol, external port, and the host's end.
fn forwards() -> impl Strategy<Value = Vec<(u8, u16, End)>> {
    let end = (0..4u8, 1_020..1_030u16).prop_map(|(number, port)| host(number, port));
    let forward = ((prop_oneof![Just(UDP), Just(TCP)], 1_020..1_030u16), end);
    btree_map(forward.0, forward.1, 0..4).prop_map(|map| {
        map.into_iter().map(|((protocol, port), to)| (protocol, port, to)).collect()
    })
}

/// Removes from `list` the flow evicted for one of `host`. A flow is evicted only from a full
/// table. It is unanswered, and its host has been silent the longest of all or of this host. The
/// list is ordered by the hosts' last packets.
fn evict(
    nat: &Nat,
    before: &[Flow],
    list: &mut Vec<Flow>,
    host: End,
    (flows, host_flows): (u32, u32),
) -> Result<(), TestCaseError> {
    let gone = list.iter().position(|flow| !nat.inside.contains_key(&flow.inside()));
    let Some(gone) = gone else { return Ok(()) };
    let of_host = |flow: &&Flow| flow.host.0 == host.0;
    let has_its_flows = before.iter().filter(of_host).count() >= host_flows as usize;
    prop_assert!(has_its_flows || before.len() >= flows as usize, "evicted from a table with room");
    let mut pending = list.iter().filter(|flow| !flow.is_settled());
    let oldest =
        if has_its_flows { pending.find(of_host) } else { pending.next() }.map(Flow::inside);
    prop_assert_eq!(Some(list.remove(gone).inside()), oldest);
    prop_assert!(list.iter().all(|flow| nat.inside.contains_key(&flow.inside())), "two evictions");
    Ok(())
}

/// Returns whether no flow can be evicted for another flow of `host`.
fn no_flow_is_evictable(list: &[Flow], host: End, host_flows: u32) -> bool {
    let of_host: Vec<&Flow> = list.iter().filter(|flow| flow.host.0 == host.0).collect();
    let has_its_flows = of_host.len() >= host_flows as usize;
    of_host.iter().all(|flow| flow.is_settled())
        && (has_its_flows || list.iter().all(Flow::is_settled))
}

proptest! {
    /// Compares receivers, external ports and the remaining flows with those of a list.
    #[test]
    fn nat_equals_a_list_of_flows(
        events in events(),
        flows in 1..20u32,
        host_flows in 1..8u32,
        forwards in forwards(),
    ) {
        let mut nat = Nat::new(&port(flows, host_flows, &forwards));
        let mut list: Vec<Flow> = Vec::new();
        let mut now_ns = 0;
        for event in events {
            let of_host = |list: &[Flow], host: End| {
                list.iter().filter(|flow| flow.host.0 == host.0).count()
            };
            // The flows of the table, expired ones included.
            let before: Vec<Flow> = nat.flows.iter().copied().flatten().collect();
            match event {
                Event::Wait(wait_ns) => now_ns += wait_ns,
                Event::Send(protocol, from, port, to) => {
                    let from = host(from, port);
                    let to = (server(to).0, if protocol == ICMP { 0 } else { 80 });
                    let sent = send(&mut nat, protocol, from, to, now_ns);
                    list.retain(|flow| !flow.is_expired(now_ns));
                    let found = list.iter().position(|flow| flow.inside() == (protocol, from, to));
                    match (found, sent) {
                        (Some(at), sent) => {
                            let mut flow = list.remove(at);
                            prop_assert_eq!(sent, Some(flow.port));
                            flow.last_ns = now_ns;
                            flow.host_has_sent = true;
                            let opener = protocol == TCP && !flow.from_outside;
                            flow.established |= opener && flow.answered;
                            list.push(flow);
                        }
                        (None, Some(ours)) => {
                            evict(&nat, &before, &mut list, from, (flows, host_flows))?;
                            let taken = |port| {
                                list.iter().any(|flow| flow.outside() == (protocol, port, to))
                            };
                            prop_assert!(!taken(ours));
                            let forward =
                                forwards.iter().find(|of| (of.0, of.2) == (protocol, from));
                            let of_another = |port| {
                                let is = |of: &(u8, u16, End)| (of.0, of.1) == (protocol, port);
                                forwards.iter().any(is) && forward.is_none_or(|of| of.1 != port)
                            };
                            prop_assert!(!of_another(ours));
                            let low = port < FIRST_PORT && protocol != ICMP;
                            let keeps = !low && !taken(port) && !of_another(port);
                            match forward.map(|of| of.1).filter(|port| !taken(*port)) {
                                Some(published) => prop_assert_eq!(ours, published),
                                None => prop_assert_eq!(keeps, ours == port),
                            }
                            list.push(Flow {
                                protocol,
                                host: from,
                                port: ours,
                                other: to,
                                from_outside: false,
                                last_ns: now_ns,
                                host_has_sent: true,
                                answered: false,
                                established: false,
                                ended: false,
                            });
                        }
                        // An expired flow is removed only when a search finds it.
                        (None, None) => {
                            evict(&nat, &before, &mut list, from, (flows, host_flows))?;
                            let full = list.len() >= flows as usize
                                || of_host(&list, from) >= host_flows as usize
                                || nat.counters().flows > list.len() as u64;
                            prop_assert!(full);
                            prop_assert!(no_flow_is_evictable(&list, from, host_flows));
                        }
                    }
                    prop_assert!(of_host(&list, from) <= host_flows as usize);
                }
                Event::Answer(protocol, from, port) => {
                    let from = (server(from).0, if protocol == ICMP { 0 } else { 80 });
                    let reached = answer(&mut nat, protocol, from, port, now_ns);
                    list.retain(|flow| !flow.is_expired(now_ns));
                    let outside = (protocol, port, from);
                    let found = list.iter_mut().find(|flow| flow.outside() == outside);
                    let forward = forwards.iter().find(|of| (of.0, of.1) == (protocol, port));
                    match (found, forward) {
                        (Some(flow), _) => {
                            prop_assert_eq!(reached, Some(flow.host));
                            let acknowledged = flow.host_has_sent && protocol == TCP;
                            flow.answered |= !flow.from_outside || acknowledged;
                            flow.established |= flow.from_outside && acknowledged;
                            if protocol == TCP {
                                flow.last_ns = now_ns;
                            }
                        }
                        (None, None) => prop_assert_eq!(reached, None),
                        (None, Some((_, _, end))) if reached.is_some() => {
                            prop_assert_eq!(reached, Some(*end));
                            evict(&nat, &before, &mut list, *end, (flows, host_flows))?;
                            let flow = Flow {
                                protocol,
                                host: *end,
                                port,
                                other: from,
                                from_outside: true,
                                last_ns: now_ns,
                                host_has_sent: false,
                                answered: false,
                                established: false,
                                ended: false,
                            };
                            prop_assert!(list.iter().all(|of| of.inside() != flow.inside()));
                            list.push(flow);
                            prop_assert!(of_host(&list, *end) <= host_flows as usize);
                        }
                        (None, Some((_, _, end))) => {
                            evict(&nat, &before, &mut list, *end, (flows, host_flows))?;
                            let full = list.len() >= flows as usize
                                || of_host(&list, *end) >= host_flows as usize
                                || nat.counters().flows > list.len() as u64
                                || list.iter().any(|of| of.inside() == (protocol, *end, from));
                            prop_assert!(full);
                            let known = list.iter().any(|of| of.inside() == (protocol, *end, from));
                            prop_assert!(known || no_flow_is_evictable(&list, *end, host_flows));
                        }
                    }
                }
            }
            prop_assert!(list.len() <= flows as usize);
            for flow in &list {
                let slot = nat.inside.get(&flow.inside());
                let known = slot.map(|slot| nat.flows[*slot as usize].unwrap().is_settled());
                prop_assert_eq!(known, Some(flow.is_settled()), "{:?}", flow);
            }
        }
    }

    #[test]
    fn no_frame_makes_it_panic(
        mut bytes in vec(any::<u8>(), 0..160), kind in 0..4u8, flow in any::<bool>()
    ) {
        let mut nat = Nat::new(&port(2, 2, &[(UDP, 0x0f_a0, host(2, 53))]));
        if flow {
            send(&mut nat, UDP, host(1, 4_000), server(1), 0);
        }
        if bytes.len() > 42 && kind > 0 {
            bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
            let length = u16::try_from(bytes.len() - 14).unwrap();
            bytes[16..18].copy_from_slice(&length.to_be_bytes());
            bytes[20..22].fill(0);
            bytes[23] = [0, ICMP, TCP, UDP][usize::from(kind)];
            if kind == 1 {
                bytes[34] = 3;
                bytes[42] = bytes[42] % 32 + 0x40;
                if bytes.len() > 70 && flow {
                    // Makes the error quote the flow's packet.
                    bytes[48..50].fill(0);
                    bytes[51] = UDP;
                    bytes[54..58].copy_from_slice(&US.octets());
                    bytes[58..62].copy_from_slice(&server(1).0.octets());
                    bytes[62..66].copy_from_slice(&[15, 160, 0, 80]);
                }
                bytes[36..38].fill(0);
                let right = sum(&bytes[34..]);
                bytes[36..38].copy_from_slice(&right.to_be_bytes());
            }
        }
        let length = bytes.len();
        let _ = (nat.inbound(&mut bytes, US, 0), nat.outbound(&mut bytes, US, 0));
        nat.reflect(&mut bytes, US, 0);
        nat.translate_own_error(&mut bytes, US);
        prop_assert_eq!(bytes.len(), length);
    }
}
