//! Whether the links of a router keep the deadlines of its paths.

use millstream::bounds::{EdfAdmission, StreamLimits, Theorem};
use millstream::catalogue::Options;

use super::{PathAction, RouterScenario};

impl RouterScenario {
    /// Returns why a port may miss deadlines of its paths; `None` if it keeps them all.
    ///
    /// A packet of at most `longest_bytes` then starts within a period of its arrival at the port's
    /// queue or, if that is later, of the previous packet's deadline, however packets arrive. The
    /// criterion is that of [`EdfAdmission`]; the device takes packets ahead by `line-burst`.
    #[must_use]
    pub fn deadline_obstacle(&self, port: usize, longest_bytes: u32) -> Option<String> {
        let of = &self.ports[port];
        let options = Options { link: of.slowest_link(), ..Options::default() };
        let theorem = Theorem::EdfDemand;
        let ordered = of.discipline.guarantee.deadlines().filter(|guarantee| {
            let unproved = |check: millstream::bounds::SettingCheck| {
                check(&options, of.structure, theorem).is_some()
            };
            guarantee.theorems.contains(&theorem) && !guarantee.settings.is_some_and(unproved)
        });
        if ordered.is_none() {
            return Some(format!(
                "{} at `{}` guarantees no deadlines",
                of.discipline.name, of.name
            ));
        }
        let mut admission = EdfAdmission::new(options.link).blocked(of.line_burst_ns);
        self.paths.iter().enumerate().find_map(|(number, path)| {
            if path.action == PathAction::Drop || !self.may_pass(path, port) {
                return None;
            }
            if path.contract.flow_options().is_some() {
                return Some(format!("the flows of `{}` are scheduled", self.paths[number].name));
            }
            let limits = StreamLimits::of(&path.contract, longest_bytes, longest_bytes);
            let refused = admission.admit(&limits).err();
            refused.map(|why| format!("with `{}` at `{}`, {why}", path.name, of.name))
        })
    }
}
