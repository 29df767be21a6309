//! What of a packet makes the key of its bucket.

use crate::{
    packet::Ports,
    table::{Key, Keyed, Secret},
};

/// What of a packet of one IP version makes a rule's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KeyMask {
    /// The bits of the source address that count.
    pub source: [u64; 2],
    /// The bits of the destination address that count.
    pub destination: [u64; 2],
    /// The bits that count of ports and protocol: see [`Ports`].
    pub ports: u64,
    /// What all its keys have in common: the tag, with the address family unless both share buckets.
    pub keyed: Keyed,
    /// 1 if all of that does not fit 64 bits, and is hashed.
    pub is_hashed: u32,
    /// Else by how much the destination's first bits are shifted to lie behind the source's.
    pub shift: u32,
}

impl KeyMask {
    /// The key of what a packet is from, where it goes to, and its ports.
    #[must_use]
    #[inline(always)]
    pub const fn key(&self, secret: &Secret, source: [u64; 2], destination: [u64; 2], ports: Ports) -> Key {
        secret.key_under(&self.keyed, self.identity(secret, source, destination, ports))
    }

    /// What of a packet makes the key, as one number. Different keys have different numbers if they fit 64 bits.
    #[must_use]
    #[inline(always)]
    pub const fn identity(
        &self,
        secret: &Secret,
        source: [u64; 2],
        destination: [u64; 2],
        ports: Ports,
    ) -> u64 {
        let source = [source[0] & self.source[0], source[1] & self.source[1]];
        let destination = [destination[0] & self.destination[0], destination[1] & self.destination[1]];
        if self.is_hashed == 0 {
            return source[0] | destination[0] >> (self.shift & 63);
        }
        let source = secret.fold(source[0], source[1]);
        let destination = secret.fold(source ^ destination[0], destination[1]);
        secret.fold(destination, ports.0 & self.ports)
    }
}
