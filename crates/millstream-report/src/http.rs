//! Pages of a running program by HTTP/1.1: its dashboard, counters for Prometheus, its state as JSON.
//!
//! One thread for all of it, besides what the program does. What a client may take is bounded: so many
//! connections at once (others wait to be accepted), one request on each, so many bytes of header, and a
//! time for the header and for all of it. Bodies of requests are not read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sha2::{Digest as _, Sha256};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::Semaphore;

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
    /// It does not answer now: why.
    Unavailable(String),
    /// There is no such page.
    NotFound,
}

/// Answers GET and HEAD requests at `listener`, from a thread of its own that ends with the program: `/`
/// with the dashboard, which asks for `/status`, and every other path with what `answer` says, which may
/// take a second or so and no more. `paths` are those that there are, for whoever asks for another.
///
/// At a loopback address it answers only who asked for such an address or `localhost`: otherwise a page
/// of the web could have a browser on this machine read this one (DNS rebinding).
///
/// # Errors
/// If the system has no thread or no poller for it.
pub fn serve(
    listener: TcpListener,
    paths: &'static str,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let loopback = listener.local_addr()?.ip().to_canonical().is_loopback();
    let site = Arc::new(Site { loopback, paths, policy: policy(DASHBOARD)?, answer });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
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
}

async fn accept<F: Fn(&str) -> Answer + 'static>(
    listener: tokio::net::TcpListener,
    site: Arc<Site<F>>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, say: do not spin.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let site = Arc::clone(&site);
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| {
                let response = site.respond(&request);
                async { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                .max_buf_size(HEADER_BYTES)
                .max_headers(HEADER_FIELDS)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // What a client did wrong is the client's to know.
            let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
            drop(place);
        });
    }
}

impl<F: Fn(&str) -> Answer> Site<F> {
    fn respond(&self, request: &Request<Incoming>) -> Response<String> {
        let text = "text/plain; charset=utf-8";
        let (status, kind, body) = if self.loopback && !is_local(request) {
            let said =
                "this address is for its own machine only: ask for it by number, or as localhost\n";
            (StatusCode::MISDIRECTED_REQUEST, text, said.to_owned())
        } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
            (StatusCode::METHOD_NOT_ALLOWED, text, "GET only\n".to_owned())
        } else if request.uri().path() == "/" {
            (StatusCode::OK, "text/html; charset=utf-8", DASHBOARD.to_owned())
        } else {
            match (self.answer)(request.uri().path()) {
                Answer::Text(body) => (StatusCode::OK, text, body),
                Answer::Json(body) => (StatusCode::OK, "application/json", body),
                Answer::Metrics(body) => {
                    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                    (StatusCode::OK, kind, body)
                }
                Answer::Unavailable(why) => (StatusCode::SERVICE_UNAVAILABLE, text, why + "\n"),
                Answer::NotFound => {
                    (StatusCode::NOT_FOUND, text, format!("there are {}\n", self.paths))
                }
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        response
    }
}

/// Whether a request names this machine as only a program on it does, or nothing.
fn is_local(request: &Request<Incoming>) -> bool {
    names_local(request.headers()) && request.uri().host().is_none_or(is_local_name)
}

fn names_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let Ok(authority) = host.to_str().unwrap_or("").parse::<hyper::http::uri::Authority>() else {
        return false;
    };
    is_local_name(authority.host())
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
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
