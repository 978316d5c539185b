//! The parsers of user and token files do not panic; errors name file and line.

use millstream_media::fuzzing::access_files;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "access_files",
    first_parser: "at least one valid line in user and token files without invalid lines",
    seeds,
    words: &[
        b"alice",
        b"bob",
        b"millstream",
        b":",
        b"::",
        b"#",
        b"\n",
        b"\r\n",
        b" ",
        b"\t",
        b"\0",
        b"d41d8cd98f00b204e9800998ecf8427e",
        b"D41D8CD98F00B204E9800998ECF8427E",
        b"\xc3\xa4",
        b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
    mutate: Mutation::text,
    admits: Some(|input| read(input).is_some_and(|of| of > 0)),
    run: |input| read(input).is_some_and(|of| of > 0),
};

const REALM: &str = "millstream";
/// Separates the user file from the token file.
const SEPARATOR: &[u8] = b"\n--\n";

thread_local! {
    static FOLDER: TempDir = TempDir::new_in("/dev/shm").expect("a folder");
}

fn seeds() -> Vec<Vec<u8>> {
    let (md5, sha) = ("d41d8cd98f00b204e9800998ecf8427e", "e3b0c44298fc1c149afbf4c8996fb924");
    let users = format!("# users\nalice:millstream:{md5}\n\n  bob:millstream:{md5}\r\n");
    let sha_users = format!("alice:millstream:{sha}{sha}\nbob:millstream:{sha}{sha}\n");
    let tokens = format!("# tokens\nfirst:{sha}{sha}\nsecond:{sha}{sha}\n");
    let both = format!("{users}\n--\n{tokens}");
    [users, sha_users, format!("\n--\n{tokens}"), both].map(String::into_bytes).to_vec()
}

/// Returns the number of users and tokens in the files; `None` if one is rejected.
fn read(input: &[u8]) -> Option<usize> {
    let at = input.windows(SEPARATOR.len()).position(|at| at == SEPARATOR);
    let (users, tokens) = match at {
        Some(at) => (&input[..at], &input[at + SEPARATOR.len()..]),
        None => (input, &[][..]),
    };
    FOLDER.with(|folder| {
        let [users, tokens] = [("users", users), ("tokens", tokens)].map(|(name, bytes)| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).expect("written");
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
            path
        });
        match access_files(Some(&users), Some(&tokens), REALM) {
            Ok(of) => Some(of),
            Err(error) => {
                let text = error.to_string();
                let placed = text.contains(", line ") || text.contains("UTF-8");
                assert!(placed && text.contains(folder.path().to_str().expect("text")), "{text}");
                None
            }
        }
    })
}
