//! Access control: users by Digest authentication (RFC 7616; RFC 2069 for older clients), or a
//! token, in the URL or as bearer token (RFC 6750).
//!
//! A nonce belongs to one connection. So the number of nonces is bounded by the number of
//! connections, and a recorded response is useless on another connection. No file holds a password
//! or a token: the users file is what `htdigest` writes, the tokens file holds SHA-256 digests.

pub(crate) mod backoff;

use md5::Md5;
use rtsp_types::Request;
use rtsp_types::headers::{AUTHORIZATION, HeaderValue};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use subtle::{Choice, ConstantTimeEq};

use crate::MediaError;
use crate::rtsp::session::random_word;

/// The lifetime of a nonce, ns.
const NONCE_NS: u64 = 600_000_000_000;

/// The number of wrong credentials after which a connection is closed.
const MAX_WRONG: u32 = 4;

/// The longest file of users or tokens, bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The hash of Digest authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha256,
}

impl Algorithm {
    fn hash(self, text: &str) -> String {
        match self {
            Self::Md5 => hexadecimal(&Md5::digest(text)),
            Self::Sha256 => hexadecimal(&Sha256::digest(text)),
        }
    }

    /// Returns the number of hexadecimal digits of a digest.
    fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha256 => 64,
        }
    }
}

/// The users and tokens that have access.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    realm: String,
    algorithm: Algorithm,
    /// Digests of user, realm and password, by user.
    users: Option<BTreeMap<String, String>>,
    /// Name and SHA-256 of each token.
    tokens: Option<Vec<(String, String)>>,
}

/// The authentication state of a connection.
#[derive(Debug, Default)]
pub(crate) struct AuthState {
    nonce: String,
    made_ns: u64,
    /// The nonce count of the last request.
    count: u32,
    by_token: bool,
    /// The name of the user or token that was last accepted.
    name: Option<String>,
    wrong: u32,
}

impl AuthState {
    /// Returns the name of the user or token that was last accepted.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns whether the connection has shown right credentials and never wrong ones.
    pub(crate) fn is_trusted(&self) -> bool {
        self.name.is_some() && self.wrong == 0
    }

    /// Makes the next request show its token again.
    pub(crate) fn forget_token(&mut self) {
        if std::mem::take(&mut self.by_token) {
            self.name = None;
        }
    }

    /// Counts credentials that were refused unread.
    pub(crate) fn refuse(&mut self) {
        self.wrong += 1;
    }

    /// Returns whether the connection has shown too many wrong credentials.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.wrong >= MAX_WRONG
    }
}

/// The credentials of a request, right or wrong: the user name, if there is one.
#[derive(Debug)]
pub(crate) struct Credentials(Option<String>);

impl Credentials {
    /// Returns the user that they name; a token names none.
    pub(crate) fn user(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// Credentials are missing. Holds the challenge, if Digest is configured.
    Missing(Option<String>),
    /// Credentials are wrong. Holds the challenge, if Digest is configured.
    Wrong(Option<String>),
}

impl Access {
    /// Allows every request.
    pub(crate) fn open() -> Self {
        Self { realm: String::new(), algorithm: Algorithm::Md5, users: None, tokens: None }
    }

    /// Denies every request.
    pub(crate) fn deny_all() -> Self {
        let (realm, users) = ("millstream".to_owned(), Some(BTreeMap::new()));
        Self { realm, algorithm: Algorithm::Md5, users, tokens: Some(Vec::new()) }
    }

    /// Reads the users and tokens files; allows every request if neither is given.
    ///
    /// # Errors
    /// Fails if a file cannot be read or has permissions for other users, or a line is malformed.
    pub(crate) fn read(
        users: Option<&Path>,
        tokens: Option<&Path>,
        realm: &str,
    ) -> Result<Self, MediaError> {
        let mut access = Self { realm: realm.to_owned(), ..Self::open() };
        if let Some(path) = users {
            access.users = Some(access.users_of(path, &secret_file(path)?)?);
        }
        if let Some(path) = tokens {
            access.tokens = Some(tokens_of(path, &secret_file(path)?)?);
        }
        Ok(access)
    }

    /// Returns the number of users and tokens.
    pub(crate) fn len(&self) -> usize {
        self.users.as_ref().map_or(0, BTreeMap::len) + self.tokens.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether a user or a token has this name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.users.as_ref().is_some_and(|users| users.contains_key(name))
            || self.tokens.iter().flatten().any(|(of, _)| of == name)
    }

