//! The catalogue: what each row says of its structures, shares and guarantees.

use millstream::bounds::{Guarantee, StreamLimits, Theorem};
use millstream::catalogue::{
    DISCIPLINES, DisciplineRow, DwcsOrder, MinBwAlgorithm, Options, StructureName,
};
use millstream::{DwcsOptions, Rules};

fn row(name: &str) -> &'static DisciplineRow {
    DisciplineRow::parse(name).unwrap()
}

fn names(structures: &[StructureName]) -> String {
    structures.iter().map(|structure| structure.name()).collect::<Vec<_>>().join(" ")
}

/// Returns the structures of a row, then those that `auto` selects for 16, 17, 128 and 129 streams.
fn structures(name: &str, options: &Options) -> [String; 2] {
    let auto = [16, 17, 128, 129].map(|streams| row(name).auto_structure(options, streams));
    [names(&row(name).structures(options)), names(&auto)]
}

#[test]
fn each_discipline_is_held_by_its_structures() {
    let options = Options::default();
    for row in DISCIPLINES {
        let expected = match row.name {
            "drr" | "wrr" => ["ring scan heap dual-heap", "ring ring ring ring"],
            "dwcs" => {
                ["scan heap dual-heap hilq-exact", "hilq-exact hilq-exact hilq-exact hilq-exact"]
            }
            "wf2q+" | "scfq" | "sfq" | "minbw" => [
                "scan heap dual-heap winner-tree calendar",
                "winner-tree winner-tree winner-tree calendar",
            ],
            _ => ["scan heap dual-heap", "scan heap heap heap"],
        };
        assert_eq!(structures(row.name, &options), expected, "{}", row.name);
        let approximated = if row.name == "dwcs" { "hilq" } else { "" };
        assert_eq!(names(row.approximations()), approximated, "{}", row.name);
    }
    // A calendar holds only orders that deadlines lead.
    let loss_first = Options { order: DwcsOrder::LossFirst, ..Options::default() };
    assert_eq!(structures("dwcs", &loss_first), ["scan heap dual-heap", "scan heap heap heap"]);
    let drr = Options { algorithm: MinBwAlgorithm::Drr, ..Options::default() };
    assert_eq!(structures("minbw", &drr), ["ring scan heap dual-heap", "ring ring ring ring"]);
}

#[test]
fn rows_name_the_attributes_of_a_stream_that_they_read() {
    for row in DISCIPLINES {
        let expected: [&[&str]; 2] = match row.name {
            "fifo" | "lqf" | "las" => [&[], &[]],
            "static-priority" => [&[], &["priority"]],
            "edf" => [&["period"], &["first-deadline", "late"]],
            "dwcs" => [&["period"], &["window", "first-deadline", "late"]],
            "vds" | "pd2" => [&["period"], &["window", "late"]],
            "drr" => [&["quantum"], &["weight"]],
            "table" => [&["table"], &[]],
            "minbw" => [&[], &["weight", "quantum", "fmc"]],
            "wfq" | "wf2q" | "wf2q+" | "scfq" | "sfq" | "virtual-clock" | "wrr" | "wirr" => {
                [&[], &["weight"]]
            }
            // A new discipline is one file, one row, one trace: it needs no line here.
            _ => continue,
        };
        assert_eq!([row.needs, row.uses], expected, "{}", row.name);
    }
}

#[test]
fn minbw_shares_by_its_algorithm() {
    for (algorithm, name) in
        [(MinBwAlgorithm::Wfq, "wfq"), (MinBwAlgorithm::Scfq, "scfq"), (MinBwAlgorithm::Drr, "drr")]
    {
        let options = Options { algorithm, ..Options::default() };
        assert_eq!(row("minbw").below(&options).map(|below| below.name), Some(name));
    }
    let others = DISCIPLINES.iter().filter(|row| row.name != "minbw");
    assert!(others.into_iter().all(|row| row.below(&Options::default()).is_none()));
}

