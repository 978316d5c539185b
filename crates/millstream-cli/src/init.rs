//! `millstream init`: writes a commented scenario or router file.

pub(crate) mod interfaces;
mod paths;

use clap::ValueEnum;
use dialoguer::Input;
use miette::miette;
use millstream_scenario::parse_rate_bps;
use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use self::interfaces::Interface;
use crate::arguments::{InitArguments, InitKind};
use crate::examples::{refuse_other_contents, write};
use crate::failure::Failure;
use crate::print;
use crate::terminal::say;

/// The reservation of a call in one direction, kbit/s: twice 238 bytes every 20 ms, on the wire.
const CALL_KBPS: u64 = 200;
/// The least rate of a link of voice, control, web and bulk traffic, bits/s.
const LEAST_BPS: u64 = 1_000_000;

/// Writes the file and prints the commands that use it.
pub(crate) fn init(arguments: &InitArguments) -> Result<(), Failure> {
    refuse_options_of_other_kinds(arguments)?;
    let kind = arguments.kind;
    let default = PathBuf::from(format!("{}.toml", name(kind)));
    let to_standard_output = arguments.file.as_deref() == Some(Path::new("-"));
    let named = arguments.file.as_ref().filter(|_| !to_standard_output);
    let path = named.unwrap_or(&default);
    let answers = Answers { arguments, asks: !arguments.yes && is_interactive(), path };
    let text = match kind {
        InitKind::Uplink => answers.uplink()?,
        InitKind::Voice => answers.voice()?,
        InitKind::Router => answers.router()?,
        InitKind::Media => answers.media()?,
        InitKind::Fabric => answers.fabric()?,
        InitKind::Sweep => answers.sweep()?,
    };
    if to_standard_output {
        return print(&text);
    }
    refuse_other_contents(path, text.as_bytes(), arguments.force)?;
    write(path, text.as_bytes())?;
    say(&format!("wrote {}", path.display()));
    let commands = text.lines().filter_map(|line| line.strip_prefix("#   "));
    print(&commands.map(|command| format!("{command}\n")).collect::<String>())
}

fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns the kind's name on the command line.
fn name(kind: InitKind) -> String {
    kind.to_possible_value().expect("every kind has a name").get_name().to_owned()
}

fn refuse_options_of_other_kinds(arguments: &InitArguments) -> Result<(), Failure> {
    let kind = arguments.kind;
    let options: [(&str, bool, &[InitKind]); 10] = [
        (
            "--rate",
            arguments.rate.is_some(),
            &[
                InitKind::Uplink,
                InitKind::Voice,
                InitKind::Media,
                InitKind::Fabric,
                InitKind::Sweep,
            ],
        ),
        ("--interface", !arguments.interfaces.is_empty(), &[InitKind::Uplink, InitKind::Router]),
        ("--capture", arguments.capture.is_some(), &[InitKind::Uplink]),
        ("--video", arguments.video.is_some(), &[InitKind::Media]),
        ("--calls", arguments.calls.is_some(), &[InitKind::Voice]),
        ("--upload", arguments.upload.is_some(), &[InitKind::Router]),
        ("--download", arguments.download.is_some(), &[InitKind::Router]),
        ("--overhead", arguments.overhead.is_some(), &[InitKind::Router]),
        ("--preset", arguments.preset.is_some(), &[InitKind::Router]),
        ("--end-points", arguments.end_points.is_some(), &[InitKind::Fabric]),
    ];
    for (option, given, kinds) in options {
        if given && !kinds.contains(&kind) {
            let kinds: Vec<_> = kinds.iter().map(|kind| name(*kind)).collect();
            return Err(Failure::Input(miette!(
                help = format!("{option} is for: {}", kinds.join(", ")),
                "`millstream init {}` has no option {option}",
                name(kind)
            )));
        }
    }
    let wanted = if kind == InitKind::Router { 2 } else { 1 };
    match arguments.interfaces.len() {
        0 => Ok(()),
        given if given == wanted => Ok(()),
        given => Err(Failure::Input(miette!(
            "`millstream init {}` needs --interface {}; given: {given}",
            name(kind),
            if wanted == 2 { "twice, the inner one first" } else { "once" }
        ))),
    }
}

