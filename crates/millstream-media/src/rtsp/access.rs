//! Who may ask: users by Digest (RFC 7616, and RFC 2069 for clients that know no more), or whoever
//! has a token in the URL.
//!
//! A nonce belongs to one connection, so there are as many as connections, and what was overheard
//! is of no use on another. No file holds a password or a token: of users there is what `htdigest`
//! writes, of tokens their SHA-256.

pub(crate) mod backoff;

use md5::Md5;
use rtsp_types::headers::{AUTHORIZATION, HeaderValue};
use rtsp_types::{Request, Url};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use subtle::{Choice, ConstantTimeEq};

use crate::MediaError;
use crate::rtsp::session::random_word;

/// How long a nonce may be used, ns.
const NONCE_NS: u64 = 600_000_000_000;

/// Wrong answers after which a connection is closed.
const MOST_WRONG: u32 = 4;

/// The longest file of users or tokens, bytes.
const LONGEST_FILE: u64 = 16 << 20;

/// What digests are made by.
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

    /// Digits of a digest.
    fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha256 => 64,
        }
    }
}

/// Who may ask.
#[derive(Debug)]
pub(crate) struct Access {
    realm: String,
    algorithm: Algorithm,
    /// Digests of user, realm and password, by user.
    users: Option<BTreeMap<String, String>>,
    /// Name and SHA-256 of each token.
    tokens: Option<Vec<(String, String)>>,
}

/// What a connection has shown of itself.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    nonce: String,
    made_ns: u64,
    /// The last request's count with this nonce.
    count: u32,
    by_token: bool,
    /// The user or the token, by name, that was right last.
    name: Option<String>,
    wrong: u32,
}

impl Pass {
    /// The user or token by whose name the connection asks.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether all credentials that it has shown were right, and some were.
    pub(crate) fn is_trusted(&self) -> bool {
        self.name.is_some() && self.wrong == 0
    }

    /// Credentials were refused unread.
    pub(crate) fn refuse(&mut self) {
        self.wrong += 1;
    }

    /// Whether the connection has guessed often enough.
    pub(crate) fn is_used_up(&self) -> bool {
        self.wrong >= MOST_WRONG
    }
}

/// Credentials that a request shows, right or wrong.
#[derive(Debug)]
pub(crate) struct Shown(Option<String>);

impl Shown {
    /// The user that they name; tokens name none.
    pub(crate) fn user(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// Whether a request is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// The client is to say who it is: what it is asked by, if it can be asked by Digest.
    Asked(Option<String>),
    /// It said something wrong.
    Wrong(Option<String>),
}

impl Access {
    /// Everybody.
    pub(crate) fn open() -> Self {
        Self { realm: String::new(), algorithm: Algorithm::Md5, users: None, tokens: None }
    }

    /// Nobody, by whatever way.
    pub(crate) fn nobody() -> Self {
        let (realm, users) = ("millstream".to_owned(), Some(BTreeMap::new()));
        Self { realm, algorithm: Algorithm::Md5, users, tokens: Some(Vec::new()) }
    }

    /// Those that the two files name, or everybody without.
    ///
    /// # Errors
    /// If a file cannot be read, may be used by everybody, or a line is none of its kind.
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

    /// How many users and tokens there are.
    pub(crate) fn len(&self) -> usize {
        self.users.as_ref().map_or(0, BTreeMap::len) + self.tokens.as_ref().map_or(0, Vec::len)
    }

    /// Whether a user or token is called so.
    pub(crate) fn knows(&self, name: &str) -> bool {
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
                     NAME:{}:PASSWORD in hexadecimal, one of the two in all lines",
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
                .ok_or_else(|| wrong("the third field is no digest"))?;
            if !users.is_empty() && algorithm != self.algorithm {
                return Err(wrong("another kind of digest than in the lines before"));
            }
            self.algorithm = algorithm;
            if users.insert(name.to_owned(), digest.to_ascii_lowercase()).is_some() {
                return Err(wrong(&format!("`{name}` for the second time")));
            }
        }
        Ok(users)
    }