    fn users_of(
        &mut self,
        path: &Path,
        text: &str,
    ) -> Result<BTreeMap<String, String>, MediaError> {
        let mut users = BTreeMap::new();
        for (number, line) in lines(text) {
            let wrong = |what: &str| {
                MediaError::new(format!("{}, line {number}: {what}", path.display())).help(format!(
                    "NAME:{}:DIGEST, as `htdigest` writes it: the MD5 or SHA-256 of \
                     NAME:{}:PASSWORD in hexadecimal, the same algorithm in all lines",
                    self.realm, self.realm
                ))
            };
            let [name, realm, digest] = fields(line).ok_or_else(|| wrong("not three fields"))?;
            if realm != self.realm {
                return Err(wrong(&format!("the realm is `{realm}`")));
            }
            let algorithm = [Algorithm::Md5, Algorithm::Sha256]
                .into_iter()
                .find(|algorithm| is_digest(digest, algorithm.digits()))
                .ok_or_else(|| wrong("the third field is not a digest"))?;
            if !users.is_empty() && algorithm != self.algorithm {
                return Err(wrong("MD5 and SHA-256 digests are mixed"));
            }
            self.algorithm = algorithm;
            if users.insert(name.to_owned(), digest.to_ascii_lowercase()).is_some() {
                return Err(wrong(&format!("duplicate user `{name}`")));
            }
        }
        Ok(users)
    }

    /// Returns the credentials of a request, if it has any and access is restricted by their kind.
    pub(crate) fn credentials(&self, request: &Request<Vec<u8>>) -> Option<Credentials> {
        if self.tokens.is_some() && token(request).is_some() {
            return Some(Credentials(None));
        }
        self.users.as_ref()?;
        let header = request.header(&AUTHORIZATION)?;
        let credentials = http_auth::parse_challenges(header.as_str()).ok();
        let credentials = credentials.as_deref().and_then(<[_]>::first);
        let user = credentials.and_then(|credentials| {
            let mut fields = credentials.params.iter();
            let (_, user) = fields.find(|(name, _)| name.eq_ignore_ascii_case("username"))?;
            Some(user.to_unescaped())
        });
        Some(Credentials(user))
    }

    /// Returns whether access is restricted to users with passwords.
    pub(crate) fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// Returns whether the user has this password. If so, the connection of `pass` becomes the
    /// user's. The comparison takes the same time for every password.
    pub(crate) fn authorize_password(
        &self,
        pass: &mut AuthState,
        user: &str,
        password: &str,
    ) -> bool {
        let given = self.algorithm.hash(&format!("{user}:{}:{password}", self.realm));
        let known = self.users.as_ref().and_then(|users| users.get(user));
        let is_right = known.is_some_and(|known| same(known, &given).into());
        if is_right {
            pass.name = Some(user.to_owned());
        } else {
            pass.wrong += 1;
        }
        is_right
    }

    /// Decides about `request` on a connection with the state `pass`.
    pub(crate) fn authorize(
        &self,
        pass: &mut AuthState,
        request: &Request<Vec<u8>>,
        now_ns: u64,
    ) -> Verdict {
        if (self.users.is_none() && self.tokens.is_none()) || pass.by_token {
            return Verdict::Allowed;
        }
        let token = self.tokens.as_ref().zip(token(request));
        if let Some((tokens, token)) = token {
            let given = hexadecimal(&Sha256::digest(&*token));
            // Compares with every token, so that the time does not depend on the match.
            let mut name = None;
            for (of, token) in tokens {
                if same(token, &given).into() {
                    name = Some(of);
                }
            }
            pass.by_token = name.is_some();
            pass.name = name.cloned();
            return if pass.by_token { Verdict::Allowed } else { self.wrong(pass, now_ns) };
        }
        let Some((users, header)) = self.users.as_ref().zip(request.header(&AUTHORIZATION)) else {
            return Verdict::Missing(self.challenge(pass, false, now_ns));
        };
        match self.answer(users, request, header) {
            Some(answer) if answer.nonce == pass.nonce && !pass.nonce.is_empty() => {
                let fresh = now_ns.saturating_sub(pass.made_ns) < NONCE_NS;
                // A count that is not above the last one is a replay.
                let next = answer.count.is_none_or(|count| count > pass.count);
                if !fresh || !next {
                    return Verdict::Missing(self.challenge(pass, true, now_ns));
                }
                pass.count = answer.count.unwrap_or(pass.count);
                pass.name = Some(answer.user);
                Verdict::Allowed
            }
            // The password is right, but the nonce is another connection's.
            Some(_) => Verdict::Missing(self.challenge(pass, true, now_ns)),
            None => self.wrong(pass, now_ns),
        }
    }

    fn wrong(&self, pass: &mut AuthState, now_ns: u64) -> Verdict {
        pass.wrong += 1;
        Verdict::Wrong(self.challenge(pass, false, now_ns))
    }

    /// Returns a challenge with a new nonce for the connection; `None` if Digest is not configured.
    fn challenge(&self, pass: &mut AuthState, stale: bool, now_ns: u64) -> Option<String> {
        self.users.as_ref()?;
        let nonce = format!("{:016x}{:016x}", random_word()?, random_word()?);
        let stale = if stale { ", stale=true" } else { "" };
        // Clients that support only MD5 do not expect its name.
        let algorithm = match self.algorithm {
            Algorithm::Md5 => "",
            Algorithm::Sha256 => ", algorithm=SHA-256",
        };
        let realm = &self.realm;
        let text =
            format!("Digest realm=\"{realm}\", nonce=\"{nonce}\", qop=\"auth\"{algorithm}{stale}");
        (pass.nonce, pass.made_ns, pass.count) = (nonce, now_ns, 0);
        Some(text)
    }

