//! The HTTP pages: `/admission` explains who may play, `/metrics` is for Prometheus.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt::Write as _;

use crate::library::Library;
use crate::region::{LATENESS, Setting, State, Word};
use crate::session::{Account, Sessions};

/// The longest request that is read, bytes.
pub(crate) const LONGEST_REQUEST: usize = 4096;

/// The answer to what has come, once it is a whole request.
pub(crate) fn answer(input: &[u8], library: &Library, sessions: &Sessions) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let (status, kind, body) = match request.parse(input) {
        Ok(httparse::Status::Partial) if input.len() < LONGEST_REQUEST => return None,
        Ok(httparse::Status::Partial) => {
            ("431 Request Header Fields Too Large", "text/plain", "431\n".to_owned())
        }
        Err(_) => ("400 Bad Request", "text/plain", "400\n".to_owned()),
        Ok(httparse::Status::Complete(_)) => match (request.method, request.path) {
            (Some("GET"), Some("/admission")) => {
                ("200 OK", "text/plain; charset=utf-8", admission(library, sessions))
            }
            (Some("GET"), Some("/metrics")) => (
                "200 OK",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                metrics(library, sessions),
            ),
            (Some("GET"), _) => {
                ("404 Not Found", "text/plain", "/admission, /metrics\n".to_owned())
            }
            _ => ("405 Method Not Allowed", "text/plain", "GET\n".to_owned()),
        },
    };
    let length = body.len();
    Some(
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
        .into_bytes(),
    )
}

/// Who may play, in words.
fn admission(library: &Library, sessions: &Sessions) -> String {
    let admission = &sessions.admission;
    let mut text = format!(
        "link: {} bits/s; reserved: {} bits/s; {} sessions, {} refused\n\n\
         A client is admitted if in no stretch of time more frames that must go can be due than the link \
         carries in it.\n\n",
        admission.link_bps,
        admission.reserved_bps,
        sessions.iter().count(),
        sessions.refused
    );
    let demands = library.demands();
    for (number, title) in library.titles.iter().enumerate() {
        let _ = write!(
            text,
            "{}: {} bits/s in all, {} of them mandatory: ",
            title.name, title.mean_bps, title.reserved_bps
        );
        let _ = match admission.admits(&demands, number, 1) {
            Ok(()) => {
                let most = sessions.region.sessions() as u64;
                writeln!(text, "{} more would be admitted", admission.room(&demands, number, most))
            }
            Err(reason) => writeln!(text, "refused; {reason}"),
        };
    }
    text
}

/// What is counted of one client, or of all that are gone.
#[derive(Debug)]
struct Counted {
    stream: String,
    client: String,
    account: Account,
}

#[derive(Debug)]
struct Snapshot {
    counted: Vec<Counted>,
    reserved_bps: u64,
    sessions: usize,
    refused: u64,
    turned_away: u64,
    draining: bool,
    settings: Vec<(&'static str, &'static str, u64)>,
    lateness: [u64; LATENESS],
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct Of {
    stream: String,
    client: String,
    frame: &'static str,
    event: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct Below {
    microseconds: String,
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counter = ConstCounter::new(0u64).metric_type();
        let mut family = encoder.encode_descriptor(
            "millstream_media_frames",
            "Frames by stream, client, frame type and what became of them",
            None,
            counter,
        )?;
        for Counted { stream, client, account } in &self.counted {
            let mut one = |frame, event, value: u64| {
                let labels = Of { stream: stream.clone(), client: client.clone(), frame, event };
                ConstCounter::new(value).encode(family.encode_family(&labels)?)
            };
            for (kind, frame) in ["I", "P", "B"].into_iter().enumerate() {
                one(frame, "sent", account.sent[kind])?;
                one(frame, "dropped-late", account.late[kind])?;
                one(frame, "dropped-full", account.full[kind])?;
            }
            one("any", "discarded", account.discarded)?;
            one("any", "lost", account.lost)?;
            one("any", "violation", account.violations)?;
            one("any", "slow-client", account.slow)?;
        }
        let mut family = encoder.encode_descriptor(
            "millstream_media_lateness_frames",
            "Frames of present clients whose last packet went out less than so many µs after release",
            None,
            ConstCounter::new(0u64).metric_type(),
        )?;
        for (bucket, count) in self.lateness.iter().enumerate() {
            let labels = Below { microseconds: (1u64 << bucket).to_string() };
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
        let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        for (name, help, value) in [
            ("millstream_media_reserved_bps", "Reserved of the link, bits/s", self.reserved_bps),
            ("millstream_media_sessions", "Sessions", self.sessions as u64),
            ("millstream_media_draining", "1 while the server drains", self.draining.into()),
        ] {
            let gauge = ConstGauge::new(whole(value));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let refused = ("millstream_media_refused", "Clients refused for bandwidth", self.refused);
        let turned_away = (
            "millstream_media_turned_away",
            "Clients that came while the server drained",
            self.turned_away,
        );
        for (name, help, value) in self.settings.iter().copied().chain([refused, turned_away]) {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

fn metrics(library: &Library, sessions: &Sessions) -> String {
    let region = &sessions.region;
    let mut counted =
        vec![Counted { stream: String::new(), client: "gone".to_owned(), account: sessions.past }];
    let mut lateness = [0; LATENESS];
    for (number, session) in sessions.iter() {
        let row = region.session(number);
        if row.state() == State::Stopped {
            continue;
        }
        counted.push(Counted {
            stream: library.titles[session.title].name.clone(),
            client: number.to_string(),
            account: sessions.account(number),
        });
        for (bucket, sum) in lateness.iter_mut().enumerate() {
            *sum += row.get_at(Word::Lateness, bucket);
        }
    }
    let settings = vec![
        ("millstream_media_decisions", "Decisions", region.get(Setting::Decisions)),
        (
            "millstream_media_scheduling_ns",
            "Time of scheduler and dispatch without the kernel's sending, ns",
            region.get(Setting::SchedulingNs),
        ),
        (
            "millstream_media_sending_ns",
            "Time that the kernel took to send, ns",
            region.get(Setting::SendingNs),
        ),
        (
            "millstream_media_send_errors",
            "Datagrams that the kernel refused",
            region.get(Setting::SendErrors),
        ),
        (
            "millstream_media_processors",
            "Processors that were started",
            region.get(Setting::Generation),
        ),
    ];
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot {
        counted,
        reserved_bps: sessions.admission.reserved_bps,
        sessions: sessions.iter().count(),
        refused: sessions.refused,
        turned_away: sessions.turned_away,
        draining: sessions.draining,
        settings,
        lateness,
    }));
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = encode(&mut text, &registry);
    text
}
