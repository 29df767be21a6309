//! From YAML text to the tree: budgets, aliases, merge keys, tags and duplicate keys.
//!
//! The YAML events come from `granit-parser`. The budgets that keep a small file from growing into a huge tree are
//! set here, since only here aliases are expanded.

use std::collections::{HashMap, HashSet};

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Tag};

use super::{MappingEntry, Scalar, TextPosition, YamlNode, YamlValue};
use crate::error::{At, FieldPath, Report, quoted};

/// Levels of lists and mappings; no file of this project needs ten.
const MOST_LEVELS: usize = 64;

/// What a whole tree may weigh, aliases expanded: a few times the largest file.
const MOST_WEIGHT: usize = 96 << 20;

/// Roughly the bytes that a node takes beside its text.
const NODE_WEIGHT: usize = 64;

/// Reads one YAML document. Mistakes go to `report`; after one in the syntax there is no tree.
pub fn parse(text: &str, report: &mut Report) -> Option<YamlNode> {
    let mut builder =
        Builder { open: Vec::new(), anchors: HashMap::new(), weight: 0, root: None, second: None, report };
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MOST_LEVELS,
        block_nesting_limit: MOST_LEVELS,
    };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = match next {
            Ok(next) => next,
            Err(error) => {
                builder.fail((*error.marker()).into(), syntax_message(&error));
                return None;
            }
        };
        builder.take(event, span.start.into(), span.is_empty())?;
    }
    if builder.root.is_none() {
        let message = "the file is empty; a configuration has `network` or `application`, and a file of rules on requests \
                       `domain` and `descriptors`";
        builder.fail(TextPosition::default(), message);
    }
    builder.root
}

/// A list or mapping whose end has not come yet.
struct Open {
    position: TextPosition,
    anchor: usize,
    weight_before: usize,
    /// Levels below this one.
    height: usize,
    items: Items,
}

enum Items {
    List(Vec<YamlNode>),
    Map { entries: Vec<MappingEntry>, key: Option<(Scalar, TextPosition)> },
}

/// What an alias stands for, and what a copy of it costs.
struct Anchored {
    node: YamlNode,
    weight: usize,
    height: usize,
}

struct Builder<'r> {
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    weight: usize,
    root: Option<YamlNode>,
    /// Where another document begins. Behind a closing `---` it has nothing in it.
    second: Option<TextPosition>,
    report: &'r mut Report,
}

