//! Putting a generation on interfaces: new ones are attached, known ones switched in one step, others let go.

use std::{io, path::Path};

use aya::programs::{
    ProgramError, XdpMode,
    links::{FdLink, LinkError, LinkInfo, PinnedLink},
    loaded_links, loaded_programs,
    xdp::XdpLink,
};
use serde::{Deserialize, Serialize};
use tracing::{debug, error, info, warn};

use super::{
    Error, ProgramGeneration,
    kind::InterfaceKind,
    netlink::{self, Attached, AttachedMode},
    pins::{Pins, io_error},
    stack,
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
    pub mode: AttachedMode,
}

/// An interface of the policy, found.
#[derive(Debug)]
pub(super) struct AttachTarget {
    /// Its name in the policy.
    wanted: String,
    interface: netlink::HostInterface,
    mode: policy::AttachMode,
    /// The program of this instance's pinned link, if there is one.
    linked: Option<u32>,
    /// Whether it has lacked the program before, so that it may go on without.
    pub may_lack: bool,
}

/// What came of putting a generation on interfaces.
#[derive(Debug)]
pub(super) struct AttachOutcome {
    pub attachments: Vec<Attachment>,
    /// Those that still lack it, and why: places among the targets.
    pub refused: Vec<(usize, Error)>,
}

/// An interface that is wanted.
///
/// # Errors
/// It has an XDP program of somebody else, or what it hands over can't be read.
pub(super) fn target(
    pins: &Pins,
    interface: &netlink::HostInterface,
    wanted: &policy::Interface,
) -> Result<AttachTarget, Error> {
    // Whether it can be, before anything changes.
    InterfaceKind::of(interface, AttachedMode::Native)?;
    let linked = linked_program(pins, interface.index)?;
    match interface.xdp {
        Some(attached) if linked != Some(attached.program) => Err(taken(interface, attached)),
        _ => Ok(AttachTarget {
            wanted: wanted.name.as_str().to_owned(),
            interface: interface.clone(),
            mode: wanted.mode,
            linked,
            may_lack: false,
        }),
    }
}

/// Why an interface that is there lacks the program, as far as the kernel tells.
pub(super) fn obstacle(
    pins: &Pins,
    all: &[netlink::HostInterface],
    interface: &netlink::HostInterface,
) -> Option<Error> {
    let foreign = interface.xdp.map(|attached| taken(interface, attached));
    foreign.or_else(|| stack::blocked(pins, all, interface))
}

