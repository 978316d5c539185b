//! Validation of hooks: commands, their streams, and which of them may run for a time.

use toml::Spanned;

use crate::error::Problem;
use crate::file::media::{HookEventName, HookTable};
use crate::media::{Hook, HookEvent};

/// Validates the `[[media.hook]]` tables; `streams` has the names of the streams.
pub(super) fn hooks(
    tables: &[Spanned<HookTable>],
    streams: &[&str],
    problems: &mut Vec<Problem>,
) -> Vec<Hook> {
    if let Some(beyond) = tables.get(Hook::MAX_COUNT) {
        let message = format!("{} hooks", tables.len());
        let help = format!("at most {}", Hook::MAX_COUNT);
        problems.push(Problem::new(beyond.span(), message).help(help));
    }
    tables.iter().map(|table| hook(table.get_ref(), streams, problems)).collect()
}

fn hook(table: &HookTable, streams: &[&str], problems: &mut Vec<Problem>) -> Hook {
    let event = match table.on.get_ref() {
        HookEventName::Publish => HookEvent::Publish,
        HookEventName::Unpublish => HookEvent::Unpublish,
        HookEventName::Read => HookEvent::Read,
        HookEventName::Unread => HookEvent::Unread,
        HookEventName::Segment => HookEvent::Segment,
        HookEventName::Violation => HookEvent::Violation,
    };
    check_command("command", &table.command, problems);
    let lasts = matches!(event, HookEvent::Publish | HookEvent::Read);
    if let Some(runs) = table.r#while.as_ref().filter(|runs| *runs.get_ref() && !lasts) {
        let message = format!("`while` of a hook on \"{}\", which has no duration", event.name());
        let help = "on = \"publish\" or \"read\", or take `while` out";
        problems.push(Problem::new(runs.span(), message).help(help));
    }
    for name in table.streams.iter().flatten() {
        if !streams.contains(&name.get_ref().as_str()) {
            let message = format!("a hook of the unknown stream `{}`", name.get_ref());
            let help = format!("streams: {}", streams.join(", "));
            problems.push(Problem::new(name.span(), message).help(help));
        }
    }
    let names = table.streams.as_ref();
    Hook {
        event,
        command: table.command.get_ref().clone(),
        streams: names.map(|names| names.iter().map(|name| name.get_ref().clone()).collect()),
        is_while: table.r#while.as_ref().is_some_and(|runs| *runs.get_ref()),
    }
}

/// Checks the length and the program of the command in a key.
pub(crate) fn check_command(
    key: &str,
    spanned: &Spanned<Vec<String>>,
    problems: &mut Vec<Problem>,
) {
    let command = spanned.get_ref();
    let bytes: usize = command.iter().map(String::len).sum();
    let is_program = command.first().is_some_and(|program| !program.is_empty());
    let is_long = command.len() > Hook::MAX_ARGUMENTS || bytes > Hook::MAX_BYTES;
    if !is_program || is_long || command.iter().any(|word| word.contains('\0')) {
        let message = match (is_program, is_long) {
            (false, _) => format!("`{key}` names no program"),
            (_, true) => format!("a `{key}` of {} arguments, {bytes} B", command.len()),
            _ => format!("a `{key}` with a null character"),
        };
        let help = format!(
            "{key} = [\"/usr/local/bin/notify\", \"--now\"], up to {} arguments and {} B",
            Hook::MAX_ARGUMENTS,
            Hook::MAX_BYTES
        );
        problems.push(Problem::new(spanned.span(), message).help(help));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::*;

    #[test]
    fn every_key_is_parsed() {
        let media = parse(
            "[[media.hook]]\non = \"publish\"\ncommand = [\"a\", \"b c\"]\nstreams = [\"a\"]\n\
             while = true\n[[media.hook]]\non = \"violation\"\ncommand = [\"a\"]",
        );
        let [first, second] = &media.unwrap().hooks[..] else { panic!() };
        let command = vec!["a".to_owned(), "b c".to_owned()];
        let streams = Some(vec!["a".to_owned()]);
        let event = HookEvent::Publish;
        assert_eq!(*first, Hook { event, command, streams, is_while: true });
        assert!(
            first.is_for("a") && first.is_for("a/1") && !first.is_for("b") && second.is_for("b")
        );
        assert_eq!((second.event.name(), second.is_while), ("violation", false));
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        let of = |rest: &str| format!("[[media.hook]]\n{rest}");
        let long = format!("on = \"read\"\ncommand = [\"a\", \"{}\"]", "x".repeat(40_000));
        for (section, parts) in [
            (of("on = \"play\"\ncommand = [\"a\"]"), ["play", "read"]),
            (of("on = \"read\"\ncommand = []"), ["no program", "command = ["]),
            (of("on = \"read\"\ncommand = \"a b\""), ["sequence", "string"]),
            (of(&long), ["40001 B", "32768 B"]),
            (of("on = \"read\"\ncommand = [\"a\"]\nstreams = [\"b\"]"), ["`b`", "streams: a"]),
            (
                of("on = \"unread\"\ncommand = [\"a\"]\nwhile = true"),
                ["no duration", "on = \"publish\""],
            ),
        ] {
            let error = parse(&section).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
    }
}
