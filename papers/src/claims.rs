//! The book's page of all claims: the papers' tables and figures, and one row a claim.

use std::fmt::Write as _;

use crate::claim::{Claim, HEAD, Verdict, rows};
use crate::items::{ITEMS, Item, TEXTS, items_of};

/// The papers in the order of the page: folder, name.
const PAPERS: [(&str, &str); 5] = [
    ("sharestreams", "ShareStreams"),
    ("minbw", "MinBW"),
    ("hilq", "HILQ"),
    ("router", "Router"),
    ("coprocessor", "Co-processor"),
];

/// A section of the page: an item, or the text of a paper, with its claims.
struct Section<'a> {
    item: &'static Item,
    claims: Vec<&'a Claim>,
}

/// Returns the text of a claim without the prefix that names its paper.
fn text_of<'a>(what: &'a str, paper: &str) -> &'a str {
    let rest = what.strip_prefix(paper).and_then(|rest| rest.strip_prefix(", "));
    rest.unwrap_or(what)
}

/// Returns the sections of a paper: its items, then the claims that belong to none.
fn sections<'a>((folder, name): (&str, &str), claims: &[&'a Claim]) -> Vec<Section<'a>> {
    let items = ITEMS.iter().chain(&TEXTS).filter(|item| item.paper == folder);
    let mut sections: Vec<_> = items.map(|item| Section { item, claims: Vec::new() }).collect();
    for claim in claims {
        let [what, ..] = claim.cells();
        let item = items_of(folder, text_of(&what, name)).next();
        let is_of = |section: &&mut Section| match item {
            Some(item) => std::ptr::eq(section.item, item),
            None => TEXTS.iter().any(|text| std::ptr::eq(text, section.item)),
        };
        if let Some(section) = sections.iter_mut().find(is_of) {
            section.claims.push(claim);
        }
    }
    sections
}

/// Returns the cells of the numbers of claims: reproduced, differs, cannot tell, no verdict.
fn counts(claims: &[&Claim]) -> String {
    let verdicts = [Verdict::Reproduced, Verdict::Differs, Verdict::CannotTell].map(Some);
    let count = |verdict| claims.iter().filter(|claim| claim.verdict() == verdict).count();
    let [reproduced, differs, cannot_tell] = verdicts.map(count);
    format!("{reproduced} | {differs} | {cannot_tell} | {}", count(None))
}

/// Returns the anchor that the book and GitHub give a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.to_lowercase().replace(' ', "-");
    heading.chars().filter(|one| one.is_alphanumeric() || *one == '-').collect()
}