/// Why an interface with somebody else's program can't be used, and how it could.
fn taken(interface: &netlink::HostInterface, attached: Attached) -> Error {
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

pub(super) fn how_to_take_off(interface: &netlink::HostInterface, attached: Attached) -> String {
    // Without CAP_SYS_ADMIN it can't be known.
    let links = loaded_links().collect::<Result<Vec<LinkInfo>, _>>().ok();
    let has_link = links.map(|links| links.iter().any(|link| link.program_id() == attached.program));
    let kind = match attached.mode {
        AttachedMode::Generic => "xdpgeneric",
        AttachedMode::Hardware => "xdpoffload",
        AttachedMode::Native => "xdpdrv",
    };
    let command = format!("`ip link set dev {} {kind} off`", interface.name);
    match has_link {
        Some(false) => format!("{command} takes it off"),
        Some(true) => {
            "a link holds it there, until the program that attached it lets go (`bpftool link show` lists links)"
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

pub(super) fn program_pinned_at(pin: &Path) -> Option<u32> {
    Some(FdLink::from(PinnedLink::from_pin(pin).ok()?).info().ok()?.program_id())
}

fn program_name(id: u32) -> String {
    let programs = loaded_programs().filter_map(Result::ok);
    let found = programs.into_iter().find(|program| program.id() == id);
    found.and_then(|program| program.name_as_str().map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned())
}

/// Puts the programs of `new` on the targets and takes it off all other interfaces. If one refuses, all get back the
/// program of `old`, as they had it, and the error is returned. One that goes away meanwhile is none that refuses, if
/// there is an `old`; nor is one that has lacked the program before. The targets are sorted, lower ones first.
pub(super) fn attach(
    generation: &mut ProgramGeneration,
    pins: &Pins,
    targets: &[AttachTarget],
    old: Option<&mut ProgramGeneration>,
) -> Result<AttachOutcome, Error> {
    let (known, new): (Vec<_>, Vec<_>) = targets.iter().partition(|target| target.can_switch());
    let may_be_gone = old.is_some();
    let (mut attached, mut switched, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    // New ones first: these can fail, and the old generation goes on meanwhile.
    let done = new.into_iter().try_for_each(|target| {
        if target.is_attached() {
            // What it has could not be put back either.
            target.check_above(pins)?;
        }
        attached.push(target);
        match attach_new(generation, pins, target) {
            Err(error) if target.may_lack => {
                refused
                    .extend(targets.iter().position(|one| std::ptr::eq(one, target)).map(|at| (at, error)));
                Ok(())
            }
            done => done.or_else(|error| target.unless_gone(may_be_gone, error)),
        }
    });
    // At a start there must be one to limit.
    let has_none = !may_be_gone && refused.len() == targets.len();
    let done = done.and_then(|()| match refused.pop_if(|_| has_none) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    });
    let done = done.and_then(|()| {
        known.into_iter().try_for_each(|target| {
            switched.push(target);
            switch(generation, pins, target).or_else(|error| target.unless_gone(may_be_gone, error))
        })
    });
    if let Err(error) = done {
        restore(pins, &attached, &switched, old);
        return Err(error);
    }
    detach_others(pins, targets)?;
    Ok(AttachOutcome { attachments: attachments(pins)?, refused })
}

/// Puts the old program back where it was, as far as that can be.
fn restore(
    pins: &Pins,
    attached: &[&AttachTarget],
    switched: &[&AttachTarget],
    old: Option<&mut ProgramGeneration>,
) {
    let log = |target: &AttachTarget, done: Result<(), Error>| {
        if let Err(error) = done {
            error!(interface = target.interface.name, %error, "can't be put back as it was");
        }
    };
    for target in attached {
        log(target, pins.remove_link(target.interface.index));
    }
    let Some(old) = old else { return };
    for target in switched {
        log(target, switch(old, pins, target));
    }
    for target in attached.iter().filter(|target| target.is_attached()) {
        let put_back = try_mode(old, pins, target, target.mode_now());
        log(target, put_back.and_then(|link| pin(link, pins, target)));
    }
}

/// Takes the program off interfaces that are not among the targets.
fn detach_others(pins: &Pins, targets: &[AttachTarget]) -> Result<(), Error> {
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

impl AttachTarget {
    /// Its name in the policy, and the index of the interface.
    pub(super) fn place(&self) -> (String, u32) {
        (self.wanted.clone(), self.interface.index)
    }

    /// # Errors
    /// An interface above it has a program.
    fn check_above(&self, pins: &Pins) -> Result<(), Error> {
        let all = netlink::interfaces()?;
        let now = all.iter().find(|interface| interface.index == self.interface.index);
        now.and_then(|now| stack::blocked(pins, &all, now)).map_or(Ok(()), Err)
    }

    /// Its name in the kernel.
    pub(super) fn name(&self) -> &str {
        &self.interface.name
    }

    /// Takes no notice of an error if the interface has gone away.
    fn unless_gone(&self, may_be_gone: bool, error: Error) -> Result<(), Error> {
        let is_gone =
            || netlink::interfaces().is_ok_and(|all| all.iter().all(|now| now.index != self.interface.index));
        if may_be_gone && is_gone() {
            warn!(interface = self.interface.name, "gone: it will be limited when it comes back");
            return Ok(());
        }
        Err(error)
    }

    pub(super) fn is_attached(&self) -> bool {
        self.interface.xdp.is_some_and(|attached| self.linked == Some(attached.program))
    }

    /// Whether it has the program of a generation that is for its kind, which may have changed.
    pub(super) fn has(&self, generation: &ProgramGeneration) -> bool {
        let kind = InterfaceKind::of(&self.interface, self.mode_now());
        self.linked.zip(kind.ok()).is_some_and(|(program, kind)| generation.is_for(program, kind))
    }

    /// The mode in which the program is attached.
    fn mode_now(&self) -> AttachedMode {
        self.interface.xdp.map_or(AttachedMode::Native, |attached| attached.mode)
    }

    /// The kind that it is, as it is attached or will be tried first.
    pub(super) fn kind(&self) -> Result<InterfaceKind, Error> {
        let mode = match self.mode {
            _ if self.can_switch() => self.mode_now(),
            policy::AttachMode::Generic => AttachedMode::Generic,
            policy::AttachMode::Auto | policy::AttachMode::Native => AttachedMode::Native,
        };
        InterfaceKind::of(&self.interface, mode)
    }

    /// Whether its link can go on with another program.
    fn can_switch(&self) -> bool {
        let (Some(linked), Some(attached)) = (self.linked, self.interface.xdp) else { return false };
        linked == attached.program
            && match self.mode {
                policy::AttachMode::Auto => true,
                policy::AttachMode::Native => attached.mode == AttachedMode::Native,
                policy::AttachMode::Generic => attached.mode == AttachedMode::Generic,
            }
    }

    fn failed(&self, mode: AttachedMode, source: io::Error) -> Error {
        Error::Attach { interface: self.interface.name.clone(), mode, source }
    }
}

/// Gives an interface that has a program that of a generation.
pub(super) fn switch(
    generation: &mut ProgramGeneration,
    pins: &Pins,
    target: &AttachTarget,
) -> Result<(), Error> {
    let program = generation.program(InterfaceKind::of(&target.interface, target.mode_now())?)?;
    let failed = |error: &dyn std::error::Error| {
        target.failed(AttachedMode::Native, io::Error::other(error.to_string()))
    };
    let pinned = PinnedLink::from_pin(pins.link(target.interface.index)).map_err(|error| failed(&error))?;
    let link = XdpLink::try_from(FdLink::from(pinned)).map_err(|error| failed(&error))?;
    let id = program.attach_to_link(link).map_err(|error| failed(&error))?;
    drop(program.take_link(id).map_err(|error| failed(&error))?);
    debug!(interface = target.interface.name, "switched");
    Ok(())
}

/// Attaches where the program is not, or not as it should be.
pub(super) fn attach_new(
    generation: &mut ProgramGeneration,
    pins: &Pins,
    target: &AttachTarget,
) -> Result<(), Error> {
    // A link in another mode, or one whose interface went away.
    pins.remove_link(target.interface.index)?;
    let (link, mode) = match target.mode {
        policy::AttachMode::Native => {
            (try_mode(generation, pins, target, AttachedMode::Native)?, AttachedMode::Native)
        }
        policy::AttachMode::Generic => {
            (try_mode(generation, pins, target, AttachedMode::Generic)?, AttachedMode::Generic)
        }
        policy::AttachMode::Auto => native_else_generic(generation, pins, target)?,
    };
    pin(link, pins, target)?;
    info!(interface = target.interface.name, mode = mode.name(), "attached");
    Ok(())
}

fn pin(link: XdpLink, pins: &Pins, target: &AttachTarget) -> Result<(), Error> {
    let link: FdLink = link.try_into().map_err(|error: LinkError| Error::load(&error))?;
    let path = pins.link(target.interface.index);
    link.pin(&path).map(drop).map_err(|error| Error::file(path, io::Error::other(error.to_string())))
}

fn native_else_generic(
    generation: &mut ProgramGeneration,
    pins: &Pins,
    target: &AttachTarget,
) -> Result<(XdpLink, AttachedMode), Error> {
    match try_mode(generation, pins, target, AttachedMode::Native) {
        Ok(link) => Ok((link, AttachedMode::Native)),
        Err(Error::Attach { interface, source, .. }) => {
            let link = try_mode(generation, pins, target, AttachedMode::Generic)?;
            warn!(interface, reason = %source, "the driver has no native XDP: attached in generic mode, which is slower");
            Ok((link, AttachedMode::Generic))
        }
        Err(other) => Err(other),
    }
}

fn try_mode(
    generation: &mut ProgramGeneration,
    pins: &Pins,
    target: &AttachTarget,
    mode: AttachedMode,
) -> Result<XdpLink, Error> {
    let program = generation.program(InterfaceKind::of(&target.interface, mode)?)?;
    let flag = if mode == AttachedMode::Generic { XdpMode::Skb } else { XdpMode::Driver };
    let error = match program.attach_to_if_index(target.interface.index, flag) {
        Ok(id) => return program.take_link(id).map_err(|error| Error::load(&error)),
        Err(ProgramError::SyscallError(error)) => error.io_error,
        Err(error) => io::Error::other(error.to_string()),
    };
    if error.kind() == io::ErrorKind::AlreadyExists {
        target.check_above(pins)?;
    }
    Err(target.failed(mode, error))
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
