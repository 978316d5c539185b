//! Pages of a running program by HTTP/1.1: its dashboard, counters for Prometheus, its state as
//! JSON.
//!
//! One thread for all of it, besides what the program does. What a client may take is bounded: so
//! many connections at once, one request on each, so many bytes of header, and a time for the
//! header and for all of it. Bodies are read of orders alone, where a program takes any, up to a
//! length that it sets.
//!
//! When all connections are taken, the one whose request has been incomplete for longest is closed
//! for the next (`places`): clients that send nothing keep no other out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use sha2::{Digest as _, Sha256};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

mod places;

use places::{Place, Places};

/// Connections at once.
const CONNECTIONS: usize = 32;
/// The longest header of a request, bytes; the least that the library takes.
const HEADER_BYTES: usize = 8_192;
/// The most fields in it.
const HEADER_FIELDS: usize = 64;
/// How long a request's header may take to come.
const HEADER_TIME: Duration = Duration::from_secs(2);
/// How long a connection may last: the answer must have been read by then.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

/// What a program answers to a request for one of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A page for people or scripts that is only text.
    Text(String),
    /// A JSON document.
    Json(String),
    /// Counters in the OpenMetrics text format.
    Metrics(String),
    /// Bytes that only the program and who asked know the meaning of.
    Bytes(Vec<u8>),
    /// It does not answer now: why.
    Unavailable(String),
    /// It will not: an HTTP status from 400 on, and why.
    Refused(u16, String),
    /// There is no such page.
    NotFound,
}

/// What a program is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Put the body there.
    Put,
    /// Work on the body.
    Post,
    /// Take away what is there.
    Delete,
}

/// A request that is more than a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What is to be done.
    pub verb: Verb,
    /// With what, as in the URL.
    pub path: String,
    /// What stands behind `?`, or nothing.
    pub query: String,
    /// The body's kind, as the client says.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Who does what is ordered.
pub struct Orders {
    /// The longest body, bytes.
    pub most_bytes: usize,
    /// Does it, in a thread in which it may wait for some seconds.
    pub obey: Box<dyn Fn(Order) -> Answer + Send + Sync>,
}

/// Threads that orders are done in at once.
const ORDERS_AT_ONCE: usize = 4;

/// Answers GET and HEAD requests at `listener`, from a thread of its own that ends with the
/// program: `/` with the dashboard, which asks for `/status`, and every other path with what
/// `answer` says, which may take a second or so and no more. `paths` are those that there are, for
/// whoever asks for another.
///
/// At a loopback address it answers only who asked for such an address or `localhost`: otherwise a
/// page of the web could have a browser on this machine read this one (DNS rebinding).
///
/// # Errors
/// If the system has no thread or no poller for it.
pub fn serve(
    listener: TcpListener,
    paths: &'static str,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> io::Result<()> {
    serve_with(listener, paths, answer, None)
}

/// The same for a program that takes orders by PUT, POST and DELETE.
///
/// Browsers are refused: whoever sends `Origin` or `Sec-Fetch-Site`, as they do with such requests.
///
/// # Errors
/// As [`serve`].
pub fn serve_with(
    listener: TcpListener,
    paths: &'static str,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    orders: Option<Orders>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let loopback = listener.local_addr()?.ip().to_canonical().is_loopback();
    let (policy, orders) = (policy(DASHBOARD)?, orders.map(Arc::new));
    let site = Arc::new(Site { loopback, paths, policy, answer, orders });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(ORDERS_AT_ONCE)
        .enable_all()
        .build()?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let serving =
        move || runtime.block_on(tokio::task::LocalSet::new().run_until(accept(listener, site)));
    thread::Builder::new().name("http".into()).spawn(serving)?;
    Ok(())
}

/// The dashboard of every program that has one; it shows what `/status` says.
const DASHBOARD: &str = include_str!("../templates/dashboard.html");

struct Site<F> {
    loopback: bool,
    paths: &'static str,
    /// The dashboard's content security policy.
    policy: HeaderValue,
    answer: F,
    orders: Option<Arc<Orders>>,
}

async fn accept<F: Fn(&str) -> Answer + 'static>(
    listener: tokio::net::TcpListener,
    site: Arc<Site<F>>,
) {
    let places = Places::new(CONNECTIONS);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, say: do not spin.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let place = places.take().await;
        let number = place.number;
        let site = Arc::clone(&site);
        let connection = tokio::task::spawn_local(async move {
            let service = service_fn(|request| {
                let (site, place) = (&site, &place);
                async move { Ok::<_, Infallible>(site.respond(request, place).await) }
            });
            let connection = connections().serve_connection(TokioIo::new(stream), service);
            // What a client did wrong is the client's to know.
            let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
        });
        places.begins(number, connection.abort_handle());
    }
}

/// How connections are served.
fn connections() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADER_FIELDS)
        .keep_alive(false);
    builder
}

