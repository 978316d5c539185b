//! Grids of switches: meshes, and tori, which connect opposite edges.
//!
//! Routing is in dimension order: a packet completes the first dimension, then the second, and so
//! on. This prevents deadlock in a mesh, but not in a torus. A torus link therefore has two layers,
//! with a dateline between the last and the first switch of every ring. A packet uses layer 0
//! before the dateline and layer 1 otherwise, so no ring of waiting packets closes. The layer
//! depends only on the packet's position and destination.
//!
//! Source: Dally and Seitz, *Deadlock-free message routing in multiprocessor interconnection
//! networks* (IEEE Transactions on Computers, 1987), on k-ary n-cubes.

use super::builder::{Builder, MAX_END_POINTS, Size, check_range};
use super::table::Table;
use super::{Node, Topology, TopologyError};

/// Builds a mesh of switches, with dimension-order routing.
///
/// `dims` is the number of switches along each dimension. The first dimension is routed first and
/// its coordinate varies fastest in switch numbers. `concentration` is the number of end-points at
/// each switch. A switch's ports are those to its end-points, then one up and one down for each
/// dimension; at the edges some are free. A path has 2 links plus the steps between its switches.
///
/// # Errors
/// Fails without dimensions, with fewer than 2 switches in one, without end-points, or if the
/// network is too large.
pub fn mesh(dims: &[u32], concentration: u32) -> Result<Topology, TopologyError> {
    grid(dims, concentration, false)
}

/// Builds a torus of switches, with dimension-order routing.
///
/// Packets take the shortest direction around each ring; halfway around, they go up. Numbers and
/// ports are those of a [`mesh`]; no port is free, and the routes use two layers.
///
/// # Errors
/// See [`mesh`].
pub fn torus(dims: &[u32], concentration: u32) -> Result<Topology, TopologyError> {
    grid(dims, concentration, true)
}

fn grid(dims: &[u32], concentration: u32, wraps: bool) -> Result<Topology, TopologyError> {
    let dimensions = u32::try_from(dims.len()).unwrap_or(u32::MAX);
    // 14 dimensions of size 2 have as many switches as the maximum number of end-points.
    check_range("the number of dims", dimensions, 1..=14, "1 to 14")?;
    for &size in dims {
        check_range("a size in dims", size, 2..=MAX_END_POINTS, "2 to 16384")?;
    }
    check_range("concentration", concentration, 1..=254, "1 to 254")?;
    let count = dims.iter().fold(1_u64, |count, &size| count.saturating_mul(u64::from(size)));
    let size = Size {
        end_points: count.saturating_mul(u64::from(concentration)),
        switches: count,
        ports: u64::from(concentration) + 2 * u64::from(dimensions),
    };
    let (end_points, switches) =
        size.check(|| format!("dims {dims:?} and concentration {concentration}"))?;

    // Coordinates of each switch, precomputed so that no route needs a division.
    let mut coordinates = Vec::with_capacity(switches as usize * dims.len());
    for switch in 0..switches {
        let mut rest = switch;
        for &size in dims {
            coordinates.push(rest % size);
            rest /= size;
        }
    }
    let at = |switch: u32| &coordinates[switch as usize * dims.len()..][..dims.len()];

    let mut builder = Builder::uniform(end_points, switches, concentration + 2 * dimensions);
    for end_point in 0..end_points {
        builder.attach(end_point, end_point / concentration, end_point % concentration);
    }
    for switch in 0..switches {
        let mut weight = 1;
        let mut up = concentration;
        for (&size, &here) in dims.iter().zip(at(switch)) {
            let next = if here + 1 < size {
                Some(switch + weight)
            } else {
                wraps.then_some(switch - here * weight)
            };
            if let Some(next) = next {
                builder.cable(Node::Switch(switch), up, Node::Switch(next), up + 1);
            }
            weight *= size;
            up += 2;
        }
    }

    let table = Table::by_rule(switches, end_points, |switch, destination| {
        let mut up = concentration;
        for ((&size, &here), &there) in
            dims.iter().zip(at(switch)).zip(at(destination / concentration))
        {
            if here != there {
                return step(here, there, size, wraps, up);
            }
            up += 2;
        }
        (destination % concentration, 0)
    });
    Ok(builder.finish(table, |node| {
        let (switch, member) = match node {
            Node::Switch(switch) => (switch, None),
            Node::EndPoint(number) => (number / concentration, Some(number % concentration)),
        };
        let (column, row) = cell(dims, at(switch));
        // A cell holds its switch and, below it to the right, its end-points.
        match member {
            None => ((concentration + 1) * column, 2 * row),
            Some(member) => ((concentration + 1) * column + 1 + member, 2 * row + 1),
        }
    }))
}

/// Returns port and layer of a step along one dimension; `up` is its port in the up direction.
fn step(here: u32, there: u32, size: u32, wraps: bool, up: u32) -> (u32, u8) {
    if !wraps {
        return (if here < there { up } else { up + 1 }, 0);
    }
    let ahead = if here < there { there - here } else { there + size - here };
    if ahead <= size - ahead {
        (up, u8::from(here < there))
    } else {
        (up + 1, u8::from(here > there))
    }
}

/// Returns the cell in which a switch is drawn.
///
/// Even dimensions extend along columns, odd ones along rows. Each further pair of dimensions is a
/// grid of these grids.
fn cell(dims: &[u32], coordinates: &[u32]) -> (u32, u32) {
    let (mut cell, mut extent) = ([0, 0], [1, 1]);
    for (dimension, (&size, &here)) in dims.iter().zip(coordinates).enumerate() {
        cell[dimension % 2] += here * extent[dimension % 2];
        extent[dimension % 2] *= size;
    }
    (cell[0], cell[1])
}
