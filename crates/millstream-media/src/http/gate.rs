//! The checks that every request by HTTP passes: host, origin and credentials.
//!
//! Only pages of the same origin may send requests, and those of other members of the cluster where
//! the caller says so. A loopback address only answers to loopback names. Otherwise any page could
//! publish or play through a local browser.

use rtsp_types::headers::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use rtsp_types::{Method, Request, Url, Version};
use std::net::IpAddr;

use super::{HttpRequest, HttpResponse, is_loopback_name};
use crate::rtsp::access::AuthState;
use crate::rtsp::{Requester, RtspHandler};
use crate::wake_socket::AsWakeSocket;

/// What a page of another origin reads of a response, and what it may send.
const EXPOSED: &str = "Link, Location, Retry-After, X-Offered-Window, X-Server-Instance";
const METHODS: &str = "POST, DELETE, OPTIONS";
const HEADERS: &str = "Authorization, Content-Type";

/// How long a browser need not ask again whether a page may send a request, s.
const PREFLIGHT_AGE: &str = "600";

/// An allowed request.
#[derive(Debug)]
pub(crate) struct Allowed {
    pub(crate) url: Url,
    /// The origin of the page that sent it, if it is a page of another member of the cluster.
    pub(crate) member: Option<String>,
}

/// Checks a request to the address `local` of the server. Pages of other members of the cluster may
/// send requests to paths that begin with one of `open`.
///
/// # Errors
/// Returns the response to a request that is not allowed, or that only asks for permission.
pub(crate) fn check<B: AsWakeSocket>(
    shared: &mut RtspHandler<'_, B>,
    local: IpAddr,
    request: &HttpRequest,
    pass: &mut AuthState,
    requester: Requester,
    open: &[&str],
) -> Result<Allowed, HttpResponse> {
    if local.is_loopback() && !is_loopback_name(&request.host) {
        let why = "the Host of a loopback address must be a loopback name";
        return Err(HttpResponse::text(403, why));
    }
    let Ok(url) = Url::parse(&format!("http://server{}", request.target)) else {
        return Err(HttpResponse::text(400, "the target is not a path"));
    };
    let is_other = |origin: &&String| {
        origin.split_once("://").map(|(_, host)| host) != Some(request.host.as_str())
    };
    let other = request.origin.as_ref().filter(is_other);
    let is_member = |origin: &&String| {
        let mut members = shared.cluster.iter().flat_map(|cluster| cluster.other_origins());
        open.iter().any(|path| url.path().starts_with(path)) && members.any(|of| of == *origin)
    };
    let member = other.filter(is_member).cloned();
    if other.is_some() && member.is_none() {
        return Err(HttpResponse::text(403, "requests from pages of other origins are refused"));
    }
    // A browser asks without credentials, and learns only that the page may send requests.
    if member.is_some() && request.is_preflight {
        return Err(permit(HttpResponse::new(204), member.as_deref())
            .header("Access-Control-Allow-Methods", METHODS)
            .header("Access-Control-Allow-Headers", HEADERS)
            .header("Access-Control-Max-Age", PREFLIGHT_AGE));
    }
    match authenticate(shared, request, &url, pass, requester) {
        None => Ok(Allowed { url, member }),
        Some(refused) => Err(permit(refused, member.as_deref())),
    }
}

/// Lets the page of another member read the response to its request (CORS, of the Fetch standard).
pub(crate) fn permit(response: HttpResponse, member: Option<&str>) -> HttpResponse {
    let Some(origin) = member else { return response };
    response
        .header("Access-Control-Allow-Origin", origin)
        .header("Access-Control-Expose-Headers", EXPOSED)
        .header("Vary", "Origin")
}

/// Returns the response to a request that is not authenticated; `None`: the request is allowed.
fn authenticate<B: AsWakeSocket>(
    shared: &mut RtspHandler<'_, B>,
    request: &HttpRequest,
    url: &Url,
    pass: &mut AuthState,
    requester: Requester,
) -> Option<HttpResponse> {
    let method = Method::from(request.method.as_str());
    let mut rtsp_request = Request::builder(method, Version::V1_0).request_uri(url.clone());
    if let Some(credentials) = &request.authorization {
        rtsp_request = rtsp_request.header(AUTHORIZATION, credentials.as_str());
    }
    let rtsp_request = rtsp_request.build(Vec::new());
    let refused = shared.authenticate(&rtsp_request, pass, requester)?;
    let mut response = HttpResponse::new(u16::from(refused.status()));
    let challenge = refused.header(&WWW_AUTHENTICATE).map(|value| value.as_str());
    if response.status == 401 {
        response = response.header("WWW-Authenticate", challenge.unwrap_or("Bearer"));
    }
    if let Some(seconds) = refused.header(&RETRY_AFTER) {
        response = response.header("Retry-After", seconds.as_str());
    }
    Some(response.with_body("text/plain", refused.into_body()))
}
