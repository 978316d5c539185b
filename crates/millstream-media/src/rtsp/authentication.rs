//! Authentication of requests: challenges, and the delay after wrong passwords.

use rtsp_types::headers::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use rtsp_types::{Method, Request, Response, StatusCode, Version};

use super::{Answer, Requester, RtspHandler};
use crate::pages::rejects::Reason;
use crate::rtsp::access::{Pass, Verdict};
use crate::rtsp::session::AsWakeSocket;

impl<B: AsWakeSocket> RtspHandler<'_, B> {
    /// Returns the response to a request that is not authenticated; `None`: the request is allowed.
    /// OPTIONS needs no authentication.
    pub(super) fn admittance(
        &mut self,
        request: &Request<Vec<u8>>,
        pass: &mut Pass,
        asker: Requester,
    ) -> Option<Answer> {
        if *request.method() == Method::Options {
            return None;
        }
        // A connection that has shown only right credentials does not guess.
        let shown = if pass.is_trusted() { None } else { self.access.shown(request) };
        if let Some(shown) = &shown
            && let Some(wait_ns) = self.back_off.wait_ns(asker.peer, shown.user(), self.now_ns)
        {
            self.sessions.refusals.note(Reason::BackOff, asker.peer, self.now_ns);
            pass.refuse();
            return Some(wait(wait_ns));
        }
        let challenge = match self.access.judge(pass, request, self.now_ns) {
            Verdict::Allowed => {
                if let Some(user) = shown.as_ref().and_then(|shown| shown.user()) {
                    self.back_off.right(asker.peer, user);
                }
                return None;
            }
            Verdict::Asked(challenge) => challenge,
            Verdict::Wrong(challenge) => {
                let user = shown.as_ref().and_then(|shown| shown.user());
                self.back_off.wrong(asker.peer, user, self.now_ns);
                self.sessions.refusals.note(Reason::Credentials, asker.peer, self.now_ns);
                challenge
            }
        };
        let answer = Response::builder(Version::V1_0, StatusCode::Unauthorized);
        Some(match challenge {
            Some(challenge) => answer.header(WWW_AUTHENTICATE, challenge).build(Vec::new()),
            None => answer
                .header(CONTENT_TYPE, "text/plain")
                .build(b"the URL must say ?token= and a token\n".to_vec()),
        })
    }
}

/// Returns the response to credentials that are refused unread for another `wait_ns`.
fn wait(wait_ns: u64) -> Answer {
    let seconds = wait_ns.div_ceil(1_000_000_000);
    Response::builder(Version::V1_0, StatusCode::ServiceUnavailable)
        .header(RETRY_AFTER, seconds.to_string())
        .header(CONTENT_TYPE, "text/plain")
        .build(format!("too many wrong passwords or tokens; wait {seconds} s\n").into_bytes())
}
