//! Random scenario files: every discipline, with phases, first deadlines, caps, credits and trees.
//!
//! Draws are biased towards the premises of the theorems: one length, whole slots, a common phase.
//! Each premise is broken with its own small probability, so all three kinds of answers occur.

use crate::network::captures::Captured;
use millstream::catalogue::DISCIPLINES;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::fmt::Write as _;

/// Disciplines that give each stream a share of the link.
const SHARING: [&str; 9] =
    ["wfq", "wf2q", "wf2q+", "scfq", "sfq", "drr", "wrr", "wirr", "virtual-clock"];

pub(crate) struct Draw(ChaCha8Rng);

/// Parameters common to all streams of a scenario.
struct Common {
    discipline: &'static str,
    rate_bps: u64,
    overhead: i64,
    framing: &'static str,
    streams: u64,
    /// Default packet length, bytes.
    bytes: u64,
    /// Default period, ns.
    period_ns: u64,
}

impl Common {
    fn slot_ns(&self, bytes: u64) -> u64 {
        let carried = bytes.saturating_add_signed(self.overhead);
        let wire = match self.framing {
            "atm" => carried.div_ceil(48) * 53,
            "ptm" => carried + carried.div_ceil(64),
            _ => carried,
        };
        (wire * 8_000_000_000).div_ceil(self.rate_bps)
    }
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Draws a number from 0 to `end` − 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end.max(1)
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// Returns the text of a random scenario.
    pub(crate) fn scenario(&mut self) -> String {
        if self.once_in(3) { self.tight() } else { self.loose() }
    }

    /// Returns the text of a random tree of classes on an overloaded link: streams that offer less
    /// than their share, beside floods.
    pub(crate) fn tree(&mut self) -> String {
        let shares = ["wf2q+", "sfq", "drr"];
        let any = ["wf2q+", "sfq", "drr", "static-priority", "wfq", "scfq", "wrr", "fifo", "edf"];
        let rate_bps = self.one_of(&[8_000_000, 100_000_000, 12_345_678]);
        let root = if self.once_in(6) { "static-priority" } else { self.one_of(&shares) };
        let mut text = format!(
            "[scenario]\nseed = {}\nduration = \"{} ms\"\n\n[link]\nrate = \"{rate_bps} \
             bps\"\noverhead = {}\n\n[scheduler]\ndiscipline = \"{root}\"\n",
            self.below(1_000_000),
            (40 + self.below(100)) * 100_000_000 / rate_bps.max(50_000_000),
            self.below(40),
        );
        let classes = 2 + self.below(3);
        for class in 0..classes {
            // A class with classes below it has shares more often.
            let discipline = if class == 0 { self.one_of(&shares) } else { self.one_of(&any) };
            let weight = self.below(6) + 1;
            let _ = writeln!(
                text,
                "\n[[class]]\nname = \"c{class}\"\ndiscipline = \"{discipline}\"\nweight = \
                 {weight}\npriority = {}\nquantum = {}\nperiod = \"10 ms\"",
                self.below(2),
                300 * weight + self.below(2_000),
            );
            if class > 1 && self.once_in(2) {
                text.push_str("parent = \"c0\"\n");
            }
            if self.once_in(12) {
                let _ = writeln!(text, "max-rate = \"{} bps\"", rate_bps / (1 + self.below(6)));
            }
        }
        let streams = classes + self.below(4);
        for stream in 0..streams {
            let flood = self.once_in(3);
            let bytes = 40 + self.below(if flood { 1_460 } else { 700 });
            let rate = if flood {
                rate_bps * (1 + self.below(10)) / 8
            } else {
                rate_bps / (2 * streams + self.below(60))
            };
            let kind = self.one_of(&["cbr", "cbr", "poisson"]);
            let _ = writeln!(
                text,
                "\n[[stream]]\nname = \"s{stream}\"\nclass = \"c{}\"\nweight = {}\npriority = \
                 {}\nquantum = {}\nperiod = \"10 ms\"\nsource = {{ kind = \"{kind}\", bytes \
                 = {bytes}, rate = \"{rate} bps\", start = \"{} us\" }}",
                stream % classes,
                self.below(6) + 1,
                self.below(3),
                100 + self.below(3_000),
                self.below(2_000),
            );
            if self.once_in(8) {
                let _ = writeln!(text, "max-rate = \"{} bps\"", rate_bps / (1 + self.below(12)));
            }
        }
        text
    }

