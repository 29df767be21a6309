//! The shape of a rule's `ban`.

use crate::{
    error::Report,
    fields::{Field, LocatedText, Mapping},
    keys,
};

/// `ban`
#[derive(Debug)]
pub struct RawBan {
    /// `after`
    pub after: LocatedText,
    /// `within`
    pub within: LocatedText,
    /// `for`
    pub length: LocatedText,
    /// `factor`
    pub factor: Option<LocatedText>,
    /// `up_to`
    pub up_to: Option<LocatedText>,
    /// `forget`
    pub forget: Option<LocatedText>,
}

/// Reads that of a rule on packets.
pub fn read(field: &Field<'_>, report: &mut Report) -> Option<RawBan> {
    read_ban(&field.mapping(&keys::names("network.rules[].ban"), report)?, report)
}

/// Reads what bans of both layers have.
pub fn read_ban(ban: &Mapping<'_>, report: &mut Report) -> Option<RawBan> {
    let after = ban.required_text("after", "100", report);
    let within = ban.required_text("within", "10s", report);
    let length = ban.required_text("for", "10m", report);
    let [factor, up_to, forget] = ["factor", "up_to", "forget"].map(|key| ban.text(key, report));
    Some(RawBan { after: after?, within: within?, length: length?, factor, up_to, forget })
}
