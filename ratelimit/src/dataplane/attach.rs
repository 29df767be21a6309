//! Putting a generation on interfaces: new ones are attached, known ones switched in one step, others let go.

use std::{collections::HashMap, io, path::Path};

use aya::programs::{
    ProgramError, Xdp, XdpMode,
    links::{FdLink, LinkError, LinkInfo, PinnedLink},
    loaded_links, loaded_programs,
    xdp::{XdpLink, XdpLinkId},
};
use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

use super::{
    Error, Generation,
    netlink::{self, Attached, Mode},
    pins::{Pins, io_error},
};
use crate::policy;

/// An interface with the program on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The interface's name.
    pub interface: String,
    /// Its index.
    pub index: u32,
    /// How the program is attached.
    pub mode: Mode,
}

/// An interface of the policy, found.
#[derive(Debug)]
pub(super) struct Target {
    /// Its name in the policy.
    wanted: String,
    interface: netlink::Interface,
    mode: policy::Mode,
    /// The program of this instance's pinned link, if there is one.
    linked: Option<u32>,
}

/// Where the program belongs.
#[derive(Debug, Default)]
pub(super) struct Places {
    wanted: Vec<policy::Interface>,
    /// Indices of interfaces that had the program under a name: they may have got another one since.
    known: HashMap<String, u32>,
}

impl Places {
    /// Finds interfaces. Those that were there once may be gone, if `may_be_gone`.
    ///
    /// # Errors
    /// One does not exist, or has an XDP program of somebody else.
    pub(super) fn targets(
        &self,
        pins: &Pins,
        wanted: &[policy::Interface],
        may_be_gone: bool,
    ) -> Result<Vec<Target>, Error> {
        let all = netlink::interfaces()?;
        let mut targets = Vec::new();
        for wanted in wanted {
            match self.find(&all, wanted) {
                Some(interface) => targets.push(target(pins, interface, wanted)?),
                None if may_be_gone && self.known.contains_key(wanted.name.as_str()) => {}
                None => {
                    let names: Vec<&str> = all.iter().map(|interface| interface.name.as_str()).collect();
                    return Err(Error::NoInterface {
                        name: wanted.name.as_str().to_owned(),
                        known: names.join(", "),
                    });
                }
            }
        }
        Ok(targets)
    }

    fn find<'i>(
        &self,
        all: &'i [netlink::Interface],
        wanted: &policy::Interface,
    ) -> Option<&'i netlink::Interface> {
        let name = wanted.name.as_str();
        let index = self.known.get(name);
        let by_name = all.iter().find(|interface| interface.name == name);
        by_name.or_else(|| all.iter().find(|interface| Some(&interface.index) == index))
    }

    /// Remembers where the program is wanted, and where it is.
    pub(super) fn note(&mut self, wanted: &[policy::Interface], targets: &[Target]) {
        self.wanted = wanted.to_vec();
        self.known.retain(|name, _| wanted.iter().any(|wanted| wanted.name.as_str() == name));
        self.known.extend(targets.iter().map(|target| (target.wanted.clone(), target.interface.index)));
    }
}

fn target(pins: &Pins, interface: &netlink::Interface, wanted: &policy::Interface) -> Result<Target, Error> {
    let linked = linked_program(pins, interface.index)?;
    match interface.xdp {
        Some(attached) if linked != Some(attached.program) => Err(taken(interface, attached)),
        _ => Ok(Target {
            wanted: wanted.name.as_str().to_owned(),
            interface: interface.clone(),
            mode: wanted.mode,
            linked,
        }),
    }
}

/// Attaches where the program is missing, and forgets interfaces that are gone. What can't be attached is said, and left
/// until something changes again.
///
/// # Errors
/// The kernel does not say which interfaces there are, or a pin can't be removed.
pub(super) fn reconcile(
    program: &mut Xdp,
    pins: &Pins,
    places: &mut Places,
) -> Result<Vec<Attachment>, Error> {
    let all = netlink::interfaces()?;
    for index in pins.linked()? {
        if all.iter().all(|interface| interface.index != index) {
            pins.remove_link(index)?;
        }
    }
    let mut attached = Vec::new();
    for wanted in &places.wanted {
        let Some(interface) = places.find(&all, wanted) else { continue };
        let done = target(pins, interface, wanted).and_then(|target| {
            if target.is_attached() {
                Ok(None)
            } else {
                attach_new(program, pins, &target).map(|()| Some(target))
            }
        });
        match done {
            Ok(done) => attached.extend(done),
            Err(error) => warn!(interface = interface.name, %error, "not limiting"),
        }
    }
    let wanted = places.wanted.clone();
    places.note(&wanted, &attached);
    attachments(pins)
}

