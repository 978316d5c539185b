//! The root qdisc of an interface, read over rtnetlink.
//!
//! Source: RFC 3549, section 3.1.3; linux/rtnetlink.h.

use netlink_packet_core::{
    DecodeError, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::tc::{TcHandle, TcHeader, TcMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// The type of a message with a qdisc (linux/rtnetlink.h).
const RTM_NEWQDISC: u16 = 36;
/// The attribute with the name of a qdisc's kind.
const TCA_KIND: u16 = 1;
/// The size of `struct tcmsg`, bytes.
const TC_HEADER: usize = 20;
/// The longest datagram that is read, bytes; the kernel's are at most half as long.
const DATAGRAM_BYTES: usize = 65_536;

/// Returns the kind of the root qdisc of the interface with this index. `None` if there is no such
/// interface, or the kernel does not show its qdisc.
///
/// # Errors
/// Fails if the kernel cannot be asked, or if its answer is malformed.
pub(crate) fn kind(interface_index: i32) -> io::Result<Option<String>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    let mut header = NetlinkHeader::default();
    // The kernel announces the answer to a request for one qdisc as if the qdisc had changed.
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let message = Message::GetQueueDiscipline(TcMessage::with_index(interface_index));
    let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
    let mut datagram = vec![0; DATAGRAM_BYTES];
    let mut found = None;
    loop {
        let length = socket.recv(&mut &mut datagram[..], 0)?;
        if read(&datagram[..length], interface_index, &mut found)? {
            return Ok(found);
        }
    }
}

/// Reads the messages of a datagram, with the kind of the interface's root qdisc. Returns whether
/// one is the last.
fn read(datagram: &[u8], interface_index: i32, found: &mut Option<String>) -> io::Result<bool> {
    let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkBuffer::new_checked(rest).map_err(malformed)?;
        match message.message_type() {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let error = NetlinkMessage::<Message>::deserialize(rest).map_err(malformed)?;
                return match error.payload {
                    NetlinkPayload::Error(error) => Err(error.to_io()),
                    _ => Ok(true),
                };
            }
            RTM_NEWQDISC => {
                if let Some(kind) =
                    root_kind(message.payload(), interface_index).map_err(malformed)?
                {
                    *found = Some(kind);
                }
            }
            _ => {}
        }
        let aligned = (message.length() as usize).next_multiple_of(4);
        rest = rest.get(aligned..).unwrap_or_default();
    }
    Ok(false)
}

/// Returns the kind of a qdisc, if it is the root of the interface. Its options, which may be of
/// any kernel and kind, are not parsed.
fn root_kind(message: &[u8], interface_index: i32) -> Result<Option<String>, DecodeError> {
    let header = TcHeader::parse(message)?;
    if header.index != interface_index || header.parent != TcHandle::ROOT {
        return Ok(None);
    }
    for attribute in NlasIterator::new(&message[TC_HEADER..]) {
        let attribute = attribute?;
        if attribute.kind() == TCA_KIND {
            let text = attribute.value().split(|byte| *byte == 0).next();
            return Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::{DoneMessage, ErrorMessage};
    use netlink_packet_route::tc::TcAttribute;
    use std::num::NonZeroI32;
    use std::process::Command;

    const INDEX: i32 = 7;

    /// Returns a message of the kernel with this qdisc.
    fn qdisc(interface_index: i32, parent: TcHandle, kind: &str) -> Vec<u8> {
        let mut message = TcMessage::with_index(interface_index);
        message.header.parent = parent;
        message.attributes.push(TcAttribute::Kind(kind.into()));
        bytes(NetlinkPayload::InnerMessage(Message::NewQueueDiscipline(message)))
    }

    fn bytes(payload: NetlinkPayload<Message>) -> Vec<u8> {
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn done() -> Vec<u8> {
        bytes(NetlinkPayload::Done(DoneMessage::default()))
    }

    #[test]
    fn the_root_qdisc_of_the_interface_is_found_among_others() {
        let datagrams = [
            [qdisc(8, TcHandle::ROOT, "fq"), qdisc(INDEX, TcHandle::INGRESS, "ingress")].concat(),
            [qdisc(INDEX, TcHandle::ROOT, "ms_7"), qdisc(9, TcHandle::ROOT, "htb")].concat(),
            done(),
        ];
        let mut found = None;
        let ends = datagrams.map(|datagram| read(&datagram, INDEX, &mut found).unwrap());
        assert_eq!((ends, found.as_deref()), ([false, false, true], Some("ms_7")));
    }

    #[test]
    fn an_error_of_the_kernel_is_returned() {
        let mut error = ErrorMessage::default();
        error.code = NonZeroI32::new(-1);
        let error = read(&bytes(NetlinkPayload::Error(error)), INDEX, &mut None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_truncated_message_is_an_error() {
        let whole = qdisc(INDEX, TcHandle::ROOT, "ms_7");
        for length in 1..whole.len() {
            let error = read(&whole[..length], INDEX, &mut None).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{length} bytes");
        }
    }

    #[test]
    fn the_kernel_says_what_tc_says() {
        let shown = Command::new("tc").args(["qdisc", "show", "dev", "lo", "root"]).output();
        let Ok(shown) = shown else {
            eprintln!("not tested: the program tc is not installed");
            return;
        };
        let shown = String::from_utf8(shown.stdout).unwrap();
        let by_tc = shown.split_whitespace().nth(1);
        assert_eq!(kind(1).unwrap().as_deref(), by_tc, "lo has the index 1");
        assert_eq!(kind(i32::MAX).unwrap(), None);
    }
}
