//! Validation of the `match` of a stream, by which the kernel's qdisc classifies packets.

use toml::Spanned;

use super::router::matches;
use crate::error::Problem;
use crate::file::StreamTable;
use crate::scenario::StreamMatch;

/// Validates the matches of a stream.
pub(super) fn of_stream(table: &StreamTable, problems: &mut Vec<Problem>) -> Vec<StreamMatch> {
    let mut found = Vec::with_capacity(table.r#match.len());
    for table in table.r#match.iter().map(Spanned::get_ref) {
        let unseen = [
            ("port", table.port.as_ref().map(Spanned::span), "does not see the ingress interface"),
            ("pcp", table.pcp.as_ref().map(Spanned::span), "does not read VLAN tags"),
            ("vlan", table.vlan.as_ref().map(Spanned::span), "does not read VLAN tags"),
        ];
        let mut is_seen = true;
        for (key, span, reason) in unseen {
            let Some(span) = span else { continue };
            let message = format!("a stream cannot match `{key}`: the qdisc {reason}");
            let help = "let nftables set a mark for such packets, and match `mark`";
            problems.push(Problem::new(span, message).help(help));
            is_seen = false;
        }
        if is_seen {
            let fields = matches(table, &[], problems);
            let mark = table.mark.as_ref().map(|of| *of.get_ref());
            let cgroup = table.cgroup.as_ref().and_then(|path| cgroup(path, problems));
            let filter = table.filter.as_ref().map(|filter| filter.get_ref().clone());
            found.push(StreamMatch { fields, mark, cgroup, filter });
        }
    }
    found
}

/// Checks that the path of a cgroup begins at the root and does not leave it.
fn cgroup(path: &Spanned<String>, problems: &mut Vec<Problem>) -> Option<String> {
    let text = path.get_ref();
    let names = text.strip_prefix('/').map(|names| names.trim_end_matches('/').split('/'));
    let is_path = names.is_some_and(|names| names.clone().all(|name| !["", ".."].contains(&name)))
        && !text.contains('\0');
    if is_path || text == "/" {
        return Some(text.clone());
    }
    let message = format!("`{text}` is not the path of a cgroup");
    let help = "it begins at the root, for example \"/system.slice/backup.service\"; \
                `systemd-cgls` shows the paths";
    problems.push(Problem::new(path.span(), message).help(help));
    None
}
