//! The HTTP/1.1 server of a running program: dashboard, counters for Prometheus, state as JSON.
//!
//! The server runs in one thread, separate from the threads of the program. It limits the number of
//! concurrent connections, the requests per connection (one) and the size of the header. The header
//! and the whole connection have timeouts. The server reads bodies only of orders (PUT, POST and
//! DELETE), if the program accepts them, up to a length set by the program.
//!
//! At the limit of connections, the server closes the one with the oldest incomplete request to
//! accept another (`places`): idle clients cannot block other clients.

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

/// The limit of concurrent connections.
const CONNECTIONS: usize = 32;
/// The length of the longest request header, bytes; the minimum that `hyper` accepts.
const HEADER_BYTES: usize = 8_192;
/// The largest number of header fields.
const HEADER_FIELDS: usize = 64;
/// The timeout for receiving a request's header.
const HEADER_TIME: Duration = Duration::from_secs(2);
/// The timeout of a connection, including the time in which the client reads the answer.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

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

/// The method of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Store the body under the path.
    Put,
    /// Process the body.
    Post,
    /// Delete the object at the path.
    Delete,
}

/// A request that changes the state of the program or passes it a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The method.
    pub verb: Verb,
    /// The path, as in the URL.
    pub path: String,
    /// The query after `?`; empty without one.
    pub query: String,
    /// The `Content-Type` of the body, as sent by the client.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// The handler of orders and its limit.
pub struct Orders {
    /// The length of the longest body, bytes.
    pub most_bytes: usize,
    /// Executes an order, in a thread where it may block for some seconds.
    pub obey: Box<dyn Fn(Order) -> Answer + Send + Sync>,
}

/// The number of threads that execute orders concurrently.
const ORDERS_AT_ONCE: usize = 4;

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

/// Serves pages like [`serve`], and accepts orders by PUT, POST and DELETE.
///
/// The server refuses orders from browsers: requests with `Origin` or `Sec-Fetch-Site`, which
/// browsers add to these methods.
///
/// # Errors
/// See [`serve`].
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

/// The dashboard page, which shows the values of `/status`.
const DASHBOARD: &str = include_str!("../templates/dashboard.html");

struct Site<F> {
    loopback: bool,
    paths: &'static str,
    /// The content security policy of the dashboard.
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
            // The error may persist, for example without free file descriptors: do not spin.
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
            // Errors of a connection concern only its client.
            let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
        });
        places.begins(number, connection.abort_handle());
    }
}

/// Returns the settings of connections.
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
            let message =
                "this address is for its own machine only: ask for it by number, or as localhost";
            Answer::Refused(StatusCode::MISDIRECTED_REQUEST.as_u16(), message.to_owned())
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
                let message = format!("there are {}\n", self.paths);
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

/// Returns the order of an HTTP method; `None` if it is not an order.
fn verb(method: &Method) -> Option<Verb> {
    match *method {
        Method::PUT => Some(Verb::Put),
        Method::POST => Some(Verb::Post),
        Method::DELETE => Some(Verb::Delete),
        _ => None,
    }
}

/// Executes an order, unless a browser sent it.
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
/// The reason why the request is invalid: no `Host` in HTTP/1.1, several, or an invalid one.
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
        // The authority must have no user, and its port must be a number or empty.
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
