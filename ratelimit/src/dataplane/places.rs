//! Where the program belongs, and which interfaces have it: they come, go and change their names.

use std::collections::HashMap;

use aya::programs::Xdp;
use tracing::warn;

use super::{
    Attachment, Error,
    attach::{Target, attach_new, attachments, target},
    netlink::{self, Interface},
    pins::Pins,
};
use crate::policy;

/// Where the program belongs.
#[derive(Debug, Default)]
pub(super) struct Places {
    wanted: Vec<policy::Interface>,
    /// For each name that an interface with the program had its index, as long as it is there: it may have got another
    /// name since.
    known: HashMap<String, Option<u32>>,
    /// What interfaces that refuse the program have answered, so that it is said once.
    refusals: HashMap<String, String>,
}

/// Which interfaces may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// None.
    None,
    /// Those that were there once.
    Known,
    /// All but one.
    Some,
}

impl Places {
    /// Finds interfaces.
    ///
    /// # Errors
    /// One is missing that must not be, or has an XDP program of somebody else.
    pub(super) fn targets(
        &self,
        pins: &Pins,
        wanted: &[policy::Interface],
        missing: Missing,
    ) -> Result<Vec<Target>, Error> {
        let all = netlink::interfaces()?;
        let mut targets = Vec::new();
        let mut first_missing = None;
        for wanted in wanted {
            let name = wanted.name.as_str();
            match self.find(&all, wanted) {
                Some(interface) => targets.push(target(pins, interface, wanted)?),
                None if missing == Missing::Some => {
                    warn!(interface = name, "not there: it gets the program when it comes");
                    first_missing = first_missing.or(Some(name));
                }
                None if missing == Missing::Known && self.known.contains_key(name) => {}
                None => return Err(no_interface(name, &all)),
            }
        }
        match first_missing {
            Some(name) if targets.is_empty() => Err(no_interface(name, &all)),
            _ => Ok(targets),
        }
    }

    fn find<'i>(&self, all: &'i [Interface], wanted: &policy::Interface) -> Option<&'i Interface> {
        let name = wanted.name.as_str();
        let index = self.known.get(name).copied().flatten();
        let by_name = all.iter().find(|interface| interface.name == name);
        by_name.or_else(|| all.iter().find(|interface| Some(interface.index) == index))
    }

    /// Remembers where the program is wanted, and where it is.
    pub(super) fn note(&mut self, wanted: &[policy::Interface], targets: &[Target]) {
        self.wanted = wanted.to_vec();
        self.known.retain(|name, _| wanted.iter().any(|wanted| wanted.name.as_str() == name));
        let places = targets.iter().map(Target::place);
        self.known.extend(places.map(|(name, index)| (name, Some(index))));
    }

    /// How many interfaces lack the program.
    pub(super) fn lacking(&self, attached: &[Attachment]) -> usize {
        self.wanted.len().saturating_sub(attached.len())
    }

    /// Attaches where the program is missing, and forgets interfaces that are gone. What can't be attached is said, and left
    /// for the next time.
    ///
    /// # Errors
    /// The kernel does not say which interfaces there are, or a pin can't be removed.
    pub(super) fn reconcile(&mut self, program: &mut Xdp, pins: &Pins) -> Result<Vec<Attachment>, Error> {
        let all = netlink::interfaces()?;
        let is_gone = |index: u32| all.iter().all(|interface| interface.index != index);
        for index in pins.linked()? {
            if is_gone(index) {
                pins.remove_link(index)?;
            }
        }
        // Another interface may get its index.
        for index in self.known.values_mut() {
            *index = index.filter(|index| !is_gone(*index));
        }
        let wanted = std::mem::take(&mut self.wanted);
        let mut attached = Vec::new();
        for wanted in &wanted {
            let Some(interface) = self.find(&all, wanted) else { continue };
            let done = target(pins, interface, wanted).and_then(|target| {
                if !target.is_attached() {
                    attach_new(program, pins, &target)?;
                }
                Ok(target)
            });
            match done {
                Ok(target) => {
                    self.refusals.remove(&interface.name);
                    attached.push(target);
                }
                Err(error) => {
                    let said = error.to_string();
                    if self.refusals.insert(interface.name.clone(), said.clone()).as_ref() != Some(&said) {
                        warn!(interface = interface.name, %error, "not limiting");
                    }
                }
            }
        }
        self.refusals.retain(|name, _| all.iter().any(|interface| interface.name == *name));
        self.note(&wanted, &attached);
        attachments(pins)
    }
}

fn no_interface(name: &str, all: &[Interface]) -> Error {
    let names: Vec<&str> = all.iter().map(|interface| interface.name.as_str()).collect();
    Error::NoInterface { name: name.to_owned(), known: names.join(", ") }
}
