//! Validation of the router's own addresses on a port.

use ipnet::IpNet;
use toml::Spanned;

use crate::error::Problem;
use crate::file::router::AddressText;
use crate::router::MAX_IPV6_ADDRESSES;

/// Returns the router's own addresses, each with its prefix length.
pub(super) fn addresses(given: &Spanned<AddressText>, problems: &mut Vec<Problem>) -> Vec<IpNet> {
    let texts = match given.get_ref() {
        AddressText::One(text) => std::slice::from_ref(text),
        AddressText::Several(texts) => texts,
    };
    let mut nets: Vec<IpNet> = Vec::new();
    let mut wrong = |message: String, help: &str| {
        problems.push(Problem::new(given.span(), message).help(help));
    };
    for text in texts {
        let Ok(net) = text.parse::<IpNet>() else {
            let message = format!("`{text}` is not an address with a prefix length");
            wrong(message, "for example \"10.1.0.1/24\" or \"2001:db8:1::1/64\"");
            continue;
        };
        if !is_host(net) {
            let example = if net.addr().is_ipv6() { "2001:db8:1::1/64" } else { "10.1.0.1/24" };
            let help = format!("for example \"{example}\"");
            wrong(format!("{} is not the address of a host", net.addr()), &help);
        }
        if nets.iter().any(|known| known.addr() == net.addr()) {
            wrong(format!("{} is listed twice", net.addr()), "take one out");
        }
        nets.push(net);
    }
    let ipv6 = nets.iter().filter(|net| net.addr().is_ipv6()).count();
    if nets.len() - ipv6 > 1 {
        let message = format!("{} IPv4 addresses of one port", nets.len() - ipv6);
        wrong(message, "at most one");
    }
    if ipv6 > MAX_IPV6_ADDRESSES {
        wrong(
            format!("{ipv6} IPv6 addresses of one port"),
            &format!("at most {MAX_IPV6_ADDRESSES}"),
        );
    }
    if texts.is_empty() {
        wrong("an empty list of addresses".to_owned(), "leave `address` out");
    }
    nets
}

/// Returns whether a single host of the network can have this address.
pub(super) fn is_host(net: IpNet) -> bool {
    let address = net.addr();
    let ends = match net {
        IpNet::V4(net) => {
            net.prefix_len() < 31 && (net.addr() == net.network() || net.addr() == net.broadcast())
        }
        // The first address is the subnet-router anycast address (RFC 4291, section 2.6.1).
        IpNet::V6(net) => {
            net.prefix_len() < 127 && net.addr() == net.network()
                || net.addr().to_ipv4_mapped().is_some()
        }
    };
    !(ends || address.is_multicast() || address.is_loopback() || address.is_unspecified())
}
