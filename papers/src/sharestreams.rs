//! ShareStreams (Krishnamurthy et al.): the software experiments of section 5.2.

use std::fmt::Write as _;
use std::path::Path;

use crate::claim::{Claim, Evidence, HEAD, rows};
use crate::experiment::{Page, figure, services};

/// Formats counts in the paper's notation of ratios.
fn ratio(counts: &[usize]) -> String {
    counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" : ")
}

fn exact(what: &str, paper: &[usize], ours: &[usize]) -> Claim {
    let (holds, what) = (paper == ours, what.to_owned());
    Claim::exactly(what, ratio(paper), ratio(ours), Evidence::Simulated, holds)
}

/// Runs all experiments of the folder and returns the page.
pub(crate) fn page(folder: &Path) -> miette::Result<Page> {
    let mut claims = Vec::new();
    let mut files = Vec::new();
    let time = ("packet-times", true);

    let fig12 = services(&folder.join("fig12.toml"))?;
    let counts = fig12.counts(64_000);
    claims.push(exact("Fig 12: packets of 64,000", &[8_000, 8_000, 16_000, 32_000], &counts));
    claims.push(bandwidths(&fig12.times_ns, &counts));
    let drawn = fig12.rates(120_000, 1500, 60);
    let title = "Fig 12: bandwidth 1:1:2:4 from window-constraints";
    files.push(("fig12.svg".into(), figure(title, ("time (ms)", false), ("MB/s", false), &drawn)?));

    let fig14 = services(&folder.join("fig14.toml"))?;
    claims.push(exact("Fig 14: packets of 64,000", &[16_000; 4], &fig14.counts(64_000)));
    let title = "Fig 14: bandwidth 1:1:1:1 settling";
    let share = ("packets per packet-time", false);
    files.push(("fig14.svg".into(), figure(title, time, share, &fig14.shares(64_000))?));

    let edf = services(&folder.join("edf.toml"))?;
    claims.push(exact("EDF: winners of 63,996", &[15_999; 4], &edf.counts(63_996)));
    let in_order = edf.streams.chunks(4).all(|round| round == [3, 2, 1, 0]);
    claims.push(Claim::exactly(
        "EDF: order of service",
        "4, 3, 2, 1",
        if in_order { "4, 3, 2, 1, always" } else { "another" },
        Evidence::Simulated,
        in_order,
    ));
    let title = "EDF: four streams, deadlines one period apart";
    files.push(("edf.svg".into(), figure(title, time, share, &edf.shares(63_996))?));

    let fig15 = services(&folder.join("fig15.toml"))?;
    let before = fig15.counts(63_810);
    claims.push(exact("Fig 15: packets at 63,810", &[31_906, 15_952, 15_952, 0], &before));
    let after = &fig15.streams[63_810..64_000];
    let won = after.iter().filter(|stream| **stream == 3).count();
    let first_lost = after.iter().position(|stream| *stream != 3).unwrap_or(after.len());
    claims.push(Claim::exactly(
        "Fig 15: the 0/255 stream's packets of the last 190",
        "all (its figure); 188 by its own rules",
        format!("{won}; first loss at its packet-time {first_lost}"),
        Evidence::Simulated,
        won == 188 && first_lost == 128,
    ));
    let title = "Fig 15: fair share 2:1:1, then a 0/255 stream at 63,810";
    let mut drawn = fig15.shares(64_000);
    for line in &mut drawn {
        line.points.retain(|point| point.0 > 63_700.0);
        line.points.iter_mut().for_each(|point| point.0 -= 63_700.0);
    }
    let after = ("packet-times after 63,700", false);
    files.push(("fig15.svg".into(), figure(title, after, (share.0, true), &drawn)?));

    let fig16 = services(&folder.join("fig16.toml"))?;
    let served = [19_113, 9_556, 14_335, 14_335];
    claims.push(exact("Fig 16: packets of 57,339", &served, &fig16.counts(57_339)));
    let in_turn = fig16.streams[..57_336].chunks(4).all(|round| round[0] == 3 && round[1] == 2);
    claims.push(Claim::exactly(
        "Fig 16: EDF streams",
        "4 then 3, every four packet-times",
        if in_turn { "always" } else { "not always" },
        Evidence::Simulated,
        in_turn,
    ));
    let title = "Fig 16: fair share 2:1 with EDF streams 3 and 4";
    files.push(("fig16.svg".into(), figure(title, time, share, &fig16.shares(57_339))?));

    files.push(("README.md".into(), readme(&claims)));
    Ok(Page { files, claims })
}

/// Compares bandwidths with the paper's: equal within 1 % on a link of their sum.
#[allow(clippy::cast_precision_loss)]
fn bandwidths(times_ns: &[u64], counts: &[usize]) -> Claim {
    let paper = [47.15, 47.15, 95.3, 188.6];
    let seconds = times_ns[64_000] as f64 / 1e9;
    let ours: Vec<f64> = counts.iter().map(|count| *count as f64 * 0.0015 / seconds).collect();
    let near = |(ours, paper): (&f64, &f64)| (ours / paper - 1.0).abs() < 0.01;
    let text = |values: &[f64]| {
        let values: Vec<_> = values.iter().map(|value| format!("{value:.2}")).collect();
        values.join(" : ") + " MB/s"
    };
    Claim::exactly(
        "Fig 12: bandwidths, within 1 %",
        text(&paper),
        text(&ours),
        Evidence::Simulated,
        ours.iter().zip(&paper).all(near),
    )
}

fn readme(claims: &[Claim]) -> String {
    let mut text = String::from(
        "# ShareStreams: the software experiments\n\n\
         Krishnamurthy, Yalamanchili, Schwan, West: *ShareStreams: A Scalable Architecture and \
         Hardware Support for High-Speed QoS Packet Schedulers*, section 5.2. `make figures` \
         writes this page and its figures from the scenarios beside it; `make test` verifies \
         them.\n\n",
    );
    text += HEAD;
    text += &rows(claims, "");
    text += "\nPackets are 1,500 bytes and a request period is one packet-time, so that counts are \
             exact; the paper's frames of Fig 12 vary from 64 to 1,500 bytes. Fig 12 runs on a \
             link of 378.2 MB/s, the sum of the paper's bandwidths, which its PCI host limited. \
             For Fig 15 the paper states that the 0/255 stream alone is served for a window of \
             255; by its own rules another stream wins two of the last 190 packet-times.\n\n";
    for (file, what) in [
        ("fig12", "bandwidth over time, while all streams are backlogged"),
        ("fig14", "bandwidth from time zero, settling"),
        ("edf", "the four EDF streams"),
        (
            "fig15",
            "bandwidth from time zero, over the last 300 packet-times; stream 4 begins at 63,810",
        ),
        ("fig16", "bandwidth from time zero"),
    ] {
        let _ = writeln!(text, "![{file}: {what}]({file}.svg)\n");
    }
    text
}