/// The command line, and answers to questions about what it leaves open.
struct Answers<'a> {
    arguments: &'a InitArguments,
    /// Whether the user can answer.
    asks: bool,
    /// The file to write.
    path: &'a Path,
}

impl Answers<'_> {
    fn uplink(&self) -> Result<String, Failure> {
        let modem_bps = match self.arguments.interfaces.first() {
            Some(name) if self.arguments.rate.is_none() => {
                let interface = Interface::read(name)?;
                interface.speed_bps.ok_or_else(|| no_speed(name))?
            }
            _ => self.rate("Rate of the uplink", "10 Mbit/s")?,
        };
        let rate_bps = modem_bps / 100 * 95;
        let shares = Shares::of(rate_bps)?;
        let template = match &self.arguments.capture {
            Some(_) => include_str!("init/capture.toml"),
            None => include_str!("init/uplink.toml"),
        };
        let capture = self.arguments.capture.as_deref();
        let capture = capture.map_or(Ok(String::new()), |capture| self.input(capture))?;
        Ok(self.fill(
            template,
            &[
                ("modem", exact_rate(modem_bps)),
                ("rate", exact_rate(rate_bps)),
                ("half", exact_rate(rate_bps / 2)),
                ("capture", capture),
                ("voice", shares.voice.to_string()),
                ("control", shares.control.to_string()),
                ("web", shares.web.to_string()),
                ("bulk", shares.bulk.to_string()),
            ],
        ))
    }

    fn voice(&self) -> Result<String, Failure> {
        let rate_bps = self.rate("Rate of the link", "10 Mbit/s")?;
        let calls = match self.arguments.calls {
            Some(calls) => calls,
            None => self.ask("Number of calls", "10", |text| match text.parse() {
                Ok(calls @ 1..=1000) => Ok(calls),
                _ => Err("expected a number of calls, 1 to 1000".into()),
            })?,
        };
        let weight = u64::from(calls) * CALL_KBPS;
        let Some(rest) = (rate_bps / 1_000).checked_sub(weight).filter(|rest| *rest > 0) else {
            return Err(Failure::Input(miette!(
                help = format!("a rate above {}, or fewer calls", exact_rate(weight * 1_000)),
                "{calls} calls do not fit {}",
                exact_rate(rate_bps)
            )));
        };
        Ok(self.fill(
            include_str!("init/voice.toml"),
            &[
                ("calls", calls.to_string()),
                ("rate", exact_rate(rate_bps)),
                ("double", exact_rate(rate_bps.saturating_mul(2))),
                ("interval", exact_time(20_000_000 / u64::from(calls))),
                ("weight", weight.to_string()),
                ("rest", rest.to_string()),
            ],
        ))
    }

    fn router(&self) -> Result<String, Failure> {
        let (lan, wan) = match self.arguments.interfaces.as_slice() {
            [lan, wan] => (Interface::read(lan)?, Interface::read(wan)?),
            _ if self.asks => (
                Interface::read(&self.ask("Inner interface", "eth1", |text| Ok(text.to_owned()))?)?,
                Interface::read(&self.ask("Outer interface", "eth0", |text| Ok(text.to_owned()))?)?,
            ),
            _ => (placeholder("eth1"), placeholder("eth0")),
        };
        if lan.name == wan.name {
            return Err(Failure::Input(miette!(
                "a router needs two interfaces; both are `{}`",
                lan.name
            )));
        }
        let address = |interface: &Interface, default: &str| match interface.address {
            Some((address, bits)) => format!(
                "\"{address}/{bits}\"  # as now; remove it there: ip address del {address}/{bits} \
                 dev {}",
                interface.name
            ),
            None => format!("\"{default}/24\""),
        };
        let rate = |interface: &Interface| exact_rate(interface.speed_bps.unwrap_or(1_000_000_000));
        let wan_rate = self.arguments.upload.map_or_else(|| rate(&wan), exact_rate);
        let overhead = self.arguments.overhead.clone().unwrap_or_else(|| "24".to_owned());
        let download = self.arguments.download.map_or_else(String::new, |rate_bps| {
            let text = include_str!("init/download.toml").replace("{rate}", &exact_rate(rate_bps));
            text.replace("{overhead}", &overhead)
        });
        let gateway = wan
            .address
            .and_then(|_| interfaces::gateway(&wan.name))
            .unwrap_or_else(|| last_host(wan.address));
        Ok(self.fill(
            include_str!("init/router.toml"),
            &[
                ("lan", lan.name.clone()),
                ("lan_rate", rate(&lan)),
                ("lan_address", address(&lan, "10.1.0.1")),
                ("wan", wan.name.clone()),
                ("wan_rate", wan_rate),
                ("overhead", overhead),
                ("download", download),
                ("wan_address", address(&wan, "10.2.0.1")),
                ("gateway", gateway.to_string()),
                ("paths", paths::paths(self.arguments.preset)),
            ],
        ))
    }

    fn media(&self) -> Result<String, Failure> {
        let rate_bps = self.rate("Rate of the link", "20 Mbit/s")?;
        let (name, source, publish) = match &self.arguments.video {
            Some(video) => {
                let source =
                    format!("{{ kind = \"mpeg\", file = {}, repeat = true }}", self.input(video)?);
                ("clip", source, "")
            }
            None => (
                "live",
                "{ kind = \"live\", codec = \"h264\", rate = \"2 Mbit/s\", burst = \"125 KB\" }"
                    .into(),
                "#   ffmpeg -re -i FILE -an -c:v libx264 -f rtsp rtsp://127.0.0.1:8554/live\n",
            ),
        };
        Ok(self.fill(
            include_str!("init/media.toml"),
            &[
                ("rate", exact_rate(rate_bps)),
                ("name", name.into()),
                ("source", source),
                ("publish", publish.into()),
            ],
        ))
    }

    fn fabric(&self) -> Result<String, Failure> {
        let rate_bps = self.rate("Rate of a link", "1 Gbit/s")?;
        if rate_bps < 100 * LEAST_BPS {
            return Err(too_slow(rate_bps, 100 * LEAST_BPS));
        }
        let end_points = match &self.arguments.end_points {
            Some(end_points) => end_points.clone(),
            None => self.ask("End-points: 16, 64 or 256", "16", |text| match text {
                "16" | "64" | "256" => Ok(text.to_owned()),
                _ => Err("expected 16, 64 or 256".into()),
            })?,
        };
        let levels = match end_points.as_str() {
            "16" => "2",
            "64" => "3",
            _ => "4",
        };
        Ok(self.fill(
            include_str!("init/fabric.toml"),
            &[
                ("rate", exact_rate(rate_bps)),
                ("hundredth", exact_rate(rate_bps / 100)),
                ("half", exact_rate(rate_bps / 2)),
                ("end_points", end_points),
                ("levels", levels.into()),
            ],
        ))
    }

    fn sweep(&self) -> Result<String, Failure> {
        let rate_bps = self.rate("Rate of the link", "10 Mbit/s")?;
        let shares = Shares::of(rate_bps)?;
        Ok(self.fill(
            include_str!("init/sweep.toml"),
            &[
                ("rate", exact_rate(rate_bps)),
                ("double", exact_rate(rate_bps.saturating_mul(2))),
                ("half", exact_rate(rate_bps / 2)),
                ("voice", shares.voice.to_string()),
                ("web", shares.web.to_string()),
                ("bulk", shares.bulk.to_string()),
            ],
        ))
    }

    /// Returns the rate, bits/s.
    fn rate(&self, question: &str, default: &str) -> Result<u64, Failure> {
        self.arguments.rate.map_or_else(|| self.ask(question, default, parse_rate_bps), Ok)
    }

    /// Asks a question until `parse` accepts the answer. Without a terminal, parses the default.
    fn ask<T>(
        &self,
        question: &str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let answer = if self.asks {
            Input::<String>::new()
                .with_prompt(question)
                .default(default.to_owned())
                .validate_with(|answer: &String| parse(answer).map(drop))
                .interact_text()
                .map_err(|error| Failure::Run(miette!("cannot read the answer: {error}")))?
        } else {
            default.to_owned()
        };
        parse(&answer).map_err(|error| Failure::Input(miette!("{question}: {error}")))
    }

    /// Returns the path of an input, quoted for TOML and relative to the file.
    fn input(&self, input: &Path) -> Result<String, Failure> {
        if !input.is_file() {
            return Err(Failure::Input(miette!("{}: there is no such file", input.display())));
        }
        let beside = self.path.parent().is_none_or(|parent| parent.as_os_str().is_empty());
        let path = if beside { Ok(input.to_owned()) } else { std::path::absolute(input) };
        let path = path.map_err(|error| Failure::file(input, &error))?;
        let Some(path) = path.to_str() else {
            return Err(Failure::Input(miette!("{}: the name is not UTF-8", input.display())));
        };
        Ok(toml::Value::from(path).to_string())
    }

    /// Replaces each `{key}` of the template.
    fn fill(&self, template: &str, values: &[(&str, String)]) -> String {
        let mut text = template.replace("{file}", &self.path.display().to_string());
        for (key, value) in values {
            text = text.replace(&format!("{{{key}}}"), value);
        }
        text
    }
}

