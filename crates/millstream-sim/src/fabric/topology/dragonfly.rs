//! The dragonfly: groups of switches, with one cable between every two groups.

use super::builder::{Builder, MAX_END_POINTS, Size, check_range};
use super::table::Table;
use super::{Node, Topology, TopologyError};

/// Builds a dragonfly with minimal routing: a local, a global and a local hop.
///
/// A packet goes to the switch of its group with the cable to the destination's group. It crosses
/// that cable, then goes to the destination's switch.
///
/// Each switch has `end_points` (p) end-points and `globals` (h) cables to other groups. Each group
/// has `switches` (a) switches, all connected to each other; there are a·h + 1 groups. A switch's
/// ports are those to its end-points, then to the other switches of its group in order, then to
/// other groups. Cable c of a group, counted over its switches, leads to the group c + 1 further
/// on, modulo the number of groups.
///
/// Paths have 2 to 5 links. Links between switches use layer 1 in the destination's group and layer
/// 0 before it. Hence local links of one layer never wait for themselves through another group.
///
/// Source: Kim, Dally, Scott and Abts, *Technology-driven, highly-scalable dragonfly topology*
/// (ISCA 2008), sections 3 and 4.
///
/// # Errors
/// Fails if a parameter is 0 or the network would be too large.
pub fn dragonfly(end_points: u32, switches: u32, globals: u32) -> Result<Topology, TopologyError> {
    check_range("end_points", end_points, 1..=MAX_END_POINTS, "1 to 16384")?;
    check_range("switches", switches, 1..=MAX_END_POINTS, "1 to 16384")?;
    check_range("globals", globals, 1..=MAX_END_POINTS, "1 to 16384")?;
    let (p, a, h) = (end_points, switches, globals);
    let groups = u64::from(a) * u64::from(h) + 1;
    let size = Size {
        end_points: groups * u64::from(a) * u64::from(p),
        switches: groups * u64::from(a),
        ports: u64::from(p) + u64::from(a) - 1 + u64::from(h),
    };
    let (end_points, switches) =
        size.check(|| format!("end_points {p}, switches {a} and globals {h}"))?;
    let groups = switches / a;
    let first_global = p + a - 1;
    // Port of a group's member to another member; a member has no port to itself.
    let local = |from: u32, to: u32| p + if to < from { to } else { to - 1 };

    let mut builder = Builder::uniform(end_points, switches, first_global + h);
    for end_point in 0..end_points {
        builder.attach(end_point, end_point / p, end_point % p);
    }
    for group in 0..groups {
        for member in 0..a {
            let switch = group * a + member;
            for other in member + 1..a {
                let to = Node::Switch(group * a + other);
                builder.cable(Node::Switch(switch), local(member, other), to, local(other, member));
            }
            for global in 0..h {
                let cable = member * h + global;
                let far = (group + cable + 1) % groups;
                // Index of this cable in the far group, where it leads the rest of the way around.
                let back = a * h - 1 - cable;
                if group < far {
                    let to = Node::Switch(far * a + back / h);
                    let port = first_global + back % h;
                    builder.cable(Node::Switch(switch), first_global + global, to, port);
                }
            }
        }
    }

    let table = Table::by_rule(switches, end_points, |switch, destination| {
        let last = destination / p;
        if switch == last {
            return (destination % p, 0);
        }
        let (group, member) = (switch / a, switch % a);
        let (far, last_member) = (last / a, last % a);
        if group == far {
            return (local(member, last_member), 1);
        }
        let ahead = if group < far { far - group } else { far + groups - group };
        let (gateway, global) = ((ahead - 1) / h, (ahead - 1) % h);
        (if member == gateway { first_global + global } else { local(member, gateway) }, 0)
    });
    Ok(builder.finish(table, |node| match node {
        Node::EndPoint(number) => (2 * (number % (a * p)), 2 * (number / (a * p)) + 1),
        Node::Switch(number) => (2 * p * (number % a) + p - 1, 2 * (number / a)),
    }))
}
