//! Putting a generation on interfaces: new ones are attached, known ones switched in one step, others let go.

use std::{io, path::Path};

use aya::programs::{
    ProgramError, Xdp, XdpMode,
    links::{FdLink, LinkError, LinkInfo, PinnedLink},
    loaded_links, loaded_programs,
    xdp::{XdpLink, XdpLinkId},
};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::{
    Error,
    netlink::{self, Attached, Mode},
    pins::Pins,
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
    interface: netlink::Interface,
    mode: policy::Mode,
    /// The program of this instance's pinned link, if there is one.
    linked: Option<u32>,
}

/// Finds the policy's interfaces.
///
/// # Errors
/// One does not exist, or has an XDP program of somebody else.
pub(super) fn targets(pins: &Pins, wanted: &[policy::Interface]) -> Result<Vec<Target>, Error> {
    let all = netlink::interfaces()?;
    wanted.iter().map(|wanted| target(pins, &all, wanted)).collect()
}

fn target(pins: &Pins, all: &[netlink::Interface], wanted: &policy::Interface) -> Result<Target, Error> {
    let name = wanted.name.as_str();
    let Some(interface) = all.iter().find(|interface| interface.name == name) else {
        let names: Vec<&str> = all.iter().map(|interface| interface.name.as_str()).collect();
        return Err(Error::NoInterface { name: name.to_owned(), known: names.join(", ") });
    };
    let linked = linked_program(pins, interface.index);
    match interface.xdp {
        Some(attached) if linked != Some(attached.program) => Err(taken(interface, attached)),
        _ => Ok(Target { interface: interface.clone(), mode: wanted.mode, linked }),
    }
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
fn linked_program(pins: &Pins, index: u32) -> Option<u32> {
    program_pinned_at(&pins.link(index))
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
/// again, and the error is returned.
pub(super) fn attach(program: &mut Xdp, pins: &Pins, targets: &[Target]) -> Result<Vec<Attachment>, Error> {
    let (known, new): (Vec<_>, Vec<_>) = targets.iter().partition(|target| target.can_switch());
    let mut attached = Vec::new();
    // New ones first: these can fail, and the old generation goes on meanwhile.
    for target in new {
        if let Err(error) = attach_new(program, pins, target) {
            for index in attached {
                pins.remove_link(index)?;
            }
            return Err(error);
        }
        attached.push(target.interface.index);
    }
    for target in known {
        switch(program, pins, target)?;
    }
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
    attachments(pins)
}

impl Target {
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
    info!(interface = target.interface.name, "adopted");
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
        if linked_program(pins, interface.index) == Some(attached.program) {
            found.push(Attachment { interface: interface.name, index: interface.index, mode: attached.mode });
        }
    }
    Ok(found)
}
