//! What the parser makes of frames, byte by byte.

use super::*;

fn frame(kind: &[u8], rest: &[u8]) -> Vec<u8> {
    [&[0; 12], kind, rest].concat()
}

fn ipv4(first: u8, total: u16) -> Vec<u8> {
    let mut header = [0; 20];
    header[0] = first;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[12..16].copy_from_slice(&[192, 0, 2, 1]);
    header[16..20].copy_from_slice(&[198, 51, 100, 2]);
    header.to_vec()
}

fn ipv6(next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; 40];
    (header[0], header[6], header[7], header[23], header[39]) = (0x60, next, hop_limit, 1, 2);
    [&header, payload].concat()
}

fn addresses(packet: &Packet) -> (String, String) {
    (packet.source.to_ip().to_string(), packet.destination.to_ip().to_string())
}

fn expected() -> (String, String) {
    ("192.0.2.1".to_owned(), "198.51.100.2".to_owned())
}

#[test]
fn ipv4_behind_up_to_two_tags() {
    for tags in [&[][..], &[0x81, 0, 0xe0, 7], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]] {
        let bytes = frame(tags, &[&[8, 0][..], &ipv4(0x45, 20)].concat());
        let packet = parse(&bytes[..]).unwrap();
        assert_eq!((addresses(&packet), packet.malformed), (expected(), 0), "{tags:?}");
    }
    let three = [0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3];
    assert!(parse(&frame(&three, &[&[8, 0][..], &ipv4(0x45, 20)].concat())[..]).is_err());
}

#[test]
fn broken_ipv4_headers_still_have_addresses() {
    for (first, total, malformed) in [
        (0x45, 20, false),
        (0x4f, 60, false),
        (0x45, 0, false),
        (0x44, 20, true),
        (0x40, 20, true),
        (0x46, 20, true),
    ] {
        let packet = parse(&frame(&[8, 0], &ipv4(first, total))[..]).unwrap();
        assert_eq!(
            (addresses(&packet), packet.malformed != 0),
            (expected(), malformed),
            "{first:#x} {total}"
        );
    }
}

#[test]
fn what_has_no_addresses_is_not_ip() {
    let whole = frame(&[8, 0], &ipv4(0x45, 20));
    for length in 0..whole.len() {
        assert!(parse(&whole[..length]).is_err(), "{length}");
    }
    let whole = frame(&[0x86, 0xdd], &ipv6(17, 64, &[]));
    for length in 0..whole.len() {
        assert!(parse(&whole[..length]).is_err(), "{length}");
    }
    for (kind, rest) in [([8, 6], ipv4(0x45, 20)), ([8, 0], ipv4(0x65, 20)), ([0x86, 0xdd], ipv4(0x45, 20))] {
        assert!(parse(&frame(&kind, &rest)[..]).is_err(), "{kind:?}");
    }
}

#[test]
fn neighbour_discovery_is_told_apart() {
    for (next, hop_limit, payload, expected) in [
        (58, 255, &[135][..], true),
        (58, 255, &[133], true),
        (58, 255, &[137], true),
        (58, 255, &[128], false),
        (58, 255, &[138], false),
        (58, 64, &[135], false),
        (17, 255, &[135], false),
        (58, 255, &[], false),
    ] {
        let packet = parse(&frame(&[0x86, 0xdd], &ipv6(next, hop_limit, payload))[..]).unwrap();
        assert_eq!(packet.is_neighbour_discovery != 0, expected, "{next} {hop_limit} {payload:?}");
        assert_eq!(addresses(&packet), ("::1".to_owned(), "::2".to_owned()));
    }
}

/// What the transport of an IPv4 packet with this protocol, position and payload is read as.
fn transport_v4(words: u8, protocol: u8, position: u16, payload: &[u8]) -> [u32; 7] {
    let options = usize::from(words.saturating_sub(5)) * 4;
    let mut header = ipv4(0x40 | words, (20 + options + payload.len()) as u16);
    header[6..8].copy_from_slice(&position.to_be_bytes());
    header[9] = protocol;
    header.resize(20 + options, 1);
    transport(&frame(&[8, 0], &[header, payload.to_vec()].concat()))
}

/// The same behind IPv6 extension headers: type and bytes of each, of which the first is filled in.
fn transport_v6(headers: &[(u8, &[u8])], protocol: u8, payload: &[u8]) -> [u32; 7] {
    let mut chain = Vec::new();
    for (index, (_, bytes)) in headers.iter().enumerate() {
        chain.push(headers.get(index + 1).map_or(protocol, |(kind, _)| *kind));
        chain.extend(&bytes[1..]);
    }
    chain.extend(payload);
    let first = headers.first().map_or(protocol, |(kind, _)| *kind);
    let mut header = ipv6(first, 64, &chain);
    header[4..6].copy_from_slice(&(chain.len() as u16).to_be_bytes());
    transport(&frame(&[0x86, 0xdd], &header))
}