    /// The credentials that a request shows, if it shows any and they matter.
    pub(crate) fn shown(&self, request: &Request<Vec<u8>>) -> Option<Shown> {
        if self.tokens.is_some() && request.request_uri().and_then(token).is_some() {
            return Some(Shown(None));
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
        Some(Shown(user))
    }

    /// Whether `request` is done for a connection that has shown `pass`.
    pub(crate) fn judge(
        &self,
        pass: &mut Pass,
        request: &Request<Vec<u8>>,
        now_ns: u64,
    ) -> Verdict {
        if (self.users.is_none() && self.tokens.is_none()) || pass.by_token {
            return Verdict::Allowed;
        }
        let token = self.tokens.as_ref().zip(request.request_uri().and_then(token));
        if let Some((tokens, token)) = token {
            let shown = hexadecimal(&Sha256::digest(&*token));
            // All are looked at, whichever it is.
            let mut name = None;
            for (of, token) in tokens {
                if same(token, &shown).into() {
                    name = Some(of);
                }
            }
            pass.by_token = name.is_some();
            pass.name = name.cloned();
            return if pass.by_token { Verdict::Allowed } else { self.wrong(pass, now_ns) };
        }
        let Some((users, header)) = self.users.as_ref().zip(request.header(&AUTHORIZATION)) else {
            return Verdict::Asked(self.challenge(pass, false, now_ns));
        };
        match self.answer(users, request, header) {
            Some(answer) if answer.nonce == pass.nonce && !pass.nonce.is_empty() => {
                let fresh = now_ns.saturating_sub(pass.made_ns) < NONCE_NS;
                // A count that was there before is a request that was overheard.
                let next = answer.count.is_none_or(|count| count > pass.count);
                if !fresh || !next {
                    return Verdict::Asked(self.challenge(pass, true, now_ns));
                }
                pass.count = answer.count.unwrap_or(pass.count);
                pass.name = Some(answer.user);
                Verdict::Allowed
            }
            // The password is right, the nonce another connection's.
            Some(_) => Verdict::Asked(self.challenge(pass, true, now_ns)),
            None => self.wrong(pass, now_ns),
        }
    }

    fn wrong(&self, pass: &mut Pass, now_ns: u64) -> Verdict {
        pass.wrong += 1;
        Verdict::Wrong(self.challenge(pass, false, now_ns))
    }

    /// What a client is asked by, with a new nonce for its connection.
    fn challenge(&self, pass: &mut Pass, stale: bool, now_ns: u64) -> Option<String> {
        self.users.as_ref()?;
        let nonce = format!("{:016x}{:016x}", random_word()?, random_word()?);
        let stale = if stale { ", stale=true" } else { "" };
        // Clients that know MD5 only know it without its name.
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

    /// The answer in a header, if its digest is right for the nonce that it names.
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
        let about = Url::parse(&uri).ok();
        if named != self.algorithm
            || field("realm")? != self.realm
            || about.as_ref() != request.request_uri()
        {
            return None;
        }
        let method: &str = request.method().into();
        // Users that are not there take as long as those that are.
        let nobody = "0".repeat(self.algorithm.digits());
        let known = users.get(&user);
        let what = self.algorithm.hash(&format!("{method}:{uri}"));
        let who = known.unwrap_or(&nobody);
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

/// An answer whose digest is right.
struct Answer {
    user: String,
    nonce: String,
    /// Which request with this nonce it says to be; `None` in RFC 2069.
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

/// `token=` of a URL.
fn token(url: &Url) -> Option<String> {
    url.query_pairs().find(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
}

/// A file that not everybody may read.
pub(crate) fn secret_file(path: &Path) -> Result<String, MediaError> {
    let failed = |error| MediaError::new(format!("{}: {error}", path.display()));
    let about = std::fs::metadata(path).map_err(failed)?;
    if about.mode() & 0o007 != 0 {
        let mode = about.mode() & 0o777;
        return Err(MediaError::new(format!(
            "{}: everybody may use it (mode {mode:o})",
            path.display()
        ))
        .help(format!("chmod 600 {}", path.display())));
    }
    if about.len() > LONGEST_FILE {
        return Err(MediaError::new(format!("{}: {} bytes", path.display(), about.len()))
            .help(format!("at most {LONGEST_FILE} bytes")));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let all = (1..).zip(text.lines().map(str::trim));
    all.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// The fields of a line, none of them empty.
fn fields<const COUNT: usize>(line: &str) -> Option<[&str; COUNT]> {
    let fields: Vec<&str> = line.split(':').collect();
    <[&str; COUNT]>::try_from(fields).ok().filter(|fields| fields.iter().all(|f| !f.is_empty()))
}

fn tokens_of(path: &Path, text: &str) -> Result<Vec<(String, String)>, MediaError> {
    let digest = |(number, line)| {
        let token = fields(line).filter(|[_, digest]| is_digest(digest, 64));
        let pair = |[name, digest]: [&str; 2]| (name.to_owned(), digest.to_ascii_lowercase());
        token.map(pair).ok_or_else(|| {
            MediaError::new(format!("{}, line {number}: not a token's line", path.display()))
                .help("NAME:DIGEST, the SHA-256 of the token in hexadecimal")
        })
    };
    lines(text).map(digest).collect()
}

#[cfg(test)]
mod tests;