    /// Returns the Digest response of a header, if its digest is right for the nonce that it names.
    fn answer(
        &self,
        users: &BTreeMap<String, String>,
        request: &Request<Vec<u8>>,
        header: &HeaderValue,
    ) -> Option<Answer> {
        let credentials = http_auth::parse_challenges(header.as_str()).ok()?;
        let [credentials] = &credentials[..] else { return None };
        if !credentials.scheme.eq_ignore_ascii_case("Digest") {
            return None;
        }
        let field = |name: &str| {
            let mut of_name =
                credentials.params.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
            let value = of_name.next().map(|(_, value)| value.to_unescaped());
            value.filter(|_| of_name.next().is_none())
        };
        let named = match field("algorithm").as_deref() {
            None | Some("MD5" | "md5") => Algorithm::Md5,
            Some("SHA-256") => Algorithm::Sha256,
            Some(_) => return None,
        };
        let (user, uri, nonce) = (field("username")?, field("uri")?, field("nonce")?);
        // In HTTP it is a path.
        let about = request.request_uri().and_then(|asked| asked.join(&uri).ok());
        if named != self.algorithm
            || field("realm")? != self.realm
            || about.is_none()
            || about.as_ref() != request.request_uri()
        {
            return None;
        }
        let method: &str = request.method().into();
        // An unknown user takes as long as a known one, so the time reveals no user names.
        let absent = "0".repeat(self.algorithm.digits());
        let known = users.get(&user);
        let what = self.algorithm.hash(&format!("{method}:{uri}"));
        let who = known.unwrap_or(&absent);
        let (expected, count) = match field("qop").as_deref() {
            None => (self.algorithm.hash(&format!("{who}:{nonce}:{what}")), None),
            Some("auth") => {
                let (text, client) = (field("nc")?, field("cnonce")?);
                let count = u32::from_str_radix(&text, 16).ok().filter(|_| text.len() == 8)?;
                let all = format!("{who}:{nonce}:{text}:{client}:auth:{what}");
                (self.algorithm.hash(&all), Some(count))
            }
            Some(_) => return None,
        };
        let right: bool = same(&expected, &field("response")?).into();
        (right && known.is_some()).then_some(Answer { user, nonce, count })
    }
}

/// A Digest response whose digest is right.
struct Answer {
    user: String,
    nonce: String,
    /// The nonce count that it claims; `None` in RFC 2069.
    count: Option<u32>,
}

fn same(one: &str, other: &str) -> Choice {
    one.as_bytes().ct_eq(other.as_bytes())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_digest(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Returns the token of a request: its bearer token (RFC 6750), or the `token` parameter of its
/// URL.
fn token(request: &Request<Vec<u8>>) -> Option<String> {
    let header = request.header(&AUTHORIZATION).map(HeaderValue::as_str);
    let bearer = header.and_then(|header| header.split_once(' '));
    if let Some((_, token)) = bearer.filter(|(kind, _)| kind.eq_ignore_ascii_case("Bearer")) {
        return Some(token.trim().to_owned());
    }
    let mut pairs = request.request_uri()?.query_pairs();
    pairs.find(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
}

/// Reads a file of at most [`MAX_FILE_BYTES`] bytes without permissions for other users.
pub(crate) fn secret_file(path: &Path) -> Result<String, MediaError> {
    let failed = |error| MediaError::new(format!("{}: {error}", path.display()));
    let about = std::fs::metadata(path).map_err(failed)?;
    if about.mode() & 0o007 != 0 {
        let mode = about.mode() & 0o777;
        return Err(MediaError::new(format!(
            "{}: other users have access (mode {mode:o})",
            path.display()
        ))
        .help(format!("chmod 600 {}", path.display())));
    }
    if about.len() > MAX_FILE_BYTES {
        return Err(MediaError::new(format!(
            "{}: the file has {} bytes",
            path.display(),
            about.len()
        ))
        .help(format!("the limit is {MAX_FILE_BYTES} bytes")));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// Returns the lines that are neither empty nor comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let all = (1..).zip(text.lines().map(str::trim));
    all.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Splits a line into exactly `COUNT` fields; `None` if one is empty.
fn fields<const COUNT: usize>(line: &str) -> Option<[&str; COUNT]> {
    let fields: Vec<&str> = line.split(':').collect();
    <[&str; COUNT]>::try_from(fields).ok().filter(|fields| fields.iter().all(|f| !f.is_empty()))
}

fn tokens_of(path: &Path, text: &str) -> Result<Vec<(String, String)>, MediaError> {
    let digest = |(number, line)| {
        let token = fields(line).filter(|[_, digest]| is_digest(digest, 64));
        let pair = |[name, digest]: [&str; 2]| (name.to_owned(), digest.to_ascii_lowercase());
        token.map(pair).ok_or_else(|| {
            MediaError::new(format!("{}, line {number}: not a token entry", path.display()))
                .help("NAME:DIGEST, the SHA-256 of the token in hexadecimal")
        })
    };
    lines(text).map(digest).collect()
}

#[cfg(test)]
mod tests;
