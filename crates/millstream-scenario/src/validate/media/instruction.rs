//! Validation of the media server's instructions: names, limits and streams.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use toml::Spanned;

use crate::error::Problem;
use crate::file::media::{InstructionTable, MediaTable};
use crate::media::{Allowance, Instruction};

/// Returns whether local programs may load and call instructions, which needs `http`.
pub(super) fn instructions_over_http(table: &MediaTable, problems: &mut Vec<Problem>) -> bool {
    let Some(given) = &table.instructions else { return false };
    let allowed = *given.get_ref();
    if allowed && table.http.is_none() {
        let problem = Problem::new(given.span(), "`instructions` without `http`");
        problems
            .push(problem.help("programs load and call them through `http`; give it an address"));
    }
    allowed
}

pub(super) fn instructions(
    tables: &[Spanned<InstructionTable>],
    streams: &[&str],
    problems: &mut Vec<Problem>,
) -> Vec<Instruction> {
    let mut names = HashSet::new();
    if let Some(beyond) = tables.get(Instruction::MAX_COUNT) {
        let message = format!("{} instructions", tables.len());
        let help = format!("at most {}", Instruction::MAX_COUNT);
        problems.push(Problem::new(beyond.span(), message).help(help));
    }
    let one = |table: &Spanned<InstructionTable>| {
        let table = table.get_ref();
        let name = table.name.get_ref();
        if !Instruction::is_name(name) {
            let problem =
                Problem::new(table.name.span(), format!("invalid instruction name {name:?}"));
            problems.push(problem.help("up to 64 letters, digits, - _ and ."));
        }
        if !names.insert(name.clone()) {
            let message = format!("two instructions are called `{name}`");
            problems.push(Problem::new(table.name.span(), message).label("the second"));
        }
        if table.module.get_ref().is_empty() {
            let problem = Problem::new(table.module.span(), "no module is named");
            problems.push(problem.help("a file, for example module = \"filter.wasm\""));
        }
        Instruction {
            name: name.clone(),
            module: table.module.get_ref().into(),
            allowance: allowance(table, problems),
            streams: table.streams.as_ref().map(|names| stream_indices(names, streams, problems)),
        }
    };
    tables.iter().map(one).collect()
}

fn allowance(table: &InstructionTable, problems: &mut Vec<Problem>) -> Allowance {
    let default = Allowance::default();
    let mut memory_bytes = default.memory_bytes;
    if let Some(given) = &table.memory {
        memory_bytes = given.get_ref().0;
        if !Allowance::MEMORY_BYTES.contains(&memory_bytes) {
            let message = format!("a memory of {memory_bytes} bytes");
            let problem = Problem::new(given.span(), message);
            problems.push(problem.help("from \"64 KiB\" to \"64 MiB\""));
        }
    }
    let mut check_range =
        |given: &Option<Spanned<u32>>, what, range: RangeInclusive<u32>, default| {
            let Some(given) = given else { return default };
            if !range.contains(given.get_ref()) {
                let message = format!("{what} of {}", given.get_ref());
                let help = format!("from {} to {}", range.start(), range.end());
                problems.push(Problem::new(given.span(), message).help(help));
            }
            *given.get_ref()
        };
    Allowance {
        memory_bytes,
        fuel: check_range(&table.fuel, "`fuel`", Allowance::FUEL, default.fuel),
        faults: check_range(&table.faults, "`faults`", Allowance::FAULTS, default.faults),
    }
}

/// Returns the positions in the file of the streams with these names.
fn stream_indices(
    names: &[Spanned<String>],
    streams: &[&str],
    problems: &mut Vec<Problem>,
) -> Vec<usize> {
    let place = |name: &Spanned<String>| {
        let found = streams.iter().position(|stream| stream == name.get_ref());
        if found.is_none() {
            let problem =
                Problem::new(name.span(), format!("no stream is called `{}`", name.get_ref()));
            problems.push(problem.help(format!("streams: {}", streams.join(", "))));
        }
        found
    };
    names.iter().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::*;

    #[test]
    fn every_key_is_parsed_and_defaults_are_filled_in() {
        let media = parse(
            "[[media.instruction]]\nname = \"a\"\nmodule = \"a.wasm\"\n\
             [[media.instruction]]\nname = \"b\"\nmodule = \"b.wasm\"\nmemory = \"64 KiB\"\nfuel \
             = 5\n\
             faults = 2\nstreams = [\"a\"]",
        )
        .unwrap();
        let [a, b] = &media.instruction[..] else { panic!() };
        assert_eq!((a.allowance, &a.streams), (Allowance::default(), &None));
        let allowance = Allowance { memory_bytes: 65_536, fuel: 5, faults: 2 };
        let (name, module) = ("b".to_owned(), "b.wasm".into());
        assert_eq!(*b, Instruction { name, module, allowance, streams: Some(vec![0]) });
        assert!(!media.instructions);
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        let of = |rest: &str| {
            format!("[[media.instruction]]\nname = \"a\"\nmodule = \"a.wasm\"\n{rest}")
        };
        let many: String = (0..17)
            .map(|at| format!("[[media.instruction]]\nname = \"{at}\"\nmodule = \"a\"\n"))
            .collect();
        for (section, parts) in [
            (of("fuel = 0"), ["`fuel` of 0", "from 1 to 10000000"]),
            (of("faults = 0"), ["`faults` of 0", "from 1"]),
            (of("memory = \"1 GiB\""), ["1073741824", "64 MiB"]),
            (of("streams = [\"b\"]"), ["`b`", "streams: a"]),
            (of("").replace("\"a\"", "\"a b\""), ["\"a b\"", "64 letters"]),
            (of("").replace("a.wasm", ""), ["no module", "filter.wasm"]),
            (of("") + &of(""), ["two instructions", "`a`"]),
            (many, ["17 instructions", "at most 16"]),
            ("[media]\ninstructions = true".to_owned(), ["without `http`", "address"]),
        ] {
            let error = parse(&section).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
    }
}
