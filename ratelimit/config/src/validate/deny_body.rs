//! The operator's own body of denied requests.

use std::path::Path;

use super::application::path;
use crate::{error::Report, fields::LocatedText, policy::application::DenyBody, source};

/// Reads the file that is named.
pub fn validate(named: &LocatedText, directory: &Path, report: &mut Report) -> Option<DenyBody> {
    let file = path(named, directory, report)?;
    let ending = file.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let known = DenyBody::CONTENT_TYPES.iter().find(|(known, _)| ending.as_deref() == Some(known));
    let Some((_, content_type)) = known else {
        let accepted = DenyBody::CONTENT_TYPES.map(|(ending, _)| format!(".{ending}")).join(", ");
        report.error(&named.at, format!("its name does not tell what it is; accepted endings: {accepted}"));
        return None;
    };
    match source::read_text(&file, DenyBody::MOST_BYTES) {
        Ok(text) => Some(DenyBody { file, content_type, bytes: text.into_bytes().into() }),
        Err(refused) => {
            report.error(&named.at, format!("{}: {refused}", file.display()));
            None
        }
    }
}
