//! The OpenAPI description of the HTTP API, against the routes and answers of a running server.

use crate::player::Server;
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// Sends a request; returns status, media type and body.
fn exchange(
    server: SocketAddr,
    line: &str,
    media_type: &str,
    body: &[u8],
) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(server).unwrap();
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nContent-Type: {media_type}\r\n\
         Content-Length: {length}\r\n\r\n"
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n").expect("a header") + 4;
    let body = answer.split_off(end);
    let head = String::from_utf8(answer).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let media_type = head.lines().find_map(|line| line.strip_prefix("content-type: "));
    (status, media_type.unwrap_or_default().to_owned(), body)
}

/// Asserts that a value has the schema's types, all its required members and no others.
fn assert_conforms(value: &Value, schema: &Value, document: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let found = document.pointer(reference.strip_prefix('#').unwrap());
        return assert_conforms(value, found.expect(reference), document, at);
    }
    if let Some(options) = schema["anyOf"].as_array() {
        // Only optional structures: null, or the structure.
        let option = options.iter().find(|one| value.is_null() == (one["type"] == "null"));
        return assert_conforms(value, option.expect(at), document, at);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    let has = |kind: &str| types.iter().any(|of| of == kind);
    assert!(has(kind) || kind == "integer" && has("number"), "{at}: {value} for {schema}");
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        assert_conforms(item, &schema["items"], document, &format!("{at}/{number}"));
    }
    let Some(members) = value.as_object() else { return };
    for (name, member) in members {
        assert!(schema["properties"][name].is_object(), "{at}/{name} is not described");
        assert_conforms(member, &schema["properties"][name], document, &format!("{at}/{name}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(members.contains_key(name.as_str().unwrap()), "{at} lacks {name}");
    }
}

/// What the test sends to an operation, by method and path: body and expected status.
fn request(method: &str, path: &str) -> (Vec<u8>, u16) {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/media/thin.wasm");
    match (method, path) {
        ("put", _) => (std::fs::read(module).unwrap(), 200),
        ("post", "/instructions/{name}") => (vec![1], 200),
        ("post", "/whep/{name}") => (b"v=0".to_vec(), 406),
        ("post", "/whip/{name}") => (b"v=0".to_vec(), 404),
        ("delete" | "options", "/session/{name}") => (Vec::new(), 404),
        ("get", "/{name}/index.m3u8") => (Vec::new(), 406),
        ("get", "/{name}/{file}") => (Vec::new(), 404),
        ("options", _) => (Vec::new(), 204),
        _ => (Vec::new(), 200),
    }
}

#[test]
fn the_description_of_the_api_matches_the_routes() {
    let media = "http = \"127.0.0.1:0\"\nhls = \"127.0.0.1:0\"\ninstructions = true";
    let media = if cfg!(feature = "webrtc") {
        format!("{media}\nwebrtc = \"127.0.0.1:0\"")
    } else {
        media.to_owned()
    };
    let stream = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";
    let source = ", repeat = true }\n[[stream]]\nname = \"cam\"\nperiod = \"40 ms\"\n\
                  late = \"drop\"\nsource = { kind = \"live\", rate = \"1 Mbps\"";
    let server = Server::start(60, "50 Mbps", &media, stream, source);
    let http = server.http.unwrap();
    let (_, _, text) = exchange(http, "GET /openapi.json", "", &[]);
    let document: Value = serde_json::from_slice(&text).unwrap();
    let paths: &Map<String, Value> = document["paths"].as_object().unwrap();
    // Every page that the server names is described.
    let (status, _, text) = exchange(http, "GET /none", "", &[]);
    assert_eq!(status, 404);
    let text = String::from_utf8(text).unwrap();
    let named: Vec<&str> =
        text.split([' ', ',', '\n']).filter(|word| word.starts_with('/')).collect();
    assert_eq!(named.len(), 9, "{text}");
    for path in named {
        assert!(paths.contains_key(path), "{path} is not described");
    }
    // Loaded first and removed last.
    let order = ["put", "get", "options", "post", "delete"];
    let mut made = 0;
    for method in order {
        for (path, item) in paths {
            let operation = &item[method];
            let address = match item["servers"][0]["variables"]["address"]["default"].as_str() {
                None => Some(http),
                Some("127.0.0.1:8888") => server.hls,
                Some(_) => server.webrtc,
            };
            let (Some(address), true) = (address, operation.is_object()) else { continue };
            let (body, expected) = request(method, path);
            let content = operation["requestBody"]["content"].as_object();
            let media_type = content.map_or("", |content| content.keys().next().unwrap());
            let at = format!("{} {path}", method.to_uppercase());
            let line = at.replace("{name}", "film");
            let (status, kind, answer) = exchange(address, &line, media_type, &body);
            assert_eq!(status, expected, "{at}: {}", String::from_utf8_lossy(&answer));
            let content = &operation["responses"][status.to_string()]["content"];
            let described = content.as_object().expect(&at);
            if let Some((name, content)) = described.iter().next() {
                assert!(kind.starts_with(name), "{at}: {kind}, described as {name}");
                if content["schema"].is_object() {
                    let answer = serde_json::from_slice(&answer).unwrap();
                    assert_conforms(&answer, &content["schema"], &document, &at);
                }
            }
            if !media_type.is_empty() && address == http {
                let (status, ..) = exchange(address, &line, "image/png", &body);
                assert_eq!(
                    (status, operation["responses"]["415"].is_object()),
                    (415, true),
                    "{at}"
                );
            }
            made += 1;
        }
    }
    // Methods that are not described are not allowed.
    let (status, ..) = exchange(http, "POST /status", "", &[]);
    assert_eq!((status, &paths["/status"]["post"]), (405, &json!(null)));
    assert_eq!(made, if cfg!(feature = "webrtc") { 24 } else { 16 });
    server.end();
}
