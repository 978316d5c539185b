//! The checks that every request by HTTP passes: host, origin and credentials.
//!
//! Only pages of the same origin may send requests, and a loopback address only answers to loopback
//! names. Otherwise any page could publish or play through a local browser.

use rtsp_types::headers::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use rtsp_types::{Method, Request, Url, Version};
use std::net::IpAddr;

use super::{HttpRequest, HttpResponse, is_loopback_name};
use crate::rtsp::access::AuthState;
use crate::rtsp::{Requester, RtspHandler};
use crate::wake_socket::AsWakeSocket;

/// Returns the URL of an allowed request to the address `local` of the server.
///
/// # Errors
/// Returns the response to a request that is not allowed.
pub(crate) fn check<B: AsWakeSocket>(
    shared: &mut RtspHandler<'_, B>,
    local: IpAddr,
    request: &HttpRequest,
    pass: &mut AuthState,
    requester: Requester,
) -> Result<Url, HttpResponse> {
    if local.is_loopback() && !is_loopback_name(&request.host) {
        let why = "the Host of a loopback address must be a loopback name";
        return Err(HttpResponse::text(403, why));
    }
    let is_other = |origin: &str| {
        origin.split_once("://").map(|(_, host)| host) != Some(request.host.as_str())
    };
    if request.origin.as_deref().is_some_and(is_other) {
        return Err(HttpResponse::text(403, "requests from pages of other origins are refused"));
    }
    let Ok(url) = Url::parse(&format!("http://server{}", request.target)) else {
        return Err(HttpResponse::text(400, "the target is not a path"));
    };
    match authenticate(shared, request, &url, pass, requester) {
        None => Ok(url),
        Some(refused) => Err(refused),
    }
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