    /// Returns the text of a random link that streams with contracts share with TCP connections.
    pub(crate) fn network(&mut self) -> String {
        let discipline =
            self.one_of(&["wfq", "wf2q+", "scfq", "sfq", "drr", "static-priority", "fifo", "edf"]);
        let mbps = self.below(40) + 4;
        let mut text = format!(
            "[scenario]\nduration = \"{} ms\"\n\n[link]\nrate = \"{mbps} Mbps\"\noverhead = \
             {}\nframing = \"{}\"\ndelay = \"{} us\"\n\n[scheduler]\n\
             discipline = \"{discipline}\"\n",
            300 + self.below(900),
            self.below(40),
            self.one_of(&["none", "atm", "ptm"]),
            self.below(9_000),
        );
        let tree = self.once_in(3);
        for class in ["left", "right"].into_iter().filter(|_| tree) {
            let discipline = self.one_of(&["wf2q+", "scfq", "drr", "static-priority", "edf"]);
            let _ = write!(
                text,
                "\n[[class]]\nname = \"{class}\"\ndiscipline = \"{discipline}\"\nweight = {}\n\
                 priority = {}\nperiod = \"{} us\"\n",
                1 + self.below(8),
                self.below(3),
                500 + self.below(9_000),
            );
        }
        // Each class has a stream.
        let class = |draw: &mut Self, stream, first| match (tree, stream) {
            (false, _) => "",
            (true, 0) => first,
            (true, _) => draw.one_of(&["", "class = \"left\"\n", "class = \"right\"\n"]),
        };
        for stream in 0..self.below(3) + 1 {
            let kbps = 1 + self.below(mbps * 1_000 / 8);
            let kind = self.one_of(&["cbr", "cbr", "poisson"]);
            let bytes = 40 + self.below(1_400);
            let class = class(self, stream, "class = \"left\"\n");
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"contract{stream}\"\n{class}weight = {}\npriority = {}\n\
                 period = \"{} us\"\nsource = {{ kind = \"{kind}\", bytes = {bytes}, rate = \
                 \"{kbps} kbps\" }}\n",
                1 + self.below(8),
                self.below(3),
                bytes * 8_000 / kbps.max(1) + 1,
            );
        }
        for stream in 0..self.below(2) + 1 {
            let (flows, queue) = (self.one_of(&["", "flows = {}\n", "aqm = \"codel\"\n"]), 20);
            let control = self.one_of(&["reno", "cubic", "dctcp", "prague", "bbr"]);
            let class = class(self, stream, "class = \"right\"\n");
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"bulk{stream}\"\n{class}weight = {}\npriority = {}\n\
                 period = \"10 ms\"\nqueue = {}\n{flows}\
                 source = {{ kind = \"tcp\", connections = {}, control = \
                 \"{control}\", rtt = \"{} us\", bytes = {} }}\n",
                1 + self.below(4),
                2 + self.below(2),
                queue + self.below(400),
                1 + self.below(6),
                1_000 + self.below(40_000),
                200 + self.below(1_300),
            );
        }
        text + "\n[[stream]]\nname = \"ping\"\nshares = \"bulk0\"\nsource = { kind = \"echo\", \
                bytes = 64, interval = \"7 ms\", rtt = \"10 ms\" }\n"
    }

    /// Returns random packets of a capture that last for `duration_us` and take a part of a link of
    /// `rate_bps`.
    pub(crate) fn captured(&mut self, duration_us: u64, rate_bps: u64) -> Vec<Captured> {
        let flows = 1 + self.below(6);
        let bytes_left = rate_bps / (16 + self.below(48)) * duration_us / 1_000_000;
        let mut packets = Vec::new();
        let (mut bytes, mut burst_us) = (0, 0);
        while bytes < bytes_left {
            // Half of the packets arrive together with the one before.
            burst_us = if self.once_in(2) { burst_us } else { self.below(duration_us) };
            let flow = self.below(flows);
            let length = 60 + self.below(1_440);
            bytes += length;
            packets.push(Captured {
                time_us: burst_us,
                from: (u8::try_from(flow % 3).unwrap(), u16::try_from(flow).unwrap()),
                bytes: usize::try_from(length).unwrap(),
                service: 0,
            });
        }
        packets
    }

    /// Returns the text of a random link that a stream with flows, from the capture `file`, shares
    /// with streams of constant bit rate and perhaps TCP connections, and the rate of the link.
    pub(crate) fn flows(&mut self, file: &str) -> (String, u64) {
        let disciplines = [&["fifo", "static-priority", "lqf"][..], &SHARING].concat();
        let rate_bps = self.one_of(&[8_000_000, 100_000_000, 12_345_678]);
        let mut text = format!(
            "[link]\nrate = \"{rate_bps} bps\"\noverhead = {}\n\n[scheduler]\ndiscipline = \
             \"{}\"\n\n[[stream]]\nname = \"captured\"\nweight = {}\npriority = {}\nquantum = \
             {}\n{}\nsource = {{ kind = \"pcap\", file = \"{file}\" }}\n",
            self.below(40),
            self.one_of(&disciplines),
            1 + self.below(4),
            self.below(2),
            1_500 + self.below(2_000),
            self.one_of(&[
                "flows = {}\naqm = \"none\"",
                "flows = { by = \"5-tuple\" }\naqm = \"none\"",
                "flows = { hosts = \"source\" }\naqm = \"none\"",
                "flows = {}",
                "aqm = \"codel\"",
            ]),
        );
        let streams = 1 + self.below(3);
        for stream in 0..streams {
            let bytes = 40 + self.below(1_460);
            // One in five is a flood.
            let rate = rate_bps / if self.once_in(5) { 1 } else { 2 * streams + self.below(9) };
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"s{stream}\"\nweight = {}\npriority = {}\nquantum = \
                 {}\nqueue = 200\nsource = {{ kind = \"cbr\", bytes = {bytes}, rate = \"{rate} \
                 bps\", stop = \"100 ms\" }}\n",
                1 + self.below(4),
                self.below(3),
                1_500 + self.below(2_000),
            );
        }
        if self.once_in(3) {
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"tcp\"\nweight = {}\npriority = 2\nquantum = 1600\nqueue = \
                 40\nflows = {{}}\nsource = {{ kind = \"tcp\", connections = 3, rtt = \"10 ms\", \
                 bytes = 1000 }}\n",
                1 + self.below(4),
            );
        }
        (text.replacen("[link]", "[scenario]\nduration = \"120 ms\"\n\n[link]", 1), rate_bps)
    }

    /// Returns the text of a random link with a queue by flow that single flows share with TCP
    /// connections and floods, beside other streams.
    pub(crate) fn queue(&mut self) -> String {
        let rate_bps = self.one_of(&[8_000_000, 100_000_000, 12_345_678]);
        let overhead = self.below(40);
        let discipline = self.one_of(&["static-priority", "wf2q+", "sfq", "drr", "wfq"]);
        let mut text = format!(
            "[scenario]\nduration = \"120 ms\"\n\n[link]\nrate = \"{rate_bps} bps\"\noverhead = \
             {overhead}\n\n[scheduler]\ndiscipline = \"{discipline}\"\n"
        );
        let keys = |draw: &mut Self| {
            format!(
                "weight = {}\npriority = {}\nquantum = {}\n",
                1 + draw.below(4),
                draw.below(2),
                1_600 + draw.below(2_000)
            )
        };
        let (connections, bytes) = (1 + self.below(3), 600 + self.below(900));
        let flows = self.one_of(&["flows = {}", "flows = {}\naqm = \"none\""]);
        let keys_of_bulk = keys(self);
        let _ = write!(
            text,
            "\n[[stream]]\nname = \"bulk\"\n{keys_of_bulk}{flows}\nsource = {{ kind = \"tcp\", \
             connections = {connections}, rtt = \"{} ms\", bytes = {bytes} }}\n",
            1 + self.below(10)
        );
        for stream in 0..1 + self.below(4) {
            let bytes = 60 + self.below(1_000);
            // One in four is a flood.
            let part = if self.once_in(4) { 1 } else { 60 + self.below(200) };
            let rate = rate_bps / part;
            let source = match self.below(3) {
                0 => format!("kind = \"poisson\", bytes = {bytes}, rate = \"{rate} bps\""),
                1 => format!(
                    "kind = \"generator\", packets = 60, bytes = {bytes}, interval = \"10 us\", \
                     pause-after = {}, pause = \"{} us\"",
                    1 + self.below(5),
                    10_000 + self.below(30_000)
                ),
                _ => format!("kind = \"cbr\", bytes = {bytes}, rate = \"{rate} bps\""),
            };
            let stop = if source.contains("generator") { "" } else { ", stop = \"100 ms\"" };
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"f{stream}\"\nshares = \"bulk\"\nsource = {{ {source}{stop} \
                 }}\n"
            );
        }
        for stream in 0..self.below(3) {
            let (bytes, keys) = (40 + self.below(1_460), keys(self));
            let rate = rate_bps / (2 + self.below(9));
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"s{stream}\"\n{keys}queue = 200\nsource = {{ kind = \
                 \"cbr\", bytes = {bytes}, rate = \"{rate} bps\", stop = \"100 ms\" }}\n"
            );
        }
        text
    }

    /// Returns the text of a random network of links in series, with streams of both directions.
    pub(crate) fn series(&mut self) -> String {
        let ordered = ["fifo", "static-priority", "edf", "dwcs", "vds"];
        let disciplines = [&ordered[..], &SHARING, &["lqf", "las"]].concat();
        let rates = [8_000_000, 10_000_000, 40_000_000, 100_000_000, 12_345_678];
        // Half of the draws have one discipline and one rate.
        let uniform = self.once_in(2);
        let (discipline, rate_bps) = (self.one_of(&disciplines), self.one_of(&rates));
        let overhead = self.below(40);
        let framing = self.one_of(&["none", "none", "none", "atm", "ptm"]);
        let of_link = |draw: &mut Self| {
            let delay_ns = draw.below(3_000_000);
            let mut text = format!("delay = \"{delay_ns} ns\"\n");
            if draw.once_in(16) {
                text.push_str("loss = 0.05\n");
            }
            let other = draw.once_in(6);
            let overhead = if other { draw.below(60) } else { overhead };
            let framing = if other { draw.one_of(&["none", "atm"]) } else { framing };
            let _ = writeln!(text, "overhead = {overhead}\nframing = \"{framing}\"");
            text
        };
        let mut slowest = rate_bps;
        let mut text = format!(
            "[scenario]\nseed = {}\nduration = \"{} us\"\n\n[link]\nrate = \"{rate_bps} bps\"\n{}\n\
             [scheduler]\ndiscipline = \"{discipline}\"\n",
            self.below(1_000_000),
            (20_000 + self.below(100_000)) * 8_000_000 / rate_bps,
            of_link(self),
        );
        let returns = self.once_in(4);
        for hop in 0..1 + self.below(4) {
            let rate_bps = if uniform { rate_bps } else { self.one_of(&rates) };
            slowest = slowest.min(rate_bps);
            let of_link = of_link(self);
            let _ =
                write!(text, "\n[[hop]]\nname = \"h{hop}\"\nrate = \"{rate_bps} bps\"\n{of_link}");
            if !uniform {
                let _ = writeln!(text, "discipline = \"{}\"", self.one_of(&disciplines));
            }
            if returns && (hop == 0 || self.once_in(2)) {
                text.push_str("direction = \"return\"\n");
            }
        }
        let classes = if self.once_in(5) { 2 } else { 0 };
        for class in 0..classes {
            let _ = write!(
                text,
                "\n[[class]]\nname = \"c{class}\"\ndiscipline = \"{}\"\nweight = {}\nquantum = \
                 {}\npriority = {}\nperiod = \"8 ms\"\nwindow = \"0/1\"\n",
                self.one_of(&["wf2q+", "sfq", "drr", "fifo", "static-priority", "edf", "wfq"]),
                1 + self.below(5),
                1_500 + self.below(3_000),
                self.below(2),
            );
        }
        let streams = classes.max(1) + self.below(5);
        let unknown = self.once_in(10);
        for stream in 0..streams {
            let bytes = if self.once_in(2) { 500 } else { 40 + self.below(1_460) };
            let share = slowest / (streams + self.below(streams * 2));
            let interval_ns = (bytes + 60) * 8_000_000_000 / share.max(1);
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"s{stream}\"\nweight = {}\npriority = {}\nquantum = \
                 {}\nperiod = \"{} ns\"\nwindow = \"{}\"\n",
                1 + self.below(4),
                self.below(3),
                1_500 + self.below(2_000),
                interval_ns * (1 + self.below(3)),
                self.one_of(&["0/1", "0/1", "1/2", "0/4"]),
            );
            if classes > 0 && (stream < classes || !self.once_in(4)) {
                let _ = writeln!(text, "class = \"c{}\"", stream % classes);
            }
            if returns && self.once_in(2) {
                text.push_str("direction = \"return\"\n");
            }
            if self.once_in(8) {
                let _ = writeln!(text, "queue = {}", self.one_of(&[1, 2, 8, 400]));
            }
            let capped = self.once_in(8);
            if capped {
                let _ = writeln!(text, "max-rate = \"{} bps\"", share + self.below(share));
                if self.once_in(2) {
                    let _ = writeln!(text, "burst = \"{} B\"", (bytes + 60) * (1 + self.below(9)));
                }
            }
            if self.once_in(12) {
                text.push_str("late = \"drop\"\n");
            }
            let start_ns = if self.once_in(2) { 0 } else { self.below(interval_ns * 2) };
            let source = match self.below(8) {
                // A flood, which only its cap limits.
                _ if capped && self.once_in(2) => format!(
                    "kind = \"cbr\", bytes = {bytes}, rate = \"{} bps\"",
                    share * (1 + self.below(6))
                ),
                0 => format!("kind = \"poisson\", bytes = {bytes}, rate = \"{share} bps\""),
                1 => {
                    format!("kind = \"backlog\", bytes = {bytes}, packets = {}", 1 + self.below(12))
                }
                2 => format!(
                    "kind = \"generator\", packets = 60, bytes = {bytes}, interval = \"{} ns\", \
                     pause-after = {}, pause = \"{} ns\"",
                    1 + self.below(interval_ns / 4),
                    1 + self.below(6),
                    interval_ns * (4 + self.below(6)),
                ),
                _ => format!("kind = \"cbr\", bytes = {bytes}, interval = \"{interval_ns} ns\""),
            };
            let _ = writeln!(text, "source = {{ {source}, start = \"{start_ns} ns\" }}");
        }
        if unknown {
            text.push_str(
                "\n[[stream]]\nname = \"tcp\"\npriority = 3\nperiod = \"20 ms\"\nqueue = 40\n\
                 source = { kind = \"tcp\", connections = 2, rtt = \"10 ms\", bytes = 1000 }\n",
            );
        }
        text
    }

    /// Returns the text of a random link with rate caps; some streams offer more than theirs.
    pub(crate) fn caps(&mut self) -> String {
        let disciplines = [&["fifo", "static-priority", "edf"][..], &SHARING, &["lqf"]].concat();
        let rate_bps = self.one_of(&[8_000_000, 100_000_000, 12_345_678]);
        let discipline = self.one_of(&disciplines);
        let mut text = format!(
            "[scenario]\nseed = {}\nduration = \"{} us\"\n\n[link]\nrate = \"{rate_bps} bps\"\n\
             overhead = {}\n\n[scheduler]\ndiscipline = \"{discipline}\"\n",
            self.below(1_000_000),
            (30_000 + self.below(150_000)) * 8_000_000 / rate_bps,
            self.below(40),
        );
        let classes = if self.once_in(4) { 2 } else { 0 };
        for class in 0..classes {
            let _ = write!(
                text,
                "\n[[class]]\nname = \"c{class}\"\ndiscipline = \"{}\"\nweight = {}\nquantum = \
                 {}\npriority = {}\nperiod = \"8 ms\"\n",
                self.one_of(&["wf2q+", "sfq", "drr", "fifo", "static-priority", "wfq"]),
                1 + self.below(5),
                1_500 + self.below(3_000),
                self.below(2),
            );
            if self.once_in(6) {
                let _ = writeln!(text, "max-rate = \"{} bps\"", rate_bps / (1 + self.below(4)));
            }
        }
        let streams = 2 + self.below(4);
        for stream in 0..streams {
            let bytes = 40 + self.below(1_460);
            let share = rate_bps / (streams + self.below(streams * 3));
            let interval_ns = (bytes + 40) * 8_000_000_000 / share;
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"s{stream}\"\nweight = {}\npriority = {}\nquantum = \
                 {}\nperiod = \"{} ns\"\n",
                1 + self.below(4),
                self.below(3),
                1_500 + self.below(2_000),
                interval_ns * (1 + self.below(3)),
            );
            if classes > 0 && (stream < classes || !self.once_in(4)) {
                let _ = writeln!(text, "class = \"c{}\"", stream % classes);
            }
            let capped = self.once_in(2);
            if capped {
                let cap = share + share * self.below(8) / 8;
                let burst = (bytes + 40) * (1 + self.below(8)) + self.below(2_000);
                let _ = writeln!(text, "max-rate = \"{cap} bps\"\nburst = \"{burst} B\"");
            }
            let start_ns = if self.once_in(2) { 0 } else { self.below(interval_ns * 2) };
            let source = match self.below(8) {
                // A flood, which only its cap limits.
                0 | 1 if capped => format!(
                    "kind = \"cbr\", bytes = {bytes}, rate = \"{} bps\"",
                    share * (1 + self.below(6))
                ),
                2 if capped => format!("kind = \"backlog\", bytes = {bytes}, packets = 400"),
                3 => format!("kind = \"poisson\", bytes = {bytes}, rate = \"{share} bps\""),
                4 => format!(
                    "kind = \"generator\", packets = 60, bytes = {bytes}, interval = \"{} ns\", \
                     pause-after = {}, pause = \"{} ns\"",
                    1 + self.below(interval_ns / 4),
                    1 + self.below(6),
                    interval_ns * (4 + self.below(6)),
                ),
                _ => format!("kind = \"cbr\", bytes = {bytes}, interval = \"{interval_ns} ns\""),
            };
            let _ = writeln!(text, "source = {{ {source}, start = \"{start_ns} ns\" }}");
        }
        text
    }

    /// Returns the text of a random fabric with output queues and connections of constant bit rate.
    pub(crate) fn fabric(&mut self) -> String {
        let disciplines = ["fifo", "wf2q+", "drr", "static-priority", "wfq", "scfq"];
        self.fabric_with("buffering = \"output\"\n", &disciplines)
    }

    /// Returns the text of a random fabric with crossbars, credits and connections of constant bit
    /// rate.
    pub(crate) fn crossbars(&mut self) -> String {
        // A buffer holds the largest packet.
        let largest = 1_464;
        let buffer = |draw: &mut Self| 1_472 + draw.below(12) * draw.below(12) * 600;
        let buffers = format!(
            "largest-packet = {largest}\nspeed-up = {}\ninput-buffer = \"{} B\"\noutput-buffer = \
             \"{} B\"\nqueueing = \"{}\"\narbiter = \"{}\"\n",
            self.one_of(&["1.0", "1.5", "1.5", "2.0", "3.0"]),
            buffer(self),
            buffer(self),
            self.one_of(&["virtual-output", "virtual-output", "virtual-output", "fifo"]),
            self.one_of(&["round-robin", "islip"]),
        );
        let disciplines = [
            "fifo",
            "wf2q+",
            "drr",
            "static-priority",
            "wfq",
            "scfq",
            "sfq",
            "wrr",
            "virtual-clock",
        ];
        self.fabric_with(&buffers, &disciplines)
    }

    /// Returns the text of a random fabric of either kind with virtual links that start together.
    pub(crate) fn virtual_links(&mut self) -> String {
        let mut text = if self.once_in(3) { self.fabric() } else { self.crossbars() };
        text.truncate(text.find("\n[[stream]]").unwrap());
        // All topologies have three end-points.
        let end_points = if text.contains("custom") { 3 } else { 4 };
        for stream in 0..2 + self.below(6) {
            let from = self.below(end_points);
            let to = (from + 1 + self.below(end_points - 1)) % end_points;
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"v{stream}\"\npriority = {}\nquantum = 2000\nsource = {{ \
                 kind = \"cbr\", bytes = {}, rate = \"{} Mbps\", from = \"e{from}\", to = \
                 \"e{to}\", start = \"{} ns\" }}\n",
                self.below(3),
                64 + self.below(1_400),
                20 + self.below(30) * self.below(30),
                1 + self.below(3) * self.below(5_000),
            );
        }
        text
    }

    /// Returns the text of a random fabric with these keys and one of these disciplines.
    fn fabric_with(&mut self, keys: &str, disciplines: &[&str]) -> String {
        let topology = self.one_of(&[
            "kind = \"folded-shuffle\", arity = 2, levels = 2",
            "kind = \"folded-shuffle\", arity = 2, levels = 3",
            "kind = \"folded-shuffle\", arity = 3, levels = 2",
            "kind = \"shuffle\", radix = 2, stages = 3",
            "kind = \"fat-tree\", ports = 4",
            "kind = \"mesh\", sizes = [2, 3]",
            "kind = \"torus\", sizes = [4]",
            "kind = \"dragonfly\", end-points = 1, switches = 2, globals = 1",
            "kind = \"custom\", end-points = 3, switches = [4, 3], cables = [[\"e0\", \"s0:0\"], \
             [\"e1\", \"s0:1\"], [\"s0:2\", \"s1:0\"], [\"e2\", \"s1:1\"]]",
        ]);
        let mut text = format!(
            "[scenario]\nseed = {}\nduration = \"{} us\"\n\n[link]\nrate = \"{}\"\n\n[fabric]\n\
             topology = {{ {topology} }}\n{keys}forwarding = \"{}\"\n\
             delay = \"{} ns\"\nlatency = \"{} ns\"\n\n[scheduler]\ndiscipline = \"{}\"\n",
            self.below(1_000_000),
            100 + self.below(300),
            self.one_of(&["1 Gbps", "2 Gbps", "2.5 Gbps", "10 Gbps"]),
            self.one_of(&["cut-through", "store-and-forward"]),
            self.below(200),
            1 + self.below(300),
            self.one_of(disciplines),
        );
        for stream in 0..1 + self.below(3) {
            let bytes = 64 + self.below(1_400);
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"s{stream}\"\nweight = {}\nquantum = {}\npriority = \
                 {}\nsource = {{ kind = \"cbr\", bytes = {bytes}, rate = \"{} Mbps\", \
                 load = 0.{:02} }}\n",
                1 + self.below(4),
                2_000 + self.below(2_000),
                self.below(3),
                20 + self.below(200),
                5 + self.below(40),
            );
        }
        text
    }

    /// Unit jobs that need nearly the whole link; about half of the draws break one premise.
    fn tight(&mut self) -> String {
        let discipline = self.one_of(&["dwcs", "vds", "pd2"]);
        let (slot_ns, slots) = (1_000, self.below(3) + 1);
        let equal = discipline == "dwcs" || self.once_in(2);
        let broken = self.below(12);
        let late = self.one_of(&["send", "drop"]);
        let mut text = format!(
            "[scenario]\nduration = \"{} ns\"\n\n[link]\nrate = \"1 Gbps\"\n\n[scheduler]\n\
             discipline = \"{discipline}\"\n",
            slot_ns * slots * (60 + self.below(60)),
        );
        let mut left = 1.0;
        for stream in 0..12 {
            let periods = if equal { slots } else { self.below(6) + 1 };
            let mut period_ns = periods * slot_ns;
            let of = self.below(if broken == 0 { 18 } else { 9 }) + 1;
            let required = match self.below(if broken == 0 { 9 } else { 4 }) {
                0 | 1 => of,
                2 | 3 => 1,
                _ => self.below(of) + 1,
            };
            #[allow(clippy::cast_precision_loss)]
            let need = required as f64 / (of * periods) as f64;
            if need > left + 1e-9 {
                continue;
            }
            left -= need;
            if broken == 1 && self.once_in(3) {
                period_ns += self.below(slot_ns);
            }
            let start_ns = match broken {
                2 => self.below(period_ns * 2),
                3 => self.below(slots * 2) * slot_ns,
                _ => 0,
            };
            let _ = writeln!(text, "\n[[stream]]\nname = \"s{stream}\"\nlate = \"{late}\"");
            let _ =
                writeln!(text, "period = \"{period_ns} ns\"\nwindow = \"{}/{of}\"", of - required);
            let interval = format!("bytes = 125, interval = \"{period_ns} ns\"");
            let source = match self.below(4) {
                _ if broken == 4 => format!(
                    "kind = \"generator\", packets = 80, {interval}, pause-after = {}, pause \
                     = \"{} ns\"",
                    self.below(12) + 1,
                    period_ns * (self.below(12) + 1),
                ),
                0 => format!("kind = \"cbr\", {interval}"),
                _ => "kind = \"backlog\", bytes = 125, packets = 200".to_owned(),
            };
            let _ = writeln!(text, "source = {{ {source}, start = \"{start_ns} ns\" }}");
        }
        text
    }

    fn loose(&mut self) -> String {
        let row = &DISCIPLINES[usize::try_from(self.below(DISCIPLINES.len() as u64)).unwrap()];
        let deadlines = DISCIPLINES.iter().filter(|row| row.guarantee.deadlines().is_some());
        let deadlines: Vec<_> = deadlines.map(|row| row.name).collect();
        // Half of all draws use a deadline discipline, since those have the most premises.
        let discipline = if self.once_in(2) { self.one_of(&deadlines) } else { row.name };
        let rate_bps = self.one_of(&[8_000_000, 100_000_000, 1_000_000_000, 12_345_678]);
        let streams = self.below(5) + 1;
        let mut common = Common {
            discipline,
            rate_bps,
            overhead: self.one_of(&[0, 24, -6]),
            framing: self.one_of(&["none", "none", "none", "atm", "ptm"]),
            streams,
            bytes: self.one_of(&[125, 500, 1500]),
            period_ns: 0,
        };
        let slot_ns = common.slot_ns(common.bytes);
        common.period_ns = (self.below(streams) + 1) * slot_ns;
        if self.once_in(6) {
            common.period_ns += self.below(slot_ns);
        }
        let duration_ns = slot_ns * (50 + self.below(150));
        let mut text = format!(
            "[scenario]\nseed = {}\nduration = \"{duration_ns} ns\"\n\n[link]\nrate = \"{rate_bps} \
             bps\"\noverhead = {}\nframing = \"{}\"\n",
            self.below(1_000_000),
            common.overhead,
            common.framing,
        );
        if self.once_in(10) {
            let buffer = (self.below(60) + 1) * 64;
            let delay_ns = self.below(slot_ns * 4);
            let _ = writeln!(
                text,
                "credits = {{ buffer = \"{buffer} B\", return-delay = \"{delay_ns} ns\" }}"
            );
        }
        let _ = writeln!(text, "\n[scheduler]\ndiscipline = \"{discipline}\"");
        self.settings(&mut text, &common);
        let flat = streams < 2 || ["table", "minbw"].contains(&discipline);
        let classes = if !flat && self.once_in(4) { self.classes(&mut text, &common) } else { 0 };
        for stream in 0..streams {
            self.stream(&mut text, &common, stream, classes);
        }
        text
    }

    /// Appends classes, the third within the first; returns their number.
    fn classes(&mut self, text: &mut String, common: &Common) -> u64 {
        let count = (2 + self.below(2)).min(common.streams);
        for class in 0..count {
            let inner = self.one_of(&[
                "fifo",
                "wf2q+",
                "drr",
                "dwcs",
                "edf",
                "sfq",
                "scfq",
                "wfq",
                "wrr",
                "las",
                "static-priority",
            ]);
            let _ = writeln!(text, "\n[[class]]\nname = \"c{class}\"\ndiscipline = \"{inner}\"");
            let _ = writeln!(text, "period = \"{} ns\"", common.period_ns);
            let _ = writeln!(text, "weight = {}", self.below(5) + 1);
            let _ = writeln!(text, "priority = {}", self.below(3));
            if class == 2 {
                text.push_str("parent = \"c0\"\n");
            }
            if self.once_in(24) {
                let _ = writeln!(text, "max-rate = \"{} bps\"", common.rate_bps / 2);
            }
        }
        count
    }

    fn settings(&mut self, text: &mut String, common: &Common) {
        match common.discipline {
            "dwcs" => {
                if self.once_in(8) {
                    text.push_str("order = \"loss-first\"\n");
                }
                if self.once_in(8) {
                    text.push_str("rules = \"rtas99\"\n");
                }
                if self.once_in(4) {
                    text.push_str("zero-window = \"lowest-denominator\"\n");
                }
            }
            "minbw" => {
                let algorithm = self.one_of(&["wfq", "scfq", "drr"]);
                let _ = writeln!(text, "algorithm = \"{algorithm}\"");
            }
            "table" => {
                let mut entries: Vec<_> = (0..common.streams).collect();
                for _ in 0..self.below(6) {
                    entries.push(self.below(common.streams));
                }
                let names: Vec<_> = entries.iter().map(|at| format!("\"s{at}\"")).collect();
                let _ = writeln!(text, "table = [{}]", names.join(", "));
            }
            _ => {}
        }
    }

    fn stream(&mut self, text: &mut String, common: &Common, at: u64, classes: u64) {
        let bytes = if self.once_in(6) { self.one_of(&[64, 125, 500, 1500]) } else { common.bytes };
        let slot_ns = common.slot_ns(bytes);
        // Where periods may differ, draws that need nearly the whole link use several periods.
        let mixed = ["vds", "pd2"].contains(&common.discipline) && common.streams > 2;
        let period_ns = match self.below(if mixed { 4 } else { 8 }) {
            0 => (self.below(common.streams * 2) + 1) * slot_ns,
            1 => self.below(slot_ns * 8) + 1,
            _ => common.period_ns,
        };
        let _ = writeln!(text, "\n[[stream]]\nname = \"s{at}\"");
        // Each class has a stream, and some streams are at the root.
        if classes > 0 && (at < classes || !self.once_in(4)) {
            let _ = writeln!(text, "class = \"c{}\"", at % classes);
        }
        let _ = writeln!(text, "period = \"{period_ns} ns\"");
        let of = self.below(8) + 1;
        let (lost, of) = match self.below(5) {
            0 => (0, of),
            1 => (of - 1, of),
            2 => (of, of),
            3 => (0, 0),
            _ => (self.below(of + 1), of),
        };
        let _ = writeln!(text, "window = \"{lost}/{of}\"");
        let _ = writeln!(text, "weight = {}", self.below(5) + 1);
        let _ = writeln!(text, "priority = {}", self.below(3));
        if self.once_in(2) {
            text.push_str("late = \"drop\"\n");
        }
        if self.once_in(4) {
            let _ = writeln!(text, "queue = {}", self.one_of(&[1, 2, 3, 8, 400]));
        }
        if self.once_in(16) {
            let rate = common.rate_bps / self.one_of(&[2, 3, 10]);
            let _ = writeln!(text, "max-rate = \"{rate} bps\"");
        }
        if at == 0 && common.discipline == "minbw" {
            let _ = writeln!(text, "fmc = true\nmax-rate = \"{} bps\"", common.rate_bps / 10)
                .map(|()| dedup_max_rate(text));
        }
        let start_ns = match self.below(8) {
            0 => self.below(common.period_ns * 4),
            1 => self.below(4) * common.slot_ns(common.bytes),
            2 => self.below(4) * common.period_ns,
            _ => 0,
        };
        if self.once_in(8) {
            let first_ns = match self.below(3) {
                0 => self.below(period_ns * 4),
                1 => start_ns + period_ns * (self.below(3) + 1),
                _ => start_ns + period_ns + self.below(period_ns),
            };
            let _ = writeln!(text, "first-deadline = \"{first_ns} ns\"");
        }
        let interval_ns = match self.below(8) {
            0 => self.below(period_ns * 2) + 1,
            1 => period_ns * (self.below(4) + 1),
            2 => slot_ns * (self.below(common.streams * 2) + 1),
            _ => period_ns,
        };
        let rate = common.rate_bps / (common.streams + self.below(common.streams * 3));
        let source = match self.below(8) {
            0 => format!("kind = \"poisson\", bytes = {bytes}, rate = \"{rate} bps\""),
            1 | 2 => {
                format!("kind = \"backlog\", bytes = {bytes}, packets = {}", self.below(200) + 1)
            }
            3 => format!("kind = \"cbr\", bytes = {bytes}, rate = \"{rate} bps\""),
            _ => format!("kind = \"cbr\", bytes = {bytes}, interval = \"{interval_ns} ns\""),
        };
        let _ = writeln!(text, "source = {{ {source}, start = \"{start_ns} ns\" }}");
    }
}

/// Removes the first of two `max-rate` lines of the last stream.
fn dedup_max_rate(text: &mut String) {
    let from = text.rfind("[[stream]]").unwrap_or(0);
    let lines: Vec<_> = text[from..].match_indices("max-rate").map(|(at, _)| from + at).collect();
    if let [first, _] = lines[..] {
        let end = text[first..].find('\n').map_or(text.len(), |end| first + end + 1);
        text.replace_range(first..end, "");
    }
}
