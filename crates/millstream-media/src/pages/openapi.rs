//! The description of the HTTP API by OpenAPI 3.1, the page `/openapi.json`.
//!
//! The schemas of answers are those of the types that the server serializes.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::instruction::api::InstructionStatus;
use crate::pages::recordings::RecordingEntry;
use crate::pages::status::Status;

/// Returns the description. `http` of `[media]` serves the paths that name no other server.
pub(crate) fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let status = json!(generator.subschema_for::<Status>());
    let instruction = json!(generator.subschema_for::<InstructionStatus>());
    let instructions = json!({ "type": "array", "items": &instruction });
    let entry = json!(generator.subschema_for::<RecordingEntry>());
    let recordings = json!({ "type": "array", "items": entry });
    let schemas = generator.take_definitions(true);
    let points = "The points of each stream, with their columns";
    let history = json!({ "get": operation(points, &[ok(points, json(&history()))]) });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Millstream's media server",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "`http` of `[media]`" }],
        "paths": {
            "/": { "get": operation("The dashboard", &[ok("The page", media("text/html"))]) },
            "/openapi.json": {
                "get": operation("This description", &[ok("OpenAPI", media("application/json"))]),
            },
            "/status": page("Clients, their frames, data plane and CPU usage", json(&status)),
            "/admission": page("How many more clients fit, as text", media("text/plain")),
            "/metrics": page(
                "Counters for Prometheus",
                media("application/openmetrics-text; version=1.0.0; charset=utf-8"),
            ),
            "/history/hour": &history,
            "/history/week": &history,
            "/instructions": page("The loaded instructions", json(&instructions)),
            "/instructions/{name}": instruction_operations(json(&instruction)),
            "/recordings": { "get": operation(
                "The files of recorded streams, the oldest first",
                &[ok("The first 10,000 files", json(&recordings))],
            ) },
            "/recordings/{name}": {
                "parameters": [name("The stream")],
                "get": operation(
                    "The files of one recorded stream, the oldest first",
                    &[ok("The first 10,000 files; none for an unknown stream", json(&recordings))],
                ),
            },
            "/whep/{name}": viewers_offers(),
            "/whip/{name}": offers("Publishes a live stream", "WHIP, RFC 9725"),
            "/session/{name}": {
                "servers": webrtc_server(),
                "parameters": [name("The session, from `Location` of the answer to the offer")],
                "delete": operation("Ends a session", &[
                    ok("Ended", json!({})),
                    refused(401, "No valid token or password"),
                    refused(403, "Another address's session, or a page of another origin"),
                    refused(404, "Unknown session"),
                ]),
                "options": operation("Whether a viewer's session exists", &[
                    (204, response("It does; `Link` as for offers", json!({}))),
                    refused(404, "Unknown session"),
                ]),
            },
            "/watch/{name}": browser_page("A page that plays a stream"),
            "/publish/{name}": browser_page("A page that publishes camera and microphone"),
            "/{name}/": hls("A page that plays a live stream", "The page", "text/html", &[]),
            "/{name}/index.m3u8": hls(
                "The playlist of a live stream (HLS, RFC 8216bis)",
                "The playlist, with `_HLS_msn` once it has that segment, or part `_HLS_part` of it",
                "application/vnd.apple.mpegurl",
                &[
                    refused(400, "An invalid `_HLS_msn` or `_HLS_part`"),
                    refused(404, "Unknown stream, or no publisher"),
                    refused(406, "The stream is a file, or has another codec than H.264"),
                    refused(503, "The publisher sends no pictures"),
                ],
            ),
            "/{name}/{file}": hls(
                "A file that a playlist names",
                "The file; with the part that the playlist announces once that is complete",
                "video/mp4",
                &[refused(404, "Unknown, or no longer there")],
            ),
        },
        "components": { "schemas": schemas },
    })
}

/// Returns a path with one page, which session control answers.
fn page(summary: &str, content: Value) -> Value {
    let late = refused(503, "The server does not answer within a second");
    json!({ "get": operation(summary, &[ok(summary, content), late]) })
}

/// Returns the operations of programs on one instruction.
fn instruction_operations(status: Value) -> Value {
    let parameter = |name: &str, kind: &str, about: &str| {
        let schema = json!({ "type": kind });
        json!({ "name": name, "in": "query", "description": about, "schema": schema })
    };
    let all = [
        refused(403, "The file lacks `instructions = true`, or a web page sent the request"),
        refused(503, "The data plane does not answer, or was restarted"),
    ];
    let with = |own: &[(u16, Value)]| [own, &all[..]].concat();
    let unknown = refused(404, "Unknown instruction, or it exports no `call`");
    let media_type = refused(415, "Another media type");
    let large = refused(413, "The body is too long");
    let mut put = operation(
        "Loads a module, or replaces the one of that name",
        &with(&[
            ok("Its state", status),
            refused(400, "An invalid name or parameter"),
            refused(409, "The limit of instructions is reached"),
            large.clone(),
            media_type.clone(),
            refused(422, "The module is unusable; nothing is changed"),
            refused(500, "The data plane refused the module"),
        ]),
    );
    put["parameters"] = json!([
        parameter("streams", "string", "Streams whose frames it sees, by commas; default all"),
        parameter("memory", "integer", "The limit of its memory, bytes"),
        parameter("fuel", "integer", "The limit of its computation for a frame or a call"),
        parameter("faults", "integer", "Consecutive failures after which it is stopped"),
    ]);
    put["requestBody"] = json!({ "required": true, "content": media("application/wasm") });
    let mut post = operation(
        "Calls an instruction with a message of up to 4,096 bytes",
        &with(&[
            ok("Its answer", media("application/octet-stream")),
            unknown.clone(),
            refused(409, "It is stopped"),
            large,
            media_type,
            refused(500, "The call failed"),
        ]),
    );
    post["requestBody"] = json!({ "required": true, "content": media("application/octet-stream") });
    json!({
        "parameters": [name("The instruction: up to 64 letters, digits, - _ and .")],
        "put": put,
        "post": post,
        "delete": operation(
            "Removes an instruction",
            &with(&[ok("Removed", media("text/plain")), unknown]),
        ),
    })
}