/// The weights of a link's streams, kbit/s; together the rate of the link.
struct Shares {
    voice: u64,
    control: u64,
    web: u64,
    bulk: u64,
}

impl Shares {
    fn of(rate_bps: u64) -> Result<Self, Failure> {
        if rate_bps < LEAST_BPS * 95 / 100 {
            return Err(too_slow(rate_bps, LEAST_BPS));
        }
        let kbps: u64 = u32::try_from(rate_bps / 1_000).unwrap_or(u32::MAX).into();
        let web = kbps / 2;
        Ok(Self { voice: CALL_KBPS, control: CALL_KBPS, web, bulk: kbps - web - 2 * CALL_KBPS })
    }
}

fn too_slow(rate_bps: u64, least_bps: u64) -> Failure {
    Failure::Input(miette!(
        help = format!("--rate of at least {}", exact_rate(least_bps)),
        "{} are too little for these streams",
        exact_rate(rate_bps)
    ))
}

fn no_speed(name: &str) -> Failure {
    Failure::Input(miette!(
        help = "--rate says how fast the uplink is",
        "the driver of `{name}` does not tell its speed"
    ))
}

/// Returns an interface that the user will rename.
fn placeholder(name: &str) -> Interface {
    Interface { name: name.to_owned(), speed_bps: None, address: None }
}

/// Returns the last host of the network of `address`; by default that of 10.2.0.1/24.
fn last_host(address: Option<(Ipv4Addr, u32)>) -> Ipv4Addr {
    let (address, bits) = address.unwrap_or((Ipv4Addr::new(10, 2, 0, 1), 24));
    let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
    Ipv4Addr::from_bits((address.to_bits() | hosts).saturating_sub(1))
}

/// Formats a rate exactly, in the largest unit without a fraction.
fn exact_rate(bps: u64) -> String {
    exact(bps, &[(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s"), (1, "bit/s")])
}

/// Formats a time given in ns exactly, in the largest unit without a fraction.
fn exact_time(ns: u64) -> String {
    exact(ns, &[(1_000_000, "ms"), (1_000, "us"), (1, "ns")])
}

fn exact(value: u64, units: &[(u64, &str)]) -> String {
    let fits = |unit: &&(u64, &str)| value.is_multiple_of(unit.0);
    // Every value is a multiple of the last unit, 1.
    let (scale, unit) = units.iter().find(fits).unwrap_or(&units[units.len() - 1]);
    format!("{} {unit}", value / scale)
}