/// Returns the page; `by_page` holds the claims of each page with its paper's folder.
pub(crate) fn page<'a>(by_page: impl Iterator<Item = (&'static str, &'a [Claim])>) -> String {
    let by_page: Vec<_> = by_page.collect();
    let of = |folder: &str| {
        let pages = by_page.iter().filter(|(paper, _)| *paper == folder);
        pages.flat_map(|(_, claims)| claims.iter()).collect::<Vec<_>>()
    };
    let mut text = String::from(
        "# Every claim of the five papers, judged\n\n\
         A claim is **reproduced** if all of our interval meets its criterion, **differs** if none \
         of it does, and **cannot tell** otherwise. The criterion is written down before the run, \
         from the paper's own figure and its precision. *Measured* numbers depend on a machine, \
         *simulated* and *computed* ones do not. **Fitted** numbers were chosen to meet the paper \
         and **inputs** are settings: they have no verdict. `make test` compares the values, never \
         the verdicts.\n\n\
         | paper | reproduced | differs | cannot tell | fitted or input | command |\n\
         |---|---:|---:|---:|---:|---|\n",
    );
    for (folder, name) in PAPERS {
        let _ = writeln!(
            text,
            "| [{name}](../../papers/{folder}/README.md) | {} | `make figures PAPER={folder}` |",
            counts(&of(folder)),
        );
    }
    text += "\n## Tables and figures\n\n\
             41 tables and figures, four experiments that a paper describes only in its text, and \
             the other claims in the text. A claim about several items is counted at the first. \
             `make figures` runs simulations and reads stored measurements; the commands after it \
             measure again.\n\n\
             | paper | item | what it shows | reproduced | differs | cannot tell \
             | fitted or input | command |\n|---|---|---|---:|---:|---:|---:|---|\n";
    let mut details = String::new();
    for (folder, name) in PAPERS {
        let _ = writeln!(details, "\n## {name}");
        for Section { item, claims } in sections((folder, name), &of(folder)) {
            let heading = format!("{name}, {}", item.name);
            let _ = writeln!(
                text,
                "| {name} | [{}](#{}) | {} | {} | {} |",
                item.name,
                anchor(&heading),
                item.shows,
                counts(&claims),
                item.command(),
            );
            let _ = write!(details, "\n### {heading}\n\n{HEAD}");
            details += &rows(claims, &format!("{name}, "));
        }
    }
    text + &details
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Given;
    use std::collections::BTreeMap;
    use std::path::Path;

    /// A section of a page of claims: heading, and the first and last cells of its rows.
    type Rows = Vec<(String, String)>;

    fn cells(row: &str) -> Vec<&str> {
        row.trim_matches(['|', ' ']).split(" | ").collect()
    }

    /// Returns the rows of claims of each section of a page.
    fn rows_of(page: &str) -> BTreeMap<String, Rows> {
        let mut sections: BTreeMap<String, Rows> = BTreeMap::new();
        let mut heading = None;
        for line in page.lines() {
            if let Some(name) = line.strip_prefix("### ") {
                assert!(!sections.contains_key(name), "{name} is on the page twice");
                sections.insert(name.to_owned(), Vec::new());
                heading = Some(name);
            } else if let (Some(name), true) = (heading, line.starts_with("| ")) {
                let cells = cells(line);
                assert_eq!(cells.len(), 7, "{line}");
                let row = (cells[0].to_owned(), cells[6].to_owned());
                sections.get_mut(name).unwrap().push(row);
            }
        }
        let is_head = |rows: &Rows| rows.first().is_some_and(|row| row.0 == "claim");
        assert!(sections.values().all(is_head), "a section has no table");
        sections.values_mut().for_each(|rows| drop(rows.remove(0)));
        sections
    }

    /// Returns what is wrong with the sections of a page.
    fn faults(page: &str) -> Vec<String> {
        let sections = rows_of(page);
        let mut faults = Vec::new();
        let mut known = 0;
        for (folder, name) in PAPERS {
            for item in ITEMS.iter().chain(&TEXTS).filter(|item| item.paper == folder) {
                let heading = format!("{name}, {}", item.name);
                let link = format!("[{}](#{})", item.name, anchor(&heading));
                if !page.contains(&link) {
                    faults.push(format!("{heading}: not in the table of items"));
                }
                known += usize::from(sections.contains_key(&heading));
                let rows = sections.get(&heading).map_or(&[][..], Vec::as_slice);
                if rows.is_empty() {
                    faults.push(format!("{heading}: no claim"));
                }
                for (what, _) in rows {
                    let items: Vec<&str> = items_of(folder, what).map(|of| of.name).collect();
                    let expected: &[&str] =
                        if item.name == TEXTS[0].name { &[] } else { &[item.name] };
                    if items != expected {
                        faults.push(format!("{heading}: `{what}` belongs to {items:?}"));
                    }
                }
            }
        }
        if known != sections.len() {
            faults.push("a section is neither an item nor the text of a paper".to_owned());
        }
        faults
    }

    fn committed() -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/claims.md");
        std::fs::read_to_string(path).expect("a page")
    }

    #[test]
    fn every_item_has_claims_and_every_claim_one_section() {
        let page = committed();
        assert_eq!(faults(&page), Vec::<String>::new());
        // A removed, a moved and a doubly matched claim are faults.
        let row =
            page.lines().find(|line| line.starts_with("| Table 2: latency of an SRAM access"));
        let row = row.expect("the only claim of its item");
        let without = page.replacen(&format!("{row}\n"), "", 1);
        assert_eq!(faults(&without), ["HILQ, Table 2: no claim"]);
        let moved = page.replacen("| Fig 16: packets served |", "| Fig 15: packets served |", 1);
        assert_eq!(faults(&moved).len(), 1);
        let text = page.replacen("| Sec 4: winner of 4 streams", "| Fig 1: winner of 4 streams", 1);
        assert_eq!(faults(&text).len(), 1);
    }

    #[test]
    fn the_counts_are_those_of_the_rows() {
        let page = committed();
        let count = |rows: &Rows| {
            ["reproduced", "differs", "cannot tell", "–"]
                .map(|verdict| rows.iter().filter(|row| row.1 == verdict).count())
        };
        let sections = rows_of(&page);
        let table = page.split("## ").nth(1).expect("the table of items");
        let mut of_papers: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
        let mut items = 0;
        for row in table.lines().filter(|line| line.contains("](#")) {
            let cells = cells(row);
            let item = cells[1].trim_start_matches('[').split(']').next().unwrap();
            let rows = &sections[&format!("{}, {item}", cells[0])];
            let shown = [3, 4, 5, 6].map(|at| cells[at].parse::<usize>().unwrap());
            assert_eq!(shown, count(rows), "{row}");
            let sum = of_papers.entry(cells[0]).or_default();
            sum.iter_mut().zip(shown).for_each(|(sum, one)| *sum += one);
            items += 1;
        }
        assert_eq!(items, ITEMS.len() + TEXTS.len());
        for (folder, name) in PAPERS {
            let [reproduced, differs, cannot_tell, given] = of_papers[name];
            let row = format!(
                "| [{name}](../../papers/{folder}/README.md) | {reproduced} | {differs} | \
                 {cannot_tell} | {given} |"
            );
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_claim_of_no_item_is_in_the_text_of_its_paper() {
        let given = |what: &str| Claim::given(what, "1", "1", Given::Input);
        let claims = ["Router, Fig 8: a rate", "section 4.1: a cost"].map(given);
        let page = page([("router", &claims[..])].into_iter());
        let sections = rows_of(&page);
        let row = |what: &str| (what.to_owned(), "–".to_owned());
        assert_eq!(sections["Router, Fig 8"], [row("Fig 8: a rate")]);
        assert_eq!(sections["Router, claims in the text"], [row("section 4.1: a cost")]);
        assert_eq!(sections.values().map(Vec::len).sum::<usize>(), 2);
    }

    #[test]
    fn an_anchor_has_letters_digits_and_hyphens() {
        assert_eq!(anchor("HILQ, Table 1, Fig 1"), "hilq-table-1-fig-1");
        assert_eq!(anchor("Router, Sec 4.5"), "router-sec-45");
        assert_eq!(anchor("Co-processor, claims in the text"), "co-processor-claims-in-the-text");
    }
}