/// Why an interface with somebody else's program can't be used, and how it could.
fn taken(interface: &netlink::Interface, attached: Attached) -> Error {
    let is_it = |pin: &Path| program_pinned_at(pin) == Some(attached.program);
    if let Some(instance) = Pins::holder(interface.index, is_it) {
        return Error::OtherInstance { interface: interface.name.clone(), instance };
    }
    Error::Foreign {
        interface: interface.name.clone(),
        program: program_name(attached.program),
        id: attached.program,
        how: how_to_take_off(interface, attached),
    }
}

fn how_to_take_off(interface: &netlink::Interface, attached: Attached) -> String {
    // Without CAP_SYS_ADMIN it can't be known.
    let links = loaded_links().collect::<Result<Vec<LinkInfo>, _>>().ok();
    let has_link = links.map(|links| links.iter().any(|link| link.program_id() == attached.program));
    let kind = match attached.mode {
        Mode::Generic => "xdpgeneric",
        Mode::Hardware => "xdpoffload",
        Mode::Native => "xdpdrv",
    };
    let command = format!("`ip link set dev {} {kind} off`", interface.name);
    match has_link {
        Some(false) => format!("{command} takes it off"),
        Some(true) => {
            "a link holds it there, until whoever attached it lets go (`bpftool link show` lists links)"
                .to_owned()
        }
        None => format!("detach it where it came from, or with {command} if no link holds it there"),
    }
}

/// The program of the instance's link on an interface.
fn linked_program(pins: &Pins, index: u32) -> Result<Option<u32>, Error> {
    let pin = pins.link(index);
    match PinnedLink::from_pin(&pin) {
        Ok(link) => Ok(FdLink::from(link).info().ok().map(|info| info.program_id())),
        Err(error) => match io_error(&error) {
            error if error.kind() == io::ErrorKind::NotFound => Ok(None),
            error => Err(Error::file(pin, error)),
        },
    }
}

fn program_pinned_at(pin: &Path) -> Option<u32> {
    Some(FdLink::from(PinnedLink::from_pin(pin).ok()?).info().ok()?.program_id())
}

fn program_name(id: u32) -> String {
    let programs = loaded_programs().filter_map(Result::ok);
    let found = programs.into_iter().find(|program| program.id() == id);
    found.and_then(|program| program.name_as_str().map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned())
}

/// Puts `program` on the targets and takes it off all other interfaces. If one refuses, what was attached here is taken off
/// again, what was switched goes back to `old`, and the error is returned.
pub(super) fn attach(
    program: &mut Xdp,
    pins: &Pins,
    targets: &[Target],
    old: Option<&mut Generation>,
) -> Result<Vec<Attachment>, Error> {
    let (known, new): (Vec<_>, Vec<_>) = targets.iter().partition(|target| target.can_switch());
    let mut attached = Vec::new();
    let mut switched = Vec::new();
    // New ones first: these can fail, and the old generation goes on meanwhile.
    let done = new.into_iter().try_for_each(|target| {
        attach_new(program, pins, target)?;
        attached.push(target.interface.index);
        Ok(())
    });
    let done = done.and_then(|()| {
        known.into_iter().try_for_each(|target| {
            switch(program, pins, target)?;
            switched.push(target);
            Ok(())
        })
    });
    if let Err(error) = done {
        for index in attached {
            pins.remove_link(index)?;
        }
        if let Some(old) = old {
            switched.into_iter().try_for_each(|target| switch(old.program()?, pins, target))?;
        }
        return Err(error);
    }
    detach_others(pins, targets)?;
    attachments(pins)
}

