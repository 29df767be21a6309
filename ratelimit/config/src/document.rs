//! A file as the tree of its YAML, for the readers of all kinds of files. A Kubernetes resource is recognised: what is
//! wanted is inside it.

use std::path::Path;

use super::{
    error::{Report, quoted},
    fields::Field,
    source,
    tree::{self, YamlNode},
};

/// Reads a file; what is wrong with it goes to `report`.
pub fn read(file: &Path, report: &mut Report) -> Option<YamlNode> {
    let tree = source::read(file, report).and_then(|text| tree::parse(&text, report))?;
    refuse_resource(&Field::root(&tree), report)?;
    Some(tree)
}

/// No file of ours has these two keys, and every resource has.
fn refuse_resource(root: &Field<'_>, report: &mut Report) -> Option<()> {
    let value =
        |key: &str| root.entries().into_iter().find(|(name, _)| name.text == key).map(|(_, value)| value);
    let (Some(_), Some(kind)) = (value("apiVersion"), value("kind")) else { return Some(()) };
    let kind = quoted(kind.scalar().unwrap_or_default());
    let (at, inside) = ["data", "spec"]
        .into_iter()
        .find_map(|key| Some((root.key_at(key)?, key)))
        .unwrap_or_else(|| (root.at().clone(), "data"));
    let files = value(inside).map(|inside| inside.entries()).unwrap_or_default();
    let which = match &files[..] {
        [(file, _)] if inside == "data" => format!("`data`, key {},", quoted(&file.text)),
        _ => format!("`{inside}`"),
    };
    report.error(
        &at,
        format!("this is a Kubernetes resource ({kind}), not the file inside it: take what is under {which} as a file"),
    );
    None
}