#[test]
fn rows_say_what_they_guarantee() {
    for row in DISCIPLINES {
        let kind = match row.guarantee {
            Guarantee::None => "none",
            Guarantee::Rate(_) => "rate",
            Guarantee::Delay(_) => "delay",
            Guarantee::Deadlines(_) => "deadlines",
            Guarantee::BelowManagement => "below management",
        };
        let expected = match row.name {
            "lqf" | "las" => "none",
            "fifo" | "static-priority" => "delay",
            "edf" | "dwcs" | "vds" | "pd2" => "deadlines",
            "minbw" => "below management",
            _ => "rate",
        };
        assert_eq!(kind, expected, "{}", row.name);
        assert_eq!(row.guarantee.rate().is_some(), kind == "rate", "{}", row.name);
        assert_eq!(row.guarantee.deadlines().is_some(), kind == "deadlines", "{}", row.name);
        let is_fair = kind == "rate" && row.name != "table";
        assert_eq!(row.guarantees_shares(), is_fair, "{}", row.name);
        assert_eq!(row.fits_port(), !["table", "minbw"].contains(&row.name), "{}", row.name);
        let leaves = |name| row.name == name;
        assert_eq!(row.fairness.is_some(), kind == "rate" || leaves("fifo"), "{}", row.name);
        if let Guarantee::Rate(rate) = row.guarantee {
            let by_clock = ["wfq", "wf2q", "wf2q+", "virtual-clock"].contains(&row.name);
            assert_eq!(rate.clocked, by_clock, "{}", row.name);
            let of_ungated = ["wfq", "wf2q", "sfq"].contains(&row.name);
            assert_eq!(rate.others_ungated, of_ungated, "{}", row.name);
        }
    }
    let theorems = |name| row(name).guarantee.deadlines().unwrap().theorems;
    assert_eq!(theorems("edf"), [Theorem::EdfDemand]);
    assert_eq!(theorems("dwcs"), [Theorem::EdfDemand, Theorem::UnitJobsInStep]);
    assert_eq!(theorems("vds"), [Theorem::UnitJobs]);
    assert_eq!(theorems("pd2"), [Theorem::UnitJobs, Theorem::Pfair]);
    let every = |name| row(name).guarantee.deadlines().unwrap().every_request;
    assert_eq!(["edf", "dwcs", "vds", "pd2"].map(every), [true, false, false, false]);
}

#[test]
fn packets_that_may_go_before_others() {
    let may_precede = |name, own, other| {
        let Guarantee::Delay(delay) = row(name).guarantee else { panic!("{name}") };
        let of = |priority| StreamLimits { priority, ..StreamLimits::new(1, 1) };
        (delay.may_precede)(&of(own), &of(other))
    };
    for (own, other) in [(1, 0), (1, 1), (1, 2)] {
        assert!(may_precede("fifo", own, other));
        assert_eq!(may_precede("static-priority", own, other), other <= own);
    }
}

#[test]
fn dwcs_is_proved_for_some_settings() {
    let settings = row("dwcs").guarantee.deadlines().unwrap().settings.unwrap();
    let change = |order, rules, structure, theorem| {
        let dwcs = DwcsOptions { rules, ..DwcsOptions::default() };
        let options = Options { order, dwcs, ..Options::default() };
        settings(&options, structure, theorem).map(|unproved| unproved.change)
    };
    let (edf, standard) = (DwcsOrder::EdfFirst, Rules::Standard);
    let (scan, hilq) = (StructureName::Scan, StructureName::Hilq);
    for theorem in [Theorem::EdfDemand, Theorem::UnitJobsInStep] {
        assert_eq!(change(edf, standard, scan, theorem), None);
        let exact = Some("structure = \"hilq-exact\"");
        assert_eq!(change(edf, standard, hilq, theorem), exact);
        let order = Some("order = \"edf-first\"");
        assert_eq!(change(DwcsOrder::LossFirst, standard, scan, theorem), order);
        // Deadlines do not depend on the rules.
        let rules = (theorem != Theorem::EdfDemand).then_some("rules = \"standard\"");
        assert_eq!(change(edf, Rules::Rtas99, scan, theorem), rules);
    }
    for name in ["edf", "vds", "pd2"] {
        assert!(row(name).guarantee.deadlines().unwrap().settings.is_none(), "{name}");
    }
}

#[test]
fn structures_have_unique_names_by_which_they_are_found() {
    for structure in StructureName::ALL {
        assert_eq!(StructureName::parse(structure.name()), Some(*structure));
        assert!(!structure.summary().is_empty());
    }
    assert_eq!(
        names(StructureName::ALL),
        "scan heap ring dual-heap winner-tree calendar hilq-exact hilq"
    );
    assert_eq!(
        (StructureName::parse("tree"), DisciplineRow::parse("none").map(|_| ())),
        (None, None)
    );
}

#[test]
#[should_panic = "dwcs does not support structure ring"]
fn a_structure_that_cannot_hold_the_order_is_refused() {
    let _ = row("dwcs").build(&Options::default(), StructureName::Ring);
}