/// Returns the operations that begin a session of WHEP.
fn viewers_offers() -> Value {
    let mut offers = offers("Plays a stream", "WHEP, draft-ietf-wish-whep-03");
    let responses = &mut offers["post"]["responses"];
    responses["201"]["description"] = json!(
        "The answer; `Location` is the session. `Link` with `rel=\"alternate\"` names the stream \
         at other members of the cluster, as in refusals"
    );
    responses["307"] =
        response("Another member of the cluster has more room: `Location`", media("text/plain"));
    offers
}

/// Returns the operations that begin a session of WebRTC.
fn offers(summary: &str, protocol: &str) -> Value {
    let mut post = operation(
        &format!("{summary} ({protocol})"),
        &[
            (201, response("The answer; `Location` is the session", media("application/sdp"))),
            refused(400, "The offer is no SDP, or of another direction"),
            refused(401, "No valid token or password"),
            refused(403, "Not permitted, or a page of another origin"),
            refused(404, "Unknown stream, or no publisher yet"),
            refused(406, "The offer has no format of the stream"),
            refused(409, "The stream has a publisher"),
            refused(415, "Not `application/sdp`"),
            refused(
                503,
                "No room: `X-Offered-Window` names a looser window, if one has room; or all \
                          players of recordings of the stream play",
            ),
        ],
    );
    post["requestBody"] = json!({ "required": true, "content": media("application/sdp") });
    let accepts = (204, response("`Accept-Post`", json!({})));
    json!({
        "servers": webrtc_server(),
        "parameters": [name("The stream; NAME/x/y is NAME with a looser window")],
        "post": post,
        "options": operation("Names the media type of offers", &[accepts]),
    })
}

/// Returns the path of a page for browsers.
fn browser_page(summary: &str) -> Value {
    let answers = [ok("The page", media("text/html")), refused(401, "No valid token or password")];
    json!({
        "servers": webrtc_server(),
        "parameters": [name("The stream")],
        "get": operation(summary, &answers),
    })
}

/// Returns a path for HLS players.
fn hls(summary: &str, content: &str, kind: &str, others: &[(u16, Value)]) -> Value {
    let mut answers = vec![ok(content, media(kind)), refused(401, "No valid token or password")];
    answers.extend_from_slice(others);
    json!({
        "servers": server("127.0.0.1:8888", "`hls` of `[media]`"),
        "parameters": [name("The stream")],
        "get": operation(summary, &answers),
    })
}

/// Returns the server of WebRTC.
fn webrtc_server() -> Value {
    server("127.0.0.1:8889", "`webrtc` of `[media]`")
}

/// Returns a server for browsers or players.
fn server(default: &str, description: &str) -> Value {
    let address = json!({ "default": default, "description": description });
    json!([{
        "url": "{scheme}://{address}",
        "variables": {
            "scheme": { "default": "http", "enum": ["http", "https"], "description": "With `tls`" },
            "address": address,
        },
    }])
}

/// Returns the schema of `/history/hour` and `/history/week`.
fn history() -> Value {
    let number = json!({ "type": "integer" });
    let values = json!({ "type": "array", "items": { "type": ["number", "null"] } });
    json!({
        "type": "object",
        "required": ["step_ns", "ended_ns", "columns", "series"],
        "properties": {
            "step_ns": &number,
            "ended_ns": &number,
            "columns": { "type": "array", "items": { "type": "string" } },
            "series": { "type": "array", "items": {
                "type": "object",
                "required": ["name", "values"],
                "properties": {
                    "name": { "type": "string" },
                    "values": { "type": "array", "items": values },
                },
            } },
        },
    })
}

fn operation(summary: &str, responses: &[(u16, Value)]) -> Value {
    let responses =
        responses.iter().map(|(status, response)| (status.to_string(), response.clone()));
    let responses: serde_json::Map<String, Value> = responses.collect();
    json!({ "summary": summary, "responses": responses })
}

fn ok(description: &str, content: Value) -> (u16, Value) {
    (200, response(description, content))
}

fn refused(status: u16, why: &str) -> (u16, Value) {
    (status, response(why, media("text/plain")))
}

fn response(description: &str, content: Value) -> Value {
    json!({ "description": description, "content": content })
}

fn media(kind: &str) -> Value {
    json!({ kind: {} })
}

fn json(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn name(description: &str) -> Value {
    json!({
        "name": "name", "in": "path", "required": true, "description": description,
        "schema": { "type": "string" },
    })
}