/// Protocol, ports, flags, type, fragment, malformed.
fn transport(frame: &[u8]) -> [u32; 7] {
    let packet = parse(frame).unwrap();
    [
        packet.protocol,
        packet.source_port,
        packet.destination_port,
        packet.tcp_flags,
        packet.icmp_type,
        packet.fragment,
        packet.malformed,
    ]
}

/// From port 4660 to 80, with SYN and ACK.
const SYN_ACK: [u8; 20] = [0x12, 0x34, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0];

const TCP: [u32; 7] = [6, 0x1234, 80, 0x12, NO_TYPE, WHOLE, 0];

/// An extension header of eight bytes.
const EIGHT: &[u8] = &[0; 8];

#[test]
fn transports_are_read_behind_options() {
    for words in [5, 6, 15] {
        assert_eq!(transport_v4(words, 6, 0, &SYN_ACK), TCP, "{words}");
    }
    for protocol in [17, 33, 132, 136] {
        let expected = [u32::from(protocol), 0x1234, 80, NO_FLAGS, NO_TYPE, WHOLE, 0];
        assert_eq!(transport_v4(5, protocol, 0, &SYN_ACK), expected);
    }
    assert_eq!(transport_v4(5, 1, 0, &[8, 0, 0, 0]), [1, NO_PORT, NO_PORT, NO_FLAGS, 8, WHOLE, 0]);
    for protocol in [47, 50, 51, 2, 255] {
        let expected = [u32::from(protocol), NO_PORT, NO_PORT, NO_FLAGS, NO_TYPE, WHOLE, 0];
        assert_eq!(transport_v4(5, protocol, 0, &SYN_ACK), expected);
    }
}

