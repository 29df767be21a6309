//! Which node of a cluster has which slot, and which slot a key is in.

use std::collections::BTreeMap;

use redis::{Value, from_redis_value};

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// A node's address, as a cluster says it.
pub(super) type Node = (String, u16);

/// Who has which slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SlotMap {
    /// Ranges, first and last, with the master that has them.
    ranges: Vec<(u16, u16, Node)>,
    /// Slots that have moved since.
    moved: BTreeMap<u16, Node>,
}

impl SlotMap {
    /// Reads this host's answer to `CLUSTER SLOTS`; `None` if it is no such answer.
    pub(super) fn parse(answer: Value, from: &str) -> Option<Self> {
        let ranges: Vec<Vec<Value>> = from_redis_value(answer).ok()?;
        let range = |range: Vec<Value>| {
            let mut parts = range.into_iter();
            let (first, last) = (number(parts.next()?)?, number(parts.next()?)?);
            let Value::Array(master) = parts.next()? else { return None };
            let mut master = master.into_iter();
            // A node that does not know its own name is found where it was asked.
            let host: Option<String> = from_redis_value(master.next()?).ok()?;
            let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| from.to_owned());
            (first <= last && last < SLOTS).then_some((first, last, (host, number(master.next()?)?)))
        };
        let mut ranges = ranges.into_iter().map(range).collect::<Option<Vec<_>>>()?;
        ranges.sort_unstable();
        Some(Self { ranges, moved: BTreeMap::new() })
    }

    /// The node that has it, if one is known.
    pub(super) fn node(&self, slot: u16) -> Option<&Node> {
        if let Some(node) = self.moved.get(&slot) {
            return Some(node);
        }
        let after = self.ranges.partition_point(|(first, ..)| *first <= slot);
        let (_, last, node) = self.ranges.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(node)
    }

    /// A slot has moved.
    pub(super) fn set(&mut self, slot: u16, node: &Node) {
        self.moved.insert(slot, node.clone());
    }

    /// All nodes that have slots.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.ranges.iter().map(|(.., node)| node).chain(self.moved.values())
    }

    /// Whether each slot has a node.
    pub(super) fn is_complete(&self) -> bool {
        let count: u32 = self.ranges.iter().map(|(first, last, _)| u32::from(last - first) + 1).sum();
        count >= u32::from(SLOTS)
    }
}

fn number(value: Value) -> Option<u16> {
    from_redis_value(value).ok()
}

/// An address in a redirect: `host:port`, where the host of the node that says it may be left out.
pub(super) fn parse_node(text: &str, from: &str) -> Option<Node> {
    let (host, port) = text.rsplit_once(':')?;
    let host = if host.is_empty() || host == "?" { from } else { host };
    Some((host.to_owned(), port.parse().ok()?))
}

/// The slot of a key: of what is between its first braces, if there is something.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let open = key.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| {
        let rest = key.get(open + 1..)?;
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, as clusters use it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let crc = crc ^ u16::from(*byte) << 8;
        (0..8).fold(crc, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    //! Slots as Redis's documentation has them, and answers as nodes give them.

    use super::*;

    #[test]
    fn slots_are_those_of_the_hash_tag() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"rl{foo}1:bar}"), 12_182);
        assert_eq!(slot_of(b"{foo"), crc16(b"{foo") % SLOTS);
        assert_eq!(slot_of(b"{}foo"), crc16(b"{}foo") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
    }

    fn parse(text: &str) -> Option<SlotMap> {
        SlotMap::parse(redis::parse_redis_value(text.replace(' ', "\r\n").as_bytes()).unwrap(), "10.0.0.9")
    }

    #[test]
    fn answers_become_a_map() {
        let map = parse(concat!(
            "*2 *3 :5461 :16383 *3 $-1 :7001 $1 b ",
            "*4 :0 :5460 *4 $8 10.0.0.1 :7000 $1 a *0 *3 $8 10.0.0.2 :7002 $1 c "
        ));
        let map = map.unwrap();
        let (one, two) = (("10.0.0.1".to_owned(), 7000), ("10.0.0.9".to_owned(), 7001));
        for (slot, node) in [(0, &one), (5460, &one), (5461, &two), (16_383, &two)] {
            assert_eq!(map.node(slot), Some(node));
        }
        assert_eq!((map.is_complete(), map.nodes().count()), (true, 2));
        let mut moved = map.clone();
        moved.set(17, &two);
        assert_eq!((moved.node(17), moved.node(18)), (Some(&two), Some(&one)));
        let map = parse("*1 *3 :100 :200 *2 $8 10.0.0.1 :7000 ").unwrap();
        assert_eq!((map.node(99), map.node(201), map.is_complete()), (None, None, false));
        for broken in
            ["+OK ", "*1 *1 :1 ", "*1 *3 :9 :1 *2 $1 a :1 ", "*1 *3 :0 :16384 *2 $1 a :1 ", "*1 *3 :0 :1 :2 "]
        {
            assert_eq!(parse(broken), None, "{broken}");
        }
        assert_eq!(SlotMap::default().node(0), None);
    }

    #[test]
    fn redirects_have_hosts_of_all_kinds() {
        let node = |text| parse_node(text, "here");
        assert_eq!(node("10.0.0.1:7000"), Some(("10.0.0.1".to_owned(), 7000)));
        assert_eq!(node("::1:7000"), Some(("::1".to_owned(), 7000)));
        assert_eq!(node(":7000"), Some(("here".to_owned(), 7000)));
        assert_eq!(node("a.example:7000"), Some(("a.example".to_owned(), 7000)));
        for none in ["", "host", "host:", "host:70000"] {
            assert_eq!(node(none), None, "{none}");
        }
    }
}
