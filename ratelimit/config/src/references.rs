//! Whether the files, sockets and interfaces that a configuration names can be used. That is judged by who uses them;
//! here it is said at the place that names them. The daemon does not ask: it uses them, and looks at certificates again
//! when they change.

use std::path::{Path, PathBuf};

use super::{
    error::Report,
    fields::LocatedText,
    raw::{RawConfig, RawListener, RawTls},
};
use crate::policy::{
    Interface, Policy,
    application::{ListenAddress, ListenerSettings, StoreSettings, Tls},
};

/// What a configuration names.
#[derive(Clone, Copy, Debug)]
pub enum Reference<'p> {
    /// The certificate, the key and the authority of a listener.
    Certificates(&'p Tls),
    /// Where counts are saved, if they are.
    State(&'p StoreSettings),
    /// The control socket, which the daemon is to make.
    Control(&'p Path),
    /// Where a listener is to be.
    Listener(&'p ListenAddress),
    /// What the program is to be attached to.
    Interface(&'p Interface),
}

/// Judges what a configuration names.
pub type ReferenceCheck<'j> = &'j dyn Fn(Reference<'_>) -> Result<(), Unusable>;

/// What can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The file that it is about.
    pub path: PathBuf,
    /// Whether it is about the private key in it.
    pub is_key: bool,
    /// What is wrong.
    pub why: String,
    /// Whether it is so for everybody, and not only here and for this user.
    pub is_certain: bool,
}

/// Notes what can't be used.
pub fn check(raw: &RawConfig, policy: &Policy, judge: ReferenceCheck<'_>, report: &mut Report) {
    if let Some((text, path)) = raw.control.as_ref().zip(policy.control.as_ref()) {
        note(judge(Reference::Control(path)), |_| text, report);
    }
    if let Some((raw, network)) = raw.network.as_ref().zip(policy.network.as_ref()) {
        for (raw, interface) in raw.interfaces.iter().zip(&network.interfaces) {
            note(judge(Reference::Interface(interface)), |_| &raw.name, report);
        }
    }
    let Some((raw, application)) = raw.application.as_ref().zip(policy.application.as_ref()) else { return };
    if let Some(text) = raw.store.state_file.as_ref() {
        note(judge(Reference::State(&application.store)), |_| text, report);
    }
    let (raw, made): (Vec<_>, Vec<_>) = (raw.listeners().collect(), application.listeners().collect());
    check_listeners(&raw, &made, judge, report);
}

fn check_listeners(
    raw: &[&RawListener],
    made: &[&ListenerSettings],
    judge: ReferenceCheck<'_>,
    report: &mut Report,
) {
    // One that is wrong itself has been left out, and then it is not known which is which.
    let pairs = raw.iter().zip(made).filter(|_| raw.len() == made.len());
    for (raw, made) in pairs {
        note(judge(Reference::Listener(&made.address)), |_| &raw.address, report);
        if let Some((raw, tls)) = raw.tls.as_ref().zip(made.tls.as_ref()) {
            note(judge(Reference::Certificates(tls)), |unusable| place(raw, tls, unusable), report);
        }
    }
}

fn note<'r>(
    judged: Result<(), Unusable>,
    place: impl FnOnce(&Unusable) -> &'r LocatedText,
    report: &mut Report,
) {
    let Err(unusable) = judged else { return };
    let at = &place(&unusable).at;
    if unusable.is_certain {
        report.error(at, unusable.why);
    } else {
        report.warning(at, unusable.why);
    }
}

/// What names the file.
fn place<'r>(raw: &'r RawTls, tls: &Tls, unusable: &Unusable) -> &'r LocatedText {
    match &raw.client_ca {
        _ if unusable.path == tls.cert && !unusable.is_key => &raw.cert,
        _ if unusable.is_key => &raw.key,
        Some(client_ca) if tls.client_ca.as_ref() == Some(&unusable.path) => client_ca,
        _ => &raw.key,
    }
}
