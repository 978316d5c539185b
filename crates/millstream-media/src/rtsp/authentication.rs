//! Authentication of requests: challenges, and the delay after wrong passwords.

use rtsp_types::headers::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use rtsp_types::{Method, Request, Response, StatusCode, Version};

use super::{Answer, Requester};
use crate::pages::rejects::{Reason, RejectCounters};
use crate::rtsp::access::backoff::BackOff;
use crate::rtsp::access::{Access, AuthState, Verdict};

/// The users and tokens of a server, and its delays after wrong ones.
#[derive(Debug)]
pub(crate) struct Authenticator {
    access: Access,
    back_off: BackOff,
}

impl Authenticator {
    /// Creates an authenticator of the users and tokens in `access`.
    pub(crate) fn new(access: Access) -> Self {
        Self { access, back_off: BackOff::default() }
    }

    /// Returns the response to a request that is not authenticated; `None`: the request is allowed.
    /// Counts wrong credentials in `rejects`. OPTIONS needs no authentication.
    pub(crate) fn authenticate(
        &mut self,
        request: &Request<Vec<u8>>,
        pass: &mut AuthState,
        requester: Requester,
        rejects: &mut RejectCounters,
        now_ns: u64,
    ) -> Option<Answer> {
        if *request.method() == Method::Options {
            return None;
        }
        // A connection that has shown only right credentials does not guess.
        let credentials = if pass.is_trusted() { None } else { self.access.credentials(request) };
        if let Some(credentials) = &credentials
            && let Some(wait_ns) =
                self.refused_unread(credentials.user(), pass, requester, rejects, now_ns)
        {
            return Some(wait(wait_ns));
        }
        let challenge = match self.access.authorize(pass, request, now_ns) {
            Verdict::Allowed => {
                if let Some(user) = credentials.as_ref().and_then(|credentials| credentials.user())
                {
                    self.back_off.right(requester.peer, user);
                }
                return None;
            }
            Verdict::Missing(challenge) => challenge,
            Verdict::Wrong(challenge) => {
                let user = credentials.as_ref().and_then(|credentials| credentials.user());
                self.count_wrong(user, requester, rejects, now_ns);
                challenge
            }
        };
        let answer = Response::builder(Version::V1_0, StatusCode::Unauthorized);
        Some(match challenge {
            Some(challenge) => answer.header(WWW_AUTHENTICATE, challenge).build(Vec::new()),
            None => answer
                .header(CONTENT_TYPE, "text/plain")
                .build(b"add ?token=TOKEN to the URL\n".to_vec()),
        })
    }

    /// Checks the credentials in a URL: a user and `password`, or a token in the query of
    /// `request`. Returns why the client is refused, or `None` if it is allowed. Counts wrong
    /// credentials in `rejects`.
    pub(crate) fn authenticate_url(
        &mut self,
        request: &Request<Vec<u8>>,
        password: Option<(&str, &str)>,
        pass: &mut AuthState,
        requester: Requester,
        rejects: &mut RejectCounters,
        now_ns: u64,
    ) -> Option<String> {
        let Some((user, password)) = password.filter(|_| self.access.has_users()) else {
            let refused = self.authenticate(request, pass, requester, rejects, now_ns)?;
            let text = match refused.header(&RETRY_AFTER) {
                Some(_) => String::from_utf8_lossy(refused.body()).trim_end().to_owned(),
                None => "add ?user=NAME&pass=PASSWORD or ?token=TOKEN to the URL".to_owned(),
            };
            return Some(text);
        };
        if let Some(wait_ns) = self.refused_unread(Some(user), pass, requester, rejects, now_ns) {
            return Some(too_many(wait_ns));
        }
        if self.access.authorize_password(pass, user, password) {
            self.back_off.right(requester.peer, user);
            return None;
        }
        self.count_wrong(Some(user), requester, rejects, now_ns);
        Some("a wrong user or password".to_owned())
    }

    /// Refuses credentials unread during the delay after wrong ones; returns the rest of it, ns.
    fn refused_unread(
        &mut self,
        user: Option<&str>,
        pass: &mut AuthState,
        requester: Requester,
        rejects: &mut RejectCounters,
        now_ns: u64,
    ) -> Option<u64> {
        let wait_ns = self.back_off.wait_ns(requester.peer, user, now_ns)?;
        rejects.record(Reason::BackOff, requester.peer, now_ns);
        pass.refuse();
        Some(wait_ns)
    }

    fn count_wrong(
        &mut self,
        user: Option<&str>,
        requester: Requester,
        rejects: &mut RejectCounters,
        now_ns: u64,
    ) {
        self.back_off.wrong(requester.peer, user, now_ns);
        rejects.record(Reason::Credentials, requester.peer, now_ns);
    }
}

/// Returns the message to a client that must wait for `wait_ns` before its credentials are checked.
fn too_many(wait_ns: u64) -> String {
    let seconds = wait_ns.div_ceil(1_000_000_000);
    format!("too many wrong passwords or tokens; retry in {seconds} s")
}

/// Returns the response to credentials that are refused unread for another `wait_ns`.
fn wait(wait_ns: u64) -> Answer {
    let seconds = wait_ns.div_ceil(1_000_000_000);
    Response::builder(Version::V1_0, StatusCode::ServiceUnavailable)
        .header(RETRY_AFTER, seconds.to_string())
        .header(CONTENT_TYPE, "text/plain")
        .build((too_many(wait_ns) + "\n").into_bytes())
}