#[test]
fn extension_headers_are_followed_up_to_eight() {
    assert_eq!(transport_v6(&[], 6, &SYN_ACK), TCP);
    assert_eq!(transport_v6(&[], 58, &[128, 0, 0, 0]), [58, NO_PORT, NO_PORT, NO_FLAGS, 256 + 128, WHOLE, 0]);
    let authentication: &[u8] = &[0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing: &[u8] = &[0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        transport_v6(&[(0, EIGHT), (51, authentication), (43, routing), (60, EIGHT)], 6, &SYN_ACK),
        TCP
    );
    assert_eq!(transport_v6(&[(0, EIGHT)], 132, &SYN_ACK), [132, 0x1234, 80, NO_FLAGS, NO_TYPE, WHOLE, 0]);
    assert_eq!(
        transport_v6(&[(60, EIGHT)], 47, &SYN_ACK),
        [47, NO_PORT, NO_PORT, NO_FLAGS, NO_TYPE, WHOLE, 0]
    );
    assert_eq!(transport_v6(&[(60, EIGHT); 8], 6, &SYN_ACK), TCP);
    let unknown = [UNKNOWN_PROTOCOL, UNKNOWN_PORT, UNKNOWN_PORT, UNKNOWN_FLAGS, UNKNOWN_TYPE, WHOLE, 0];
    assert_eq!(transport_v6(&[(60, EIGHT); 9], 6, &SYN_ACK), unknown);
}

#[test]
fn later_fragments_have_no_ports() {
    for (position, fragment) in [(0x4000, WHOLE), (0x2000, FIRST)] {
        let expected = [6, 0x1234, 80, 0x12, NO_TYPE, fragment, 0];
        assert_eq!(transport_v4(5, 6, position, &SYN_ACK), expected, "{position:#x}");
    }
    for position in [1, 0x2001, 0x1fff] {
        let expected = [6, NO_PORT, NO_PORT, NO_FLAGS, NO_TYPE, LATER, 0];
        assert_eq!(transport_v4(5, 6, position, &SYN_ACK), expected, "{position:#x}");
    }
    for (low, fragment) in [(0, WHOLE), (1, FIRST)] {
        let expected = [6, 0x1234, 80, 0x12, NO_TYPE, fragment, 0];
        assert_eq!(transport_v6(&[(44, &[0, 0, 0, low, 0, 0, 0, 0])], 6, &SYN_ACK), expected);
    }
    // A fragment in a fragment is one of those whose transport can't be told.
    let (first, whole): (&[u8], &[u8]) = (&[0, 0, 0, 1, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0, 0]);
    let nested = [UNKNOWN_PROTOCOL, UNKNOWN_PORT, UNKNOWN_PORT, UNKNOWN_FLAGS, UNKNOWN_TYPE, FIRST, 1];
    assert_eq!(transport_v6(&[(44, first), (44, whole)], 6, &SYN_ACK), nested);
    let later = transport_v6(&[(44, &[0, 0, 0, 9, 0, 0, 0, 0])], 17, &SYN_ACK);
    assert_eq!(later, [UNKNOWN_PROTOCOL, NO_PORT, NO_PORT, NO_FLAGS, NO_TYPE, LATER, 0]);
}

#[test]
fn what_is_cut_off_can_not_be_told() {
    let ports = [6, UNKNOWN_PORT, UNKNOWN_PORT, UNKNOWN_FLAGS, NO_TYPE, WHOLE, 1];
    assert_eq!(transport_v4(5, 6, 0, &SYN_ACK[..3]), ports);
    assert_eq!(transport_v4(5, 6, 0, &SYN_ACK[..13]), [6, 0x1234, 80, UNKNOWN_FLAGS, NO_TYPE, WHOLE, 1]);
    assert_eq!(transport_v4(5, 17, 0, &[]), [17, UNKNOWN_PORT, UNKNOWN_PORT, NO_FLAGS, NO_TYPE, WHOLE, 1]);
    assert_eq!(transport_v4(5, 1, 0, &[8, 0]), [1, NO_PORT, NO_PORT, NO_FLAGS, UNKNOWN_TYPE, WHOLE, 1]);
    // A header length that no packet has leaves nothing to find the transport by.
    assert_eq!(transport_v4(4, 6, 0, &SYN_ACK), ports);
    // What lies behind the packet's own end is padding.
    let mut padded = ipv4(0x45, 22);
    padded[9] = 17;
    padded.extend([0x12, 0x34, 0, 80]);
    let expected = [17, UNKNOWN_PORT, UNKNOWN_PORT, NO_FLAGS, NO_TYPE, WHOLE, 1];
    assert_eq!(transport(&frame(&[8, 0], &padded)), expected);
    let unknown = [UNKNOWN_PROTOCOL, UNKNOWN_PORT, UNKNOWN_PORT, UNKNOWN_FLAGS, UNKNOWN_TYPE, WHOLE, 1];
    let too_long: &[u8] = &[0, 255, 0, 0, 0, 0, 0, 0];
    assert_eq!(transport_v6(&[(60, too_long)], 6, &SYN_ACK), unknown);
    assert_eq!(transport_v6(&[(60, too_long)], 47, &SYN_ACK), unknown);
    assert_eq!(transport_v6(&[(60, EIGHT), (0, &[0, 0])], 6, &[]), unknown);
}

#[test]
fn vlan_ids_come_without_their_priority() {
    let inner = [&[8, 0][..], &ipv4(0x45, 20)].concat();
    for (tags, expected) in [
        (&[][..], [NO_VLAN; 2]),
        (&[0x81, 0, 0xe0, 7], [7, NO_VLAN]),
        (&[0x88, 0xa8, 0x1f, 0xfe, 0x81, 0, 0, 0], [0xffe, 0]),
    ] {
        assert_eq!(parse(&frame(tags, &inner)[..]).unwrap().vlans, expected);
    }
    // Behind three tags is nothing for this host, unless it takes off one that has no id.
    let tag = |id: u8| [0x81, 0, 0, id];
    for (ids, hides) in [([1, 2, 3], 0), ([0, 0, 0], 1), ([0, 2, 3], 1), ([1, 0, 3], 1), ([1, 2, 0], 1)] {
        let tags = ids.map(tag).concat();
        let not_ip = NotIp { vlans: [ids[0].into(), ids[1].into()], hides };
        assert_eq!(parse(&frame(&tags, &inner)[..]), Err(not_ip), "{ids:?}");
    }
    let arp = frame(&[0x81, 0, 0x20, 9], &[8, 6]);
    assert_eq!(parse(&arp[..]), Err(NotIp { vlans: [9, NO_VLAN], hides: 0 }));
}

/// A packet as an interface of a kind hands it over.
fn linked(link: LinkLayer, bytes: &[u8]) -> Result<Packet, NotIp> {
    parse(&Linked(link, bytes))
}

#[test]
fn without_an_ethernet_header_the_first_bits_tell_the_version() {
    let datagram = [0x10, 0, 0x20, 0, 0, 8, 0, 0];
    let mut four = [ipv4(0x45, 28), datagram.to_vec()].concat();
    four[9] = 17;
    let mut six = ipv6(17, 64, &datagram);
    six[5] = 8;
    for (bytes, kind) in [(four, [8, 0]), (six, [0x86, 0xdd])] {
        let raw = linked(LinkLayer::RawIp, &bytes).unwrap();
        assert_eq!(Ok(raw), linked(LinkLayer::Ethernet, &frame(&kind, &bytes)));
        assert_eq!((raw.source_port, raw.destination_port, raw.malformed), (0x1000, 0x2000, 0));
        for length in 0..bytes.len() {
            let cut = linked(LinkLayer::RawIp, &bytes[..length]).map(|packet| packet.source);
            assert!(cut.is_err() || cut == Ok(raw.source), "{length}");
        }
    }
    for first in [0x00, 0x15, 0x55, 0x75, 0xf5] {
        let not_ip = linked(LinkLayer::RawIp, &ipv4(first, 20)).unwrap_err();
        assert_eq!(not_ip.hides, 0, "{first:#x}");
    }
}

#[test]
fn a_tag_without_an_id_hides_a_packet_where_no_tag_belongs() {
    let (four, six) = (ipv4(0x45, 20), ipv6(17, 64, &[]));
    for (start, packet, hides) in [
        ([0x00, 0, 0x08, 0x00], &four, true),
        ([0x40, 0, 0x08, 0x00], &four, true),
        ([0x60, 0, 0x86, 0xdd], &six, true),
        ([0xe0, 0, 0x81, 0x00], &vec![0x20, 0, 0x08, 0x00], true),
        ([0x00, 0, 0x88, 0xa8], &vec![0x00, 0, 0x08, 0x00], true),
        // With an id it is for a VLAN; the host takes it for nothing else.
        ([0x00, 1, 0x08, 0x00], &four, false),
        ([0x00, 0, 0x81, 0x00], &vec![0x20, 7, 0x08, 0x00], false),
        ([0x00, 0, 0x08, 0x06], &four, false),
        ([0x00, 0, 0x08, 0x00], &six, false),
    ] {
        let not_ip = linked(LinkLayer::RawIp, &[&start[..], packet].concat());
        assert_eq!(not_ip.map_err(|not_ip| not_ip.hides).err(), Some(u64::from(hides)), "{start:02x?}");
    }
    // A flow label that looks like a type, before a length that does not look like an IPv4 header.
    let mut six = six;
    six[1..4].copy_from_slice(&[0, 8, 0]);
    assert!(linked(LinkLayer::RawIp, &six).is_ok());
}

#[test]
fn the_outer_headers_of_a_gre_tunnel_are_stepped_over() {
    let packet = ipv4(0x45, 20);
    for (words, header, ok) in [
        (5, &[0, 0, 8, 0][..], true),
        (8, &[0, 0, 8, 0], true),
        (5, &[0x20, 0, 8, 0, 0, 0, 0, 5], true),
        (5, &[0x80, 0, 8, 0, 0, 0, 0, 0], true),
        (5, &[0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 9], true),
        // Web Cache Communication Protocol, with and without its own header.
        (5, &[0, 0, 0x88, 0x3e], true),
        (5, &[0, 0, 0x88, 0x3e, 1, 2, 3, 4], true),
        (5, &[0, 0, 0x81, 0, 0, 0, 8, 0], false),
    ] {
        let mut outer = ipv4(0x40 | words, 0);
        (outer[9], outer[15]) = (47, 9);
        outer.resize(usize::from(words) * 4, 1);
        let bytes = [&outer, header, &packet].concat();
        let found = linked(LinkLayer::OuterGre, &bytes);
        assert_eq!(found.is_ok(), ok, "{header:02x?}");
        let Ok(found) = found else {
            assert_eq!(found.unwrap_err().hides, 1);
            continue;
        };
        assert_eq!(addresses(&found), expected(), "{header:02x?}");
        assert_eq!(outer_length(&Linked(LinkLayer::OuterGre, &bytes)), bytes.len() as u64 - 20);
        for length in outer.len() + 4..bytes.len() {
            let cut = linked(LinkLayer::OuterGre, &bytes[..length]);
            assert!(cut.is_err_and(|not_ip| not_ip.hides == 0), "{length}");
            assert!(outer_length(&Linked(LinkLayer::OuterGre, &bytes[..length])) <= length as u64);
        }
    }
}

#[test]
fn a_frame_counts_as_many_packets_as_its_bytes_make() {
    for (bytes, mtu, link, expected) in [
        (0, 1_500, LinkLayer::Ethernet, 1),
        (1_514, 1_500, LinkLayer::Ethernet, 1),
        // Two VLAN tags.
        (1_522, 1_500, LinkLayer::Ethernet, 1),
        (1_523, 1_500, LinkLayer::Ethernet, 2),
        (65_226, 1_500, LinkLayer::Ethernet, 44),
        (1_500, 1_500, LinkLayer::RawIp, 1),
        (1_501, 1_500, LinkLayer::RawIp, 2),
        (3_000, 1_500, LinkLayer::OuterGre, 2),
        (65_226, 9_000, LinkLayer::Ethernet, 8),
        // The interface is gone.
        (65_226, 0, LinkLayer::Ethernet, 1),
        (u64::MAX, 1, LinkLayer::RawIp, MOST_PACKETS),
    ] {
        assert_eq!(packets_in(bytes, mtu, link), expected, "{bytes} at {mtu}, {link:?}");
    }
}
