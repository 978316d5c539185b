//! The HTTP/1.1 server of a running program: dashboard, counters for Prometheus, state as JSON.
//!
//! The server runs in one thread, separate from the threads of the program. It limits the number of
//! concurrent connections, the requests per connection (one) and the size of the header. The header
//! and the whole connection have timeouts. The server reads bodies only of write requests (PUT,
//! POST and DELETE), if the program accepts them, up to a length set by the program.
//!
//! At the limit of connections, the server closes the one with the oldest incomplete request to
//! accept another (`slots`): idle clients cannot block other clients.

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

pub mod history;
mod slots;

use slots::{ConnectionSlot, ConnectionSlots};

/// The limit of concurrent connections.
const MAX_CONNECTIONS: usize = 32;
/// The length of the longest request header, bytes; the minimum that `hyper` accepts.
const HEADER_BYTES: usize = 8_192;
/// The largest number of header fields.
const HEADER_FIELDS: usize = 64;
/// The timeout for receiving a request's header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout of a connection, including the time in which the client reads the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The answer of a program to a request for one of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A page of plain text.
    Text(String),
    /// A JSON document.
    Json(String),
    /// Counters in the OpenMetrics text format.
    Metrics(String),
    /// Bytes in a format known to the program and the client.
    Bytes(Vec<u8>),
    /// Temporarily unavailable (HTTP status 503), with the reason.
    Unavailable(String),
    /// Refused, with an HTTP status of 400 or above and the reason.
    Refused(u16, String),
    /// The page does not exist (HTTP status 404).
    NotFound,
}

/// The method of a write request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMethod {
    /// Store the body under the path.
    Put,
    /// Process the body.
    Post,
    /// Delete the object at the path.
    Delete,
}

/// A request that changes the state of the program or passes it a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// The method.
    pub method: WriteMethod,
    /// The path, as in the URL.
    pub path: String,
    /// The query after `?`; empty without one.
    pub query: String,
    /// The `Content-Type` of the body, as sent by the client.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// The handler of write requests and its limit.
pub struct WriteHandler {
    /// The length of the longest body, bytes.
    pub max_bytes: usize,
    /// Executes a write request, in a thread where it may block for some seconds.
    pub handle: Box<dyn Fn(WriteRequest) -> Answer + Send + Sync>,
}

/// Deprecated alias of [`WriteMethod`].
#[deprecated(note = "renamed to `WriteMethod`")]
pub type Verb = WriteMethod;

/// Deprecated alias of [`WriteRequest`].
#[deprecated(note = "renamed to `WriteRequest`")]
pub type Order = WriteRequest;

/// Deprecated alias of [`WriteHandler`].
#[deprecated(note = "renamed to `WriteHandler`")]
pub type Orders = WriteHandler;

/// The number of threads that execute write requests concurrently.
const MAX_CONCURRENT_WRITES: usize = 4;

/// Answers GET and HEAD requests on `listener`, in a separate thread that runs until the program
/// ends.
///
/// `/` is the dashboard, which fetches `/status`. `answer` handles every other path and must return
/// within about a second. A response with status 404 lists the existing `paths`.
///
/// On a loopback address, the server accepts only requests whose host is a loopback address or
/// `localhost`. Otherwise a web page could read these pages through a local browser (DNS
/// rebinding).
///
/// # Errors
/// Fails if the system cannot create the thread or the poller.
pub fn serve(
    listener: TcpListener,
    paths: &'static str,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> io::Result<()> {
    serve_with(listener, paths, answer, None)
}

/// Serves pages like [`serve`], and accepts write requests by PUT, POST and DELETE.
///
/// The server refuses write requests from browsers: those with `Origin` or `Sec-Fetch-Site`, which
/// browsers add to these methods.
///
/// # Errors
/// See [`serve`].
pub fn serve_with(
    listener: TcpListener,
    paths: &'static str,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    handler: Option<WriteHandler>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let loopback = listener.local_addr()?.ip().to_canonical().is_loopback();
    let (policy, handler) = (policy(DASHBOARD)?, handler.map(Arc::new));
    let site = Arc::new(Site { loopback, paths, policy, answer, handler });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(MAX_CONCURRENT_WRITES)
        .enable_all()
        .build()?;
    let listener = {
        let _guard = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let serving =
        move || runtime.block_on(tokio::task::LocalSet::new().run_until(accept(listener, site)));
    thread::Builder::new().name("http".into()).spawn(serving)?;
    Ok(())
}

/// The dashboard page, which shows the values of `/status`.
const DASHBOARD: &str = include_str!("../templates/dashboard.html");

struct Site<F> {
    loopback: bool,
    paths: &'static str,
    /// The content security policy of the dashboard.
    policy: HeaderValue,
    answer: F,
    handler: Option<Arc<WriteHandler>>,
}

async fn accept<F: Fn(&str) -> Answer + 'static>(
    listener: tokio::net::TcpListener,
    site: Arc<Site<F>>,
) {
    let slots = ConnectionSlots::new(MAX_CONNECTIONS);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The error may persist, for example without free file descriptors: do not spin.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let slot = slots.take().await;
        let number = slot.number;
        let site = Arc::clone(&site);
        let connection = tokio::task::spawn_local(async move {
            let service = service_fn(|request| {
                let (site, slot) = (&site, &slot);
                async move { Ok::<_, Infallible>(site.respond(request, slot).await) }
            });
            let connection = connections().serve_connection(TokioIo::new(stream), service);
            // Errors of a connection concern only its client.
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
        });
        slots.register(number, connection.abort_handle());
    }
}