/// Takes the program off interfaces that are not among the targets.
fn detach_others(pins: &Pins, targets: &[Target]) -> Result<(), Error> {
    let attached = attachments(pins)?;
    for index in pins.linked()? {
        if targets.iter().all(|target| target.interface.index != index) {
            pins.remove_link(index)?;
            if let Some(left) = attached.iter().find(|attachment| attachment.index == index) {
                info!(
                    interface = left.interface,
                    reason = "the configuration does not have it any more",
                    "detached"
                );
            }
        }
    }
    Ok(())
}

impl Target {
    fn is_attached(&self) -> bool {
        self.interface.xdp.is_some_and(|attached| self.linked == Some(attached.program))
    }

    /// Whether its link can go on with another program.
    fn can_switch(&self) -> bool {
        let (Some(linked), Some(attached)) = (self.linked, self.interface.xdp) else { return false };
        linked == attached.program
            && match self.mode {
                policy::Mode::Auto => true,
                policy::Mode::Native => attached.mode == Mode::Native,
                policy::Mode::Generic => attached.mode == Mode::Generic,
            }
    }

    fn failed(&self, mode: Mode, source: io::Error) -> Error {
        Error::Attach { interface: self.interface.name.clone(), mode, source }
    }
}

fn switch(program: &mut Xdp, pins: &Pins, target: &Target) -> Result<(), Error> {
    let failed =
        |error: &dyn std::error::Error| target.failed(Mode::Native, io::Error::other(error.to_string()));
    let pinned = PinnedLink::from_pin(pins.link(target.interface.index)).map_err(|error| failed(&error))?;
    let link = XdpLink::try_from(FdLink::from(pinned)).map_err(|error| failed(&error))?;
    let id = program.attach_to_link(link).map_err(|error| failed(&error))?;
    drop(program.take_link(id).map_err(|error| failed(&error))?);
    debug!(interface = target.interface.name, "switched");
    Ok(())
}

fn attach_new(program: &mut Xdp, pins: &Pins, target: &Target) -> Result<(), Error> {
    // A link in another mode, or one whose interface went away.
    pins.remove_link(target.interface.index)?;
    let (id, mode) = match target.mode {
        policy::Mode::Native => (try_mode(program, target, Mode::Native)?, Mode::Native),
        policy::Mode::Generic => (try_mode(program, target, Mode::Generic)?, Mode::Generic),
        policy::Mode::Auto => native_else_generic(program, target)?,
    };
    let link = program.take_link(id).map_err(|error| Error::load(&error))?;
    let link: FdLink = link.try_into().map_err(|error: LinkError| Error::load(&error))?;
    let path = pins.link(target.interface.index);
    link.pin(&path).map_err(|error| Error::file(path, io::Error::other(error.to_string())))?;
    info!(interface = target.interface.name, mode = mode.name(), "attached");
    Ok(())
}

fn native_else_generic(program: &mut Xdp, target: &Target) -> Result<(XdpLinkId, Mode), Error> {
    match try_mode(program, target, Mode::Native) {
        Ok(id) => Ok((id, Mode::Native)),
        Err(Error::Attach { interface, source, .. }) => {
            warn!(interface, reason = %source, "the driver has no native XDP: attaching in generic mode, which is slower");
            Ok((try_mode(program, target, Mode::Generic)?, Mode::Generic))
        }
        Err(other) => Err(other),
    }
}

fn try_mode(program: &mut Xdp, target: &Target, mode: Mode) -> Result<XdpLinkId, Error> {
    let flag = if mode == Mode::Generic { XdpMode::Skb } else { XdpMode::Driver };
    program.attach_to_if_index(target.interface.index, flag).map_err(|error| match error {
        ProgramError::SyscallError(error) => target.failed(mode, error.io_error),
        error => target.failed(mode, io::Error::other(error.to_string())),
    })
}

/// The interfaces that this instance's links are on, by what the kernel says.
pub(super) fn attachments(pins: &Pins) -> Result<Vec<Attachment>, Error> {
    let mut found = Vec::new();
    for interface in netlink::interfaces()? {
        let Some(attached) = interface.xdp else { continue };
        if linked_program(pins, interface.index)? == Some(attached.program) {
            found.push(Attachment { interface: interface.name, index: interface.index, mode: attached.mode });
        }
    }
    Ok(found)
}
