//! Where the program belongs, and which interfaces have it: they come, go and change their names.

use std::collections::HashMap;

use tracing::warn;

use super::{
    Attachment, Error, ProgramGeneration,
    attach::{AttachTarget, attach_new, attachments, switch, target},
    netlink::{self, HostInterface},
    pins::Pins,
    stack::Heights,
};
use crate::policy;

/// Where the program belongs.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    wanted: Vec<policy::Interface>,
    /// For each name that an interface with the program had its index, as long as it is there: it may have got another
    /// name since.
    known: HashMap<String, Option<u32>>,
    /// What interfaces that refuse the program have answered, so that it is said once.
    refusals: HashMap<String, String>,
}

/// Which interfaces may lack the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing<'m> {
    /// None.
    None,
    /// Those for which nothing changes.
    Known,
    /// All but one may be gone, and those that these notes of a daemon before name may refuse it.
    Some(&'m [String]),
}

impl Coverage {
    /// Finds interfaces; lower ones come first.
    ///
    /// # Errors
    /// One is missing that must not be, or has an XDP program of somebody else.
    pub(super) fn targets(
        &mut self,
        pins: &Pins,
        wanted: &[policy::Interface],
        missing: Missing<'_>,
    ) -> Result<Vec<AttachTarget>, Error> {
        let all = netlink::interfaces()?;
        let mut targets = Vec::new();
        let mut first_error = None;
        for (wanted, interface) in self.lower_first(&all, wanted) {
            let name = wanted.name.as_str();
            let error = match interface {
                Some(interface) => match target(pins, interface, wanted) {
                    Ok(mut target) => {
                        target.may_lack = !target.is_attached() && self.may_refuse(wanted, missing);
                        targets.push(target);
                        continue;
                    }
                    Err(error) if self.may_refuse(wanted, missing) => {
                        self.note_refusal(&interface.name, &error);
                        error
                    }
                    Err(error) => return Err(error),
                },
                None if self.may_be_gone(name, missing) => no_interface(name, &all),
                None => return Err(no_interface(name, &all)),
            };
            first_error.get_or_insert(error);
        }
        match (first_error, missing) {
            (Some(error), Missing::Some(_)) if targets.is_empty() => Err(error),
            _ => Ok(targets),
        }
    }

    fn may_be_gone(&self, name: &str, missing: Missing<'_>) -> bool {
        match missing {
            Missing::None => false,
            Missing::Known => self.wanted.iter().any(|known| known.name.as_str() == name),
            Missing::Some(_) => {
                warn!(interface = name, "not there: it will be limited when it comes");
                true
            }
        }
    }

    fn may_refuse(&self, wanted: &policy::Interface, missing: Missing<'_>) -> bool {
        match missing {
            Missing::None => false,
            Missing::Known => self.wanted.contains(wanted),
            Missing::Some(noted) => noted.iter().any(|name| name == wanted.name.as_str()),
        }
    }

    /// The wanted interfaces, with those that are there, in the order in which the kernel takes them.
    fn lower_first<'i>(
        &self,
        all: &'i [HostInterface],
        wanted: &'i [policy::Interface],
    ) -> Vec<(&'i policy::Interface, Option<&'i HostInterface>)> {
        let heights = Heights::of(all);
        let mut found: Vec<_> = wanted.iter().map(|wanted| (wanted, self.find(all, wanted))).collect();
        found.sort_by_key(|(_, interface)| interface.map(|interface| heights.height(interface)));
        found
    }

    fn find<'i>(&self, all: &'i [HostInterface], wanted: &policy::Interface) -> Option<&'i HostInterface> {
        let name = wanted.name.as_str();
        let index = self.known.get(name).copied().flatten();
        let by_name = all.iter().find(|interface| interface.name == name);
        by_name.or_else(|| all.iter().find(|interface| Some(interface.index) == index))
    }

    /// Remembers where the program is wanted, and where it is.
    pub(super) fn note<'t>(
        &mut self,
        wanted: &[policy::Interface],
        targets: impl IntoIterator<Item = &'t AttachTarget>,
    ) {
        self.wanted = wanted.to_vec();
        self.known.retain(|name, _| wanted.iter().any(|wanted| wanted.name.as_str() == name));
        for target in targets {
            let (name, index) = target.place();
            self.known.insert(name, Some(index));
            self.refusals.remove(target.name());
        }
    }

    /// Says why an interface has not got the program, unless that has been said.
    pub(super) fn note_refusal(&mut self, interface: &str, error: &Error) {
        let said = error.to_string();
        if self.refusals.insert(interface.to_owned(), said.clone()).as_ref() != Some(&said) {
            warn!(interface, %error, "not limiting");
        }
    }

    /// How many interfaces lack the program.
    pub(super) fn lacking(&self, attached: &[Attachment]) -> usize {
        self.wanted.len().saturating_sub(attached.len())
    }

    /// Attaches where the program is missing, and forgets interfaces that are gone. What can't be attached is said, and
    /// left for the next time.
    ///
    /// # Errors
    /// The kernel does not say which interfaces there are, or a pin can't be removed.
    pub(super) fn reconcile(
        &mut self,
        generation: &mut ProgramGeneration,
        pins: &Pins,
    ) -> Result<Vec<Attachment>, Error> {
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
        for (wanted, interface) in self.lower_first(&all, &wanted) {
            let Some(interface) = interface else { continue };
            let done = target(pins, interface, wanted).and_then(|target| {
                if !target.is_attached() {
                    attach_new(generation, pins, &target)?;
                } else if !target.has(generation) {
                    switch(generation, pins, &target)?;
                }
                Ok(target)
            });
            match done {
                Ok(target) => attached.push(target),
                Err(error) => self.note_refusal(&interface.name, &error),
            }
        }
        self.refusals.retain(|name, _| all.iter().any(|interface| interface.name == *name));
        self.note(&wanted, &attached);
        let now = attachments(pins)?;
        // One may have gone since, and is told of as gone, so that another may get its index.
        for index in self.known.values_mut() {
            *index = index.filter(|index| now.iter().any(|attachment| attachment.index == *index));
        }
        Ok(now)
    }
}

/// Whether there is an interface of this name here.
///
/// # Errors
/// There is none, or the kernel does not tell.
pub fn check_interface(name: &str) -> Result<(), Error> {
    let all = netlink::interfaces()?;
    let is_there = all.iter().any(|interface| interface.name == name);
    if is_there { Ok(()) } else { Err(no_interface(name, &all)) }
}

fn no_interface(name: &str, all: &[HostInterface]) -> Error {
    let names: Vec<&str> = all.iter().map(|interface| interface.name.as_str()).collect();
    Error::NoInterface { name: name.to_owned(), known: names.join(", ") }
}
