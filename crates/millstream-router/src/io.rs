//! Ports: AF_PACKET, AF_XDP, TAP, TUN and pcap files behind the trait [`port::Port`].

pub(crate) mod capture;
pub(crate) mod ingress;
pub(crate) mod interface;
pub(crate) mod memory;
pub(crate) mod port;
pub(crate) mod tap;
pub(crate) mod tun;
pub(crate) mod tun_device;
pub(crate) mod vlan;