impl Builder<'_> {
    /// `None` ends the reading: what follows could not be understood.
    fn take(&mut self, event: Event<'_>, position: TextPosition, is_empty: bool) -> Option<()> {
        match event {
            Event::Scalar(_, ScalarStyle::Plain, 0, None) if self.second.is_some() && is_empty => Some(()),
            Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) | Event::Alias(_)
                if self.second.is_some() =>
            {
                let position = self.second.unwrap_or(position);
                self.fail(position, "a second YAML document begins here; a file holds one");
                None
            }
            Event::Scalar(text, style, anchor, tag) => {
                // A value that is not there is missed at its key, not behind the colon.
                let position = if is_empty { self.key_position().unwrap_or(position) } else { position };
                let quoted = style != ScalarStyle::Plain || self.text_tag(tag.as_deref(), position)?;
                let scalar = Scalar { text: text.into_owned(), quoted };
                let weight = NODE_WEIGHT + scalar.text.len();
                self.spend(weight, position)?;
                let node = YamlNode { position, value: YamlValue::Scalar(scalar) };
                self.remember(anchor, &node, weight, 0)?;
                self.put(node, 0)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.collection_tag(tag.as_deref(), "seq", position)?;
                self.begin(anchor, position, Items::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.collection_tag(tag.as_deref(), "map", position)?;
                self.begin(anchor, position, Items::Map { entries: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.expand(anchor, position),
            Event::DocumentStart(..) if self.root.is_some() => {
                self.second = Some(position);
                Some(())
            }
            _ => Some(()),
        }
    }

    fn begin(&mut self, anchor: usize, position: TextPosition, items: Items) -> Option<()> {
        if self.open.len() >= MOST_LEVELS {
            self.fail(position, too_deep());
            return None;
        }
        let weight_before = self.weight;
        self.spend(NODE_WEIGHT, position)?;
        self.open.push(Open { position, anchor, weight_before, height: 0, items });
        Some(())
    }

    fn end(&mut self) -> Option<()> {
        let open = self.open.pop()?;
        let value = match open.items {
            Items::List(items) => YamlValue::List(items),
            Items::Map { entries, .. } => YamlValue::Map(self.merge(entries)),
        };
        let node = YamlNode { position: open.position, value };
        self.remember(open.anchor, &node, self.weight - open.weight_before, open.height)?;
        self.put(node, open.height)
    }

    /// Puts a finished node into the collection that is open, or makes it the root.
    fn put(&mut self, node: YamlNode, height: usize) -> Option<()> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Some(());
        };
        open.height = open.height.max(height + 1);
        match &mut open.items {
            Items::List(items) => items.push(node),
            Items::Map { entries, key } => match key.take() {
                Some((key, position)) => entries.push(MappingEntry { key, position, value: node }),
                None => match node.value {
                    YamlValue::Scalar(scalar) => *key = Some((scalar, node.position)),
                    YamlValue::List(_) | YamlValue::Map(_) => {
                        self.fail(node.position, "a key must be a single value");
                        return None;
                    }
                },
            },
        }
        Some(())
    }

    /// Keeps a copy of an anchored node, which counts, for the aliases that may follow.
    fn remember(&mut self, anchor: usize, node: &YamlNode, weight: usize, height: usize) -> Option<()> {
        // 0 stands for no anchor.
        if anchor != 0 {
            self.spend(weight, node.position)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), weight, height });
        }
        Some(())
    }

    fn expand(&mut self, anchor: usize, position: TextPosition) -> Option<()> {
        let Some(Anchored { weight, height, .. }) = self.anchors.get(&anchor) else {
            self.fail(position, "an alias can't stand inside what it names");
            return None;
        };
        let (weight, height) = (*weight, *height);
        if self.open.len() + height > MOST_LEVELS {
            self.fail(position, too_deep());
            return None;
        }
        self.spend(weight, position)?;
        let node = self.anchors.get(&anchor)?.node.clone();
        self.put(node, height)
    }

    fn spend(&mut self, weight: usize, position: TextPosition) -> Option<()> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight > MOST_WEIGHT {
            self.fail(position, "too much: the file with its aliases expanded is too large");
            return None;
        }
        Some(())
    }

    /// Resolves `<<` and reports keys that are given twice.
    fn merge(&mut self, mut entries: Vec<MappingEntry>) -> Vec<MappingEntry> {
        self.refuse_duplicates(&mut entries);
        let Some(index) = entries.iter().position(|entry| is_merge(&entry.key)) else {
            return entries;
        };
        let inherited = entries.remove(index).value;
        let mut seen: HashSet<String> = entries.iter().map(|entry| entry.key.text.clone()).collect();
        for entry in self.merged(inherited) {
            // What is given here, or by an earlier source, wins.
            if seen.insert(entry.key.text.clone()) {
                entries.push(entry);
            }
        }
        entries
    }

    fn merged(&mut self, node: YamlNode) -> Vec<MappingEntry> {
        match node.value {
            YamlValue::Map(entries) => entries,
            YamlValue::List(items) if items.iter().all(|item| matches!(item.value, YamlValue::Map(_))) => {
                items.into_iter().flat_map(|item| self.merged(item)).collect()
            }
            _ => {
                self.fail(node.position, "`<<` takes a mapping or a list of mappings");
                Vec::new()
            }
        }
    }

    fn refuse_duplicates(&mut self, entries: &mut Vec<MappingEntry>) {
        let mut first: HashMap<String, TextPosition> = HashMap::new();
        entries.retain(|entry| {
            let Some(before) = first.get(&entry.key.text) else {
                first.insert(entry.key.text.clone(), entry.position);
                return true;
            };
            let field = self.field().key(&entry.key.text);
            let message =
                format!("{} is given twice, first on line {}", quoted(&entry.key.text), before.line);
            self.report.error(&At { position: entry.position, field }, message);
            false
        });
    }

    /// Whether a scalar's tag makes it text.
    fn text_tag(&mut self, tag: Option<&Tag>, position: TextPosition) -> Option<bool> {
        match tag {
            None => Some(false),
            Some(tag) if tag.is_yaml_core_schema_tag("str") || tag.suffix() == "!" => Some(true),
            Some(tag) => self.refuse_tag(tag, position),
        }
    }

    fn collection_tag(&mut self, tag: Option<&Tag>, allowed: &str, position: TextPosition) -> Option<()> {
        match tag {
            Some(tag) if !tag.is_yaml_core_schema_tag(allowed) => self.refuse_tag(tag, position),
            _ => Some(()),
        }
    }

    fn refuse_tag<T>(&mut self, tag: &Tag, position: TextPosition) -> Option<T> {
        self.fail(position, format!("the tag {} has no meaning here; leave it out", quoted(&tag.original())));
        None
    }

    fn fail(&mut self, position: TextPosition, message: impl std::fmt::Display) {
        let field = self.field();
        self.report.error(&At { position, field }, message);
    }

    fn key_position(&self) -> Option<TextPosition> {
        match &self.open.last()?.items {
            Items::Map { key: Some((_, position)), .. } => Some(*position),
            _ => None,
        }
    }

    /// The path of what is being read.
    fn field(&self) -> FieldPath {
        self.open.iter().fold(FieldPath::default(), |path, open| match &open.items {
            Items::List(items) => path.item(items.len()),
            Items::Map { key: Some((key, _)), .. } => path.key(&key.text),
            Items::Map { key: None, .. } => path,
        })
    }
}

fn is_merge(key: &Scalar) -> bool {
    !key.quoted && key.text == "<<"
}

fn syntax_message(error: &ScanError) -> String {
    match error.kind() {
        ErrorKind::TabInBlockIndentation => "YAML allows no tab as indentation; use spaces".to_owned(),
        ErrorKind::RecursionLimitExceeded => too_deep(),
        kind => {
            let message = format!("not YAML: {kind}");
            let is_about_blocks = message.contains("block");
            let hint =
                if is_about_blocks { "; check that this line is indented like its neighbours" } else { "" };
            message + hint
        }
    }
}

fn too_deep() -> String {
    format!("more than {MOST_LEVELS} levels of lists and mappings")
}
