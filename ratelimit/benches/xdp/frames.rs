//! Frames of all shapes that the parser knows, with UDP to port 53 in them.

/// 64 bytes from 192.0.2.1, IPv4.
pub fn udp_frame() -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[17] = 50;
    frame[23] = 17;
    frame[26..30].copy_from_slice(&[192, 0, 2, 1]);
    frame[30..34].copy_from_slice(&[198, 51, 100, 1]);
    frame[34..38].copy_from_slice(&PORTS);
    frame
}

/// From 1024 to 53.
const PORTS: [u8; 4] = [4, 0, 0, 53];

/// The same behind a service tag and a customer tag.
pub fn tagged(frame: &[u8]) -> Vec<u8> {
    let tags = [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2];
    [&frame[..12], &tags, &frame[12..]].concat()
}

/// IPv4 with 40 bytes of options.
pub fn with_options() -> Vec<u8> {
    let mut frame = udp_frame();
    frame[14] = 0x4f;
    frame[17] = 90;
    let options = [1; 40];
    [&frame[..34], &options, &frame[34..]].concat()
}

/// IPv6 with these extension headers, each of eight bytes.
pub fn ipv6(extensions: &[u8]) -> Vec<u8> {
    const UDP: u8 = 17;
    let mut frame = vec![0; 54];
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    frame[14] = 0x60;
    frame[19] = 8 * extensions.len() as u8 + 16;
    frame[20] = extensions.first().copied().unwrap_or(UDP);
    frame[21] = 64;
    frame[22..30].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 7]);
    frame[38..40].copy_from_slice(&[0xfd, 0]);
    for index in 1..=extensions.len() {
        frame.push(extensions.get(index).copied().unwrap_or(UDP));
        frame.extend([0; 7]);
    }
    frame.extend(PORTS);
    frame.extend([0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    frame
}
