//! scratch baseline (removed before finishing)
use millstream_report::chart::{Chart, Line, lines};
use millstream_report::*;
use millstream::*;
fn main() {
    let mut out = String::new();
    for (max, xl, yl) in [(64_000.0, true, false), (23.0, false, false), (57_339.0, true, false), (64_000.0, true, true), (5.3, true, true)] {
        let ls: Vec<Line> = (0..5).map(|k| Line { name: format!("s{k}"), points: (1..300).map(|i| { let t = i as f64 / 300.0; (max * t, (k as f64 + 1.0) * t / 15.0) }).collect() }).collect();
        out += &lines(&Chart { title: "t & <x>", x_label: "a (ms)", y_label: "b", x_log: xl, y_log: yl, alone: true, size: (760, 400) }, &ls).unwrap();
    }
    std::fs::write(std::env::args().nth(1).unwrap(), out).unwrap();
    // speed
    for series in [false, true] {
        let n = 1000u32;
        let mut r = Recorder::new((0..n).map(|k| format!("s{k}")).collect(), RecorderOptions { series });
        let mut x = 1u64;
        let total = 20_000_000u64;
        let mut t0 = std::time::Instant::now();
        for k in 0..total + 2_000_000 {
            if k == 2_000_000 { t0 = std::time::Instant::now(); }
            x ^= x << 13; x ^= x >> 7; x ^= x << 17;
            let s = StreamId(((x >> 20) % 1000) as u32);
            let t = k * 1000;
            r.arrived(s, t, 1000);
            r.departed(&Departure { time_ns: t + (x >> 44), stream: s, packet: k, bytes: 1000, arrival_ns: t, deadline_ns: None, event: Event::Sent, tag: 0 });
            r.busy(t, t + 900);
        }
        println!("series {series}: {:.1} ns/packet", t0.elapsed().as_nanos() as f64 / total as f64);
        std::hint::black_box(r.finish(total * 1000));
    }
    let mut w = DeparturesWriter::new(std::io::BufWriter::with_capacity(1 << 16, std::fs::File::create("/dev/null").unwrap()), (0..1000).map(|k| format!("stream-{k}")).collect()).unwrap();
    let t0 = std::time::Instant::now();
    let rows = 10_000_000u64;
    for k in 0..rows {
        w.write(&Departure { time_ns: k * 1234567, stream: StreamId((k % 1000) as u32), packet: k, bytes: 1316, arrival_ns: k * 1234000, deadline_ns: Some(k * 1234999), event: Event::Sent, tag: 0 }).unwrap();
    }
    w.flush().unwrap();
    println!("csv {:.1} M rows/s", rows as f64 / t0.elapsed().as_secs_f64() / 1e6);
    println!("StreamResults {} B", std::mem::size_of::<StreamResults>());
}
