//! Which interfaces lie on which. The kernel gives no program to an interface while one directly above it has one, so
//! lower ones come first; where it is too late for that, this says what to do.

use std::collections::HashMap;

use super::{
    Error,
    attach::{how_to_take_off, program_pinned_at},
    netlink::{Attached, AttachedMode, HostInterface},
    pins::Pins,
};

/// Interfaces on interfaces, counted from the lowest. The kernel allows eight.
const MOST_LEVELS: usize = 8;

/// How many levels of interfaces are below each, by its index.
#[derive(Debug)]
pub(super) struct Heights(HashMap<u32, usize>);

impl Heights {
    pub(super) fn of(all: &[HostInterface]) -> Self {
        let mut heights: HashMap<u32, usize> = HashMap::new();
        // Each turn is right for one more level.
        for _ in 0..MOST_LEVELS {
            for interface in all {
                for (lower, upper) in pairs(interface) {
                    let above = heights.get(&lower).map_or(1, |height| height + 1).min(MOST_LEVELS);
                    let height = heights.entry(upper).or_default();
                    *height = above.max(*height);
                }
            }
        }
        Self(heights)
    }

    pub(super) fn height(&self, interface: &HostInterface) -> usize {
        self.0.get(&interface.index).copied().unwrap_or_default()
    }
}

/// What an interface says of those directly below and above it: as (lower, upper).
fn pairs(interface: &HostInterface) -> impl Iterator<Item = (u32, u32)> {
    let below = interface.below.map(|below| (below, interface.index));
    let above = interface.master.map(|master| (interface.index, master));
    below.into_iter().chain(above)
}

/// Why an interface can't get a program for reason of one above it, if that is so.
pub(super) fn blocked(pins: &Pins, all: &[HostInterface], interface: &HostInterface) -> Option<Error> {
    let is_above = |other: &&HostInterface| {
        interface.master == Some(other.index) || other.below == Some(interface.index)
    };
    let mut above = all.iter().filter(is_above).filter_map(|other| Some((other, other.xdp?)));
    let (upper, attached) = above.next()?;
    let more = above.map(|(other, _)| other.name.as_str()).collect::<Vec<_>>();
    let holder = Pins::holder(upper.index, |pin| program_pinned_at(pin) == Some(attached.program));
    let whose = match &holder {
        Some(instance) => format!("that of instance `{instance}`"),
        None => "somebody else's".to_owned(),
    };
    let above = format!("{} above it has an XDP program, {whose}", upper.name);
    let above =
        if more.is_empty() { above } else { format!("{above} (and so have these: {})", more.join(", ")) };
    let how = advice(pins, interface, upper, attached, holder);
    Some(Error::ProgramAbove { interface: interface.name.clone(), above, how })
}

fn advice(
    pins: &Pins,
    interface: &HostInterface,
    upper: &HostInterface,
    attached: Attached,
    holder: Option<String>,
) -> String {
    let (name, above) = (&interface.name, &upper.name);
    let is_master = interface.master == Some(upper.index);
    if is_master && upper.is_bond && attached.mode == AttachedMode::Native {
        return format!("its program sees the packets of {name}, too: leave {name} out");
    }
    if is_master {
        return format!(
            "let {name} get it between `ip link set dev {name} nomaster` and `ip link set dev {name} master {above}`"
        );
    }
    match holder {
        Some(instance) if instance == pins.instance().as_str() => {
            format!("`ratelimit detach --instance {instance}` and a new start put it on the lower one first")
        }
        Some(instance) => format!(
            "`ratelimit detach --instance {instance}` takes that off; start this instance first and then the other one"
        ),
        None => how_to_take_off(upper, attached),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, below: Option<u32>, master: Option<u32>) -> HostInterface {
        let name = format!("i{index}");
        HostInterface { index, name, below, master, ..HostInterface::default() }
    }

    #[test]
    fn an_interface_is_higher_than_all_below_it() {
        // A VLAN of a bond of two, in a bridge with another port; and a pair that calls each other below.
        let all = [
            interface(1, None, Some(7)),
            interface(2, Some(3), None),
            interface(3, None, None),
            interface(4, None, Some(3)),
            interface(5, None, Some(3)),
            interface(6, Some(3), Some(7)),
            interface(7, None, None),
            interface(8, Some(9), None),
            interface(9, Some(8), None),
        ];
        let heights = Heights::of(&all);
        let found: Vec<usize> = all.iter().map(|interface| heights.height(interface)).collect();
        assert_eq!(found[..7], [0, 2, 1, 0, 0, 2, 3]);
        assert!(found[7..].iter().all(|height| *height <= MOST_LEVELS));
    }
}
