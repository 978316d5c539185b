//! Detection of cycles in which packets wait for each other.
//!
//! This is the channel-dependency graph of Dally and Seitz, *Deadlock-free message routing in
//! multiprocessor interconnection networks* (IEEE Transactions on Computers, 1987). Its vertices
//! are the channels, here each (link, layer). An edge joins two channels if some packet arrives on
//! the first and departs on the second.

use super::{Node, Topology};

/// A channel as one number: twice the link, plus the layer.
type Channel = usize;

/// Returns a cycle of channels, if there is one.
pub(super) fn cycle(topology: &Topology) -> Option<Vec<(usize, u8)>> {
    let successors = dependencies(topology);
    // Repeatedly remove channels that wait for nothing. If channels remain, each waits for another
    // remaining channel.
    let mut waits: Vec<usize> = successors.iter().map(Vec::len).collect();
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (channel, successors) in successors.iter().enumerate() {
        for &successor in successors {
            predecessors[successor].push(channel);
        }
    }
    let mut free: Vec<Channel> = (0..waits.len()).filter(|&channel| waits[channel] == 0).collect();
    while let Some(channel) = free.pop() {
        for &predecessor in &predecessors[channel] {
            waits[predecessor] -= 1;
            if waits[predecessor] == 0 {
                free.push(predecessor);
            }
        }
    }
    let mut channel = waits.iter().position(|&waits| waits > 0)?;
    let mut position = vec![None; waits.len()];
    let mut walk = Vec::new();
    while position[channel].is_none() {
        position[channel] = Some(walk.len());
        walk.push(channel);
        channel = *successors[channel].iter().find(|&&successor| waits[successor] > 0)?;
    }
    let start = position[channel]?;
    Some(walk[start..].iter().map(|&channel| (channel / 2, u8::from(channel % 2 == 1))).collect())
}

/// Returns the successors of each channel, over all sources and destinations.
///
/// Injection links are left out: they have no predecessor, so none is on a cycle.
fn dependencies(topology: &Topology) -> Vec<Vec<Channel>> {
    let mut successors = vec![Vec::new(); 2 * topology.links().len()];
    let mut homes: Vec<u32> = (0..topology.end_points())
        .filter_map(|end_point| match topology.links()[topology.injection_link(end_point)].to {
            Node::Switch(switch) => Some(switch),
            Node::EndPoint(_) => None,
        })
        .collect();
    homes.sort_unstable();
    homes.dedup();
    // The last destination with a route through each switch. The rest of that route is recorded.
    let mut visited = vec![None; topology.switches() as usize];
    for destination in 0..topology.end_points() {
        for &home in &homes {
            let (mut switch, mut previous) = (home, None::<Channel>);
            loop {
                let hop = topology.hop(switch, destination);
                let Some(link) = topology.output_link(switch, hop.port) else { break };
                let channel = 2 * link + usize::from(hop.layer);
                if let Some(previous) = previous
                    && !successors[previous].contains(&channel)
                {
                    successors[previous].push(channel);
                }
                if visited[switch as usize].replace(destination) == Some(destination) {
                    break;
                }
                let Node::Switch(next) = topology.links()[link].to else { break };
                (switch, previous) = (next, Some(channel));
            }
        }
    }
    successors
}
