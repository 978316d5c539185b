//! The other members of a cluster at which a viewer can play.
//!
//! | what | says |
//! |---|---|
//! | `Link: <URL>; rel="alternate"` (RFC 8288) | where the stream can be played, too |
//! | 307 with `Location` | where a new viewer is to play: the server with the most room |

use rtsp_types::Url;

use super::handler::{WebRtcHandler, is_sdp};
use super::offer;
use crate::http::{HttpRequest, HttpResponse};
use crate::rtsp::{RECORDINGS, REDIRECTED, Requester};
use crate::wake_socket::AsWakeSocket;

impl<B: AsWakeSocket> WebRtcHandler<'_, '_, B> {
    /// Adds the URLs of the stream `name` at the other members of the cluster, if there is such a
    /// stream. `kind` is the first part of their paths.
    pub(super) fn with_alternates(
        &self,
        response: HttpResponse,
        kind: &str,
        name: &str,
        requester: Requester,
    ) -> HttpResponse {
        let name = name.strip_prefix(REDIRECTED).unwrap_or(name);
        let cluster = self.shared.cluster.as_deref();
        // Each server has recordings of its own.
        let Some(cluster) = cluster.filter(|_| !name.starts_with(RECORDINGS)) else {
            return response;
        };
        let title = self.shared.library.titles.iter().position(|title| title.name == name);
        // Only the server of its publisher knows a path of a live stream.
        if title.is_none() && self.shared.live.contract_of(name).is_err() {
            return response;
        }
        let origins = cluster.alternates(title, requester.peer);
        let urls = origins.into_iter().filter_map(|origin| {
            let mut url = Url::parse(origin).ok()?;
            url.set_path(&format!("{kind}/{name}"));
            Some(url)
        });
        urls.fold(response, |response, url| {
            response.header("Link", format!("<{url}>; rel=\"alternate\""))
        })
    }

    /// Returns the response that sends a new viewer to the server with the most room, if that is
    /// not this one.
    pub(super) fn redirect(
        &mut self,
        request: &HttpRequest,
        url: &Url,
        name: &str,
    ) -> Option<HttpResponse> {
        let cluster = self.shared.cluster.as_deref()?;
        // The other server would refuse a page that is not of this server's origin. A page of a
        // member has tried that member first, and browsers hide its origin after a redirect.
        let page = request.origin.as_deref();
        if page.is_some_and(|page| cluster.origin() != Some(page)) || name.starts_with(REDIRECTED) {
            return None;
        }
        // Browsers and most players do not send the credentials of a header to another origin.
        if request.authorization.is_some() {
            return None;
        }
        let library = self.shared.library;
        let title = library.titles.iter().position(|title| title.name == name)?;
        // A live stream exists only on the server of its publisher.
        if library.titles[title].live.is_some() {
            return None;
        }
        // This server refuses what no server accepts: it must not take a place on another one.
        let (media, _) = self.playable(title)?;
        if !is_sdp(request) || !self.open || offer::check(&request.body, &media).is_err() {
            return None;
        }
        let cluster = self.shared.cluster.as_deref_mut()?;
        let origin = cluster.redirect_origin(library, self.shared.sessions, title)?;
        // The token is part of the URL.
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let to = format!("{origin}/whep/{REDIRECTED}{name}{query}");
        Some(HttpResponse::text(307, "another server has more room").header("Location", to))
    }

    /// Returns whether a viewer's session exists, and the other members of the cluster at which it
    /// could go on.
    pub(super) fn describe(&self, id: &str, requester: Requester) -> HttpResponse {
        let session = self.shared.sessions.find_webrtc(id, requester.peer);
        let session = session.and_then(|number| self.shared.sessions.get(number));
        let Some(session) = session else { return HttpResponse::text(404, "unknown session") };
        let name = self.shared.live.name_of(&self.shared.library.titles[session.title]);
        self.with_alternates(HttpResponse::new(204), "whep", name, requester)
    }
}