impl<F: Fn(&str) -> Answer> Site<F> {
    async fn respond(&self, request: Request<Incoming>, place: &Place) -> Response<Full<Bytes>> {
        let text = "text/plain; charset=utf-8";
        let ordered = self.orders.as_ref().zip(verb(request.method()));
        if ordered.is_none() {
            place.is_complete();
        }
        let host = host(&request);
        let answer = if let Err(why) = host {
            Answer::Refused(StatusCode::BAD_REQUEST.as_u16(), why.to_owned())
        } else if self.loopback && !is_local(&request, host.unwrap_or_default()) {
            let said =
                "this address is for its own machine only: ask for it by number, or as localhost";
            Answer::Refused(StatusCode::MISDIRECTED_REQUEST.as_u16(), said.to_owned())
        } else if let Some((orders, verb)) = ordered {
            order(orders, verb, request, place).await
        } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
            Answer::Refused(StatusCode::METHOD_NOT_ALLOWED.as_u16(), "GET only".to_owned())
        } else if request.uri().path() == "/" {
            return self.response(StatusCode::OK, "text/html; charset=utf-8", DASHBOARD.into());
        } else {
            (self.answer)(request.uri().path())
        };
        let (status, kind, body) = match answer {
            Answer::Text(body) => (StatusCode::OK, text, body.into_bytes()),
            Answer::Json(body) => (StatusCode::OK, "application/json", body.into_bytes()),
            Answer::Metrics(body) => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                (StatusCode::OK, kind, body.into_bytes())
            }
            Answer::Bytes(body) => (StatusCode::OK, "application/octet-stream", body),
            Answer::Unavailable(why) => {
                (StatusCode::SERVICE_UNAVAILABLE, text, (why + "\n").into_bytes())
            }
            Answer::Refused(status, why) => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
                (status, text, (why + "\n").into_bytes())
            }
            Answer::NotFound => {
                let there_are = format!("there are {}\n", self.paths);
                (StatusCode::NOT_FOUND, text, there_are.into_bytes())
            }
        };
        self.response(status, kind, body.into())
    }

    fn response(
        &self,
        status: StatusCode,
        kind: &'static str,
        body: Bytes,
    ) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        response
    }
}

/// What a method orders.
fn verb(method: &Method) -> Option<Verb> {
    match *method {
        Method::PUT => Some(Verb::Put),
        Method::POST => Some(Verb::Post),
        Method::DELETE => Some(Verb::Delete),
        _ => None,
    }
}

/// Has an order done that no browser gave.
async fn order(
    orders: &Arc<Orders>,
    verb: Verb,
    request: Request<Incoming>,
    place: &Place,
) -> Answer {
    let headers = request.headers();
    if headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site") {
        return Answer::Refused(403, "pages of the web give no orders here".to_owned());
    }
    let of = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = of(header::CONTENT_TYPE).to_owned();
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = match Limited::new(request.into_body(), orders.most_bytes).collect().await {
        Ok(body) => body.to_bytes().into(),
        Err(error) if error.is::<LengthLimitError>() => {
            let why = format!("a body of more than {} bytes", orders.most_bytes);
            return Answer::Refused(413, why);
        }
        Err(error) => return Answer::Refused(400, error.to_string()),
    };
    place.is_complete();
    let order = Order { verb, path, query, content_type, body };
    let orders = Arc::clone(orders);
    let done = tokio::task::spawn_blocking(move || (orders.obey)(order)).await;
    done.unwrap_or_else(|_| Answer::Unavailable("the order was not done".to_owned()))
}

/// Returns the host that a request names, without its port; `None` if it names none, which HTTP/1.0
/// allows (RFC 9112, section 3.2).
///
/// # Errors
/// Why the request is a bad one: no `Host` in HTTP/1.1, more than one, or one that is no host.
fn host(request: &Request<Incoming>) -> Result<Option<String>, &'static str> {
    let mut fields = request.headers().get_all(header::HOST).iter();
    let Some(field) = fields.next() else {
        return match request.version() {
            Version::HTTP_10 => Ok(None),
            _ => Err("a request of HTTP/1.1 has a Host field"),
        };
    };
    if fields.next().is_some() {
        return Err("a request has one Host field");
    }
    let authority = field.to_str().ok().and_then(|field| field.parse::<Authority>().ok());
    let plain = |authority: &Authority| {
        // No user, and a port that is a number or nothing.
        let port = authority.as_str().strip_prefix(authority.host());
        let digits = port.and_then(|port| port.strip_prefix(':')).unwrap_or_default();
        !authority.host().is_empty()
            && port.is_some_and(|port| port.is_empty() || port.starts_with(':'))
            && (digits.is_empty() || digits.parse::<u16>().is_ok())
    };
    match authority.filter(plain) {
        Some(authority) => Ok(Some(authority.host().to_owned())),
        None => Err("the Host field is a host, or a host and a port"),
    }
}

/// Whether a request names this machine as only a program on it does, or nothing.
fn is_local(request: &Request<Incoming>, host: Option<String>) -> bool {
    host.is_none_or(|host| is_local_name(&host)) && request.uri().host().is_none_or(is_local_name)
}

fn is_local_name(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The policy that allows `page` its own script, its own style and this server, and nothing else.
fn policy(page: &str) -> io::Result<HeaderValue> {
    let hash = |tag: &str| {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let (_, rest) = page.split_once(&open)?;
        let (inside, _) = rest.split_once(&close)?;
        Some(STANDARD.encode(Sha256::digest(inside)))
    };
    let wrong = || io::Error::other("the dashboard has no style or no script");
    let (style, script) = hash("style").zip(hash("script")).ok_or_else(wrong)?;
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors \
         'none'"
    );
    HeaderValue::try_from(policy).map_err(io::Error::other)
}

#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod tests;
