//! Whether the certificates that a configuration names can be used. What they hold is judged by who knows TLS; here it is said
//! at the place that names the file. The daemon does not ask: it reads them itself, and again when they change.

use std::path::PathBuf;

use super::{
    error::Report,
    fields::Text,
    raw::{RawApplication, RawListener, RawTls},
};
use crate::policy::application::{Listen, Listener, Tls};

/// Judges the files of a listener.
pub type JudgeCertificates<'j> = &'j dyn Fn(&Tls) -> Result<(), UnusableCertificate>;

/// Files that a listener can't use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableCertificate {
    /// The one that it is about.
    pub path: PathBuf,
    /// Whether it is about the private key in it.
    pub is_key: bool,
    /// What is wrong.
    pub why: String,
    /// Whether it is so for everybody, and not only here and for this user.
    pub is_certain: bool,
}

/// Notes what can't be used.
pub fn check(raw: &RawApplication, listen: &Listen, judge: JudgeCertificates<'_>, report: &mut Report) {
    check_listeners(&raw.grpc, &listen.grpc, judge, report);
    check_listeners(&raw.http, &listen.http, judge, report);
}

fn check_listeners(
    raw: &[RawListener],
    made: &[Listener],
    judge: JudgeCertificates<'_>,
    report: &mut Report,
) {
    // One that is wrong itself has been left out, and then it is not known which is which.
    let pairs = raw.iter().zip(made).filter(|_| raw.len() == made.len());
    for (raw, tls) in pairs.filter_map(|(raw, made)| raw.tls.as_ref().zip(made.tls.as_ref())) {
        if let Err(unusable) = judge(tls) {
            let at = &place(raw, tls, &unusable).at;
            if unusable.is_certain {
                report.error(at, unusable.why);
            } else {
                report.warning(at, unusable.why);
            }
        }
    }
}

/// What names the file.
fn place<'r>(raw: &'r RawTls, tls: &Tls, unusable: &UnusableCertificate) -> &'r Text {
    match &raw.client_ca {
        _ if unusable.path == tls.cert && !unusable.is_key => &raw.cert,
        _ if unusable.is_key => &raw.key,
        Some(client_ca) if tls.client_ca.as_ref() == Some(&unusable.path) => client_ca,
        _ => &raw.key,
    }
}