/// Returns the settings of connections.
fn connections() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADER_FIELDS)
        .keep_alive(false);
    builder
}

impl<F: Fn(&str) -> Answer> Site<F> {
    async fn respond(
        &self,
        request: Request<Incoming>,
        slot: &ConnectionSlot,
    ) -> Response<Full<Bytes>> {
        let text = "text/plain; charset=utf-8";
        let writing = self.handler.as_ref().zip(write_method(request.method()));
        if writing.is_none() {
            slot.mark_complete();
        }
        let host = host(&request);
        let answer = if let Err(why) = host {
            Answer::Refused(StatusCode::BAD_REQUEST.as_u16(), why.to_owned())
        } else if self.loopback && !is_local(&request, host.unwrap_or_default()) {
            let message =
                "this address serves its own machine only: use its number or localhost as the host";
            Answer::Refused(StatusCode::MISDIRECTED_REQUEST.as_u16(), message.to_owned())
        } else if let Some((handler, method)) = writing {
            write(handler, method, request, slot).await
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
                let message = format!("not found; the pages are {}\n", self.paths);
                (StatusCode::NOT_FOUND, text, message.into_bytes())
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

/// Returns the write method of an HTTP method; `None` if it is not one.
fn write_method(method: &Method) -> Option<WriteMethod> {
    match *method {
        Method::PUT => Some(WriteMethod::Put),
        Method::POST => Some(WriteMethod::Post),
        Method::DELETE => Some(WriteMethod::Delete),
        _ => None,
    }
}

/// Executes a write request, unless a browser sent it.
async fn write(
    handler: &Arc<WriteHandler>,
    method: WriteMethod,
    request: Request<Incoming>,
    slot: &ConnectionSlot,
) -> Answer {
    let headers = request.headers();
    if headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site") {
        return Answer::Refused(403, "requests from web pages are refused".to_owned());
    }
    let of = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = of(header::CONTENT_TYPE).to_owned();
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = match Limited::new(request.into_body(), handler.max_bytes).collect().await {
        Ok(body) => body.to_bytes().into(),
        Err(error) if error.is::<LengthLimitError>() => {
            let why = format!("a body of more than {} bytes", handler.max_bytes);
            return Answer::Refused(413, why);
        }
        Err(error) => return Answer::Refused(400, error.to_string()),
    };
    slot.mark_complete();
    let write_request = WriteRequest { method, path, query, content_type, body };
    let handler = Arc::clone(handler);
    let done = tokio::task::spawn_blocking(move || (handler.handle)(write_request)).await;
    done.unwrap_or_else(|_| Answer::Unavailable("the request was not processed".to_owned()))
}

/// Returns the host that a request names, without its port; `None` if it names none, which HTTP/1.0
/// allows (RFC 9112, section 3.2).
///
/// # Errors
/// Returns the reason why the request is invalid: no `Host` in HTTP/1.1, several, or an invalid
/// one.
fn host(request: &Request<Incoming>) -> Result<Option<String>, &'static str> {
    let mut fields = request.headers().get_all(header::HOST).iter();
    let Some(field) = fields.next() else {
        return match request.version() {
            Version::HTTP_10 => Ok(None),
            _ => Err("an HTTP/1.1 request needs a Host field"),
        };
    };
    if fields.next().is_some() {
        return Err("a request needs exactly one Host field");
    }
    let authority = field.to_str().ok().and_then(|field| field.parse::<Authority>().ok());
    let plain = |authority: &Authority| {
        // The authority must have no user, and its port must be a number or empty.
        let port = authority.as_str().strip_prefix(authority.host());
        let digits = port.and_then(|port| port.strip_prefix(':')).unwrap_or_default();
        !authority.host().is_empty()
            && port.is_some_and(|port| port.is_empty() || port.starts_with(':'))
            && (digits.is_empty() || digits.parse::<u16>().is_ok())
    };
    match authority.filter(plain) {
        Some(authority) => Ok(Some(authority.host().to_owned())),
        None => Err("the Host field must be a host, or a host and a port"),
    }
}

/// Returns whether the hosts of a request are loopback addresses, `localhost` or missing.
fn is_local(request: &Request<Incoming>, host: Option<String>) -> bool {
    host.is_none_or(|host| is_local_name(&host)) && request.uri().host().is_none_or(is_local_name)
}

fn is_local_name(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Returns the policy that allows `page` only its own script, its own style and this server.
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
