//! Lists that have a name, so that several places can use them: each `{list: NAME}` becomes what that list has, before
//! anything else is judged.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
    path::Path,
};

use crate::{
    error::{Report, quoted},
    fields::LocatedText,
    list_file,
    policy::Prefix,
    raw::{RawConfig, RawList, RawMatch, RawPrefix},
    text::Thousands,
    words::hint,
};

/// Bytes of a name at most.
const LONGEST_NAME: usize = 63;

/// Items at most that all lists have with the lists in them, and that all uses stand for: more of them fit into a file.
const MOST_ITEMS: usize = 100_000;

/// How many lists may be in one another.
const MOST_LEVELS: usize = 16;

/// All lists with a name.
#[derive(Debug, Default)]
pub struct NamedLists {
    lists: HashMap<String, NamedList>,
    items: Cell<usize>,
}

#[derive(Debug)]
struct NamedList {
    name: LocatedText,
    /// What it has, with what the lists in it have.
    items: Vec<RawPrefix>,
    /// The lists in it.
    inner: Vec<String>,
    is_used: Cell<bool>,
}

impl NamedLists {
    /// Judges `lists`. Paths become those of the configuration's directory.
    pub fn read(raw: &[RawList], directory: &Path, report: &mut Report) -> Self {
        let mut own: HashMap<&str, &RawList> = HashMap::new();
        for list in raw {
            check_name(&list.name, report);
            own.insert(&list.name.text, list);
        }
        let mut good: HashMap<&str, Vec<RawPrefix>> = HashMap::new();
        for list in raw {
            let items = list.items.iter().filter_map(|item| judged(item, &own, directory, report));
            good.insert(&list.name.text, items.collect());
        }
        let mut lists = HashMap::new();
        let mut room = MOST_ITEMS;
        for list in raw {
            let mut flat = Flat { lists: &good, seen: HashSet::new(), items: Vec::new(), room };
            if let Err(mistake) = flat.add(&list.name, &mut Vec::new()) {
                report.error(&mistake.at, mistake.text);
            }
            room = flat.room;
            let inner = flat.seen.iter().map(|inner| (*inner).to_owned()).collect();
            let named =
                NamedList { name: list.name.clone(), items: flat.items, inner, is_used: Cell::new(false) };
            lists.insert(list.name.text.clone(), named);
        }
        Self { lists, items: Cell::new(0) }
    }

    /// What the list has that is named at a place; none, if that is a mistake.
    pub fn items(&self, named: &LocatedText, report: &mut Report) -> &[RawPrefix] {
        let Some(list) = self.lists.get(&named.text) else {
            report.error(&named.at, unknown(&named.text, self.lists.keys().map(String::as_str)));
            return &[];
        };
        for inner in list.inner.iter().filter_map(|inner| self.lists.get(inner)).chain([list]) {
            inner.is_used.set(true);
        }
        let before = self.items.get();
        self.items.set(before + list.items.len());
        if self.items.get() > MOST_ITEMS {
            if before <= MOST_ITEMS {
                report.error(&named.at, too_many());
            }
            return &[];
        }
        &list.items
    }

    /// Puts what lists have in the place of their names, in all that is about packets.
    pub fn resolve(&self, raw: &mut RawConfig, report: &mut Report) {
        let Some(network) = &mut raw.network else { return };
        self.resolve_in(&mut network.allow, report);
        self.resolve_in(&mut network.deny, report);
        for rule in &mut network.rules {
            for RawMatch { source, destination, .. } in rule.matches.iter_mut().chain(&mut rule.except) {
                for prefixes in source.iter_mut().chain(destination) {
                    self.resolve_in(&mut prefixes.items, report);
                }
            }
        }
    }

    fn resolve_in(&self, items: &mut Vec<RawPrefix>, report: &mut Report) {
        if !items.iter().any(|item| matches!(item, RawPrefix::List(_))) {
            return;
        }
        let resolved = items.drain(..).flat_map(|item| match item {
            RawPrefix::List(name) => self.items(&name, report).to_vec(),
            other => vec![other],
        });
        *items = resolved.collect();
    }

    /// Notes lists that nobody uses, and what is wrong with their files.
    pub fn warn_of_unused(&self, report: &mut Report) {
        let mut unused: Vec<&NamedList> = self.lists.values().filter(|list| !list.is_used.get()).collect();
        unused.sort_unstable_by_key(|list| list.name.at.position.line);
        for list in unused {
            report.warning(
                &list.name.at,
                "nothing uses this list: name it, for instance in `allow`, as \
                    `{list: NAME}`",
            );
            for item in &list.items {
                if let RawPrefix::File(path) = item
                    && let Err(mistakes) = list_file::read(path.text.as_ref())
                {
                    mistakes.iter().for_each(|mistake| report.error(&path.at, mistake));
                }
            }
        }
    }
}

fn too_many() -> String {
    let most = Thousands(MOST_ITEMS as u64);
    format!(
        "this makes more than {most} items in lists, each counted wherever it is used; put them into files"
    )
}

fn check_name(name: &LocatedText, report: &mut Report) {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.text.is_empty() || name.text.len() > LONGEST_NAME || !name.text.chars().all(is_good) {
        let message = format!("a list's name has 1 to {LONGEST_NAME} letters, digits, `-` and `_`");
        report.error(&name.at, message);
    }
}

fn unknown<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    let advice = match known.is_empty() {
        true => format!(
            "; add it at the top of the configuration, such as `lists: {{{name}: {{file: networks.txt}}}}`"
        ),
        false => hint(name, &known),
    };
    format!("there is no list {} under `lists`{advice}", quoted(name))
}

/// An item that is right, with the whole path of a file.
fn judged(
    item: &RawPrefix,
    lists: &HashMap<&str, &RawList>,
    directory: &Path,
    report: &mut Report,
) -> Option<RawPrefix> {
    match item {
        RawPrefix::Inline(text) => match text.text.parse::<Prefix>() {
            Ok(_) => Some(item.clone()),
            Err(error) => {
                report.error(&text.at, error);
                None
            }
        },
        RawPrefix::File(path) => {
            let whole = directory.join(&path.text).to_string_lossy().into_owned();
            Some(RawPrefix::File(LocatedText { text: whole, at: path.at.clone() }))
        }
        RawPrefix::List(name) if lists.contains_key(&*name.text) => Some(item.clone()),
        RawPrefix::List(name) => {
            report.error(&name.at, unknown(&name.text, lists.keys().copied()));
            None
        }
    }
}

/// What a list has, with the lists in it.
struct Flat<'l> {
    lists: &'l HashMap<&'l str, Vec<RawPrefix>>,
    /// Lists that are in it already.
    seen: HashSet<&'l str>,
    items: Vec<RawPrefix>,
    /// How many more items there may be.
    room: usize,
}

impl<'l> Flat<'l> {
    /// Adds what a list has that is named at a place; `path` are the lists that it is in. An error says what is wrong
    /// with which place.
    fn add(&mut self, named: &LocatedText, path: &mut Vec<&'l str>) -> Result<(), LocatedText> {
        let Some((name, items)) = self.lists.get_key_value(&*named.text) else { return Ok(()) };
        if path.len() == MOST_LEVELS {
            let text = format!("lists are nested more than {MOST_LEVELS} deep");
            return Err(LocatedText { text, at: named.at.clone() });
        }
        path.push(name);
        for item in items {
            let RawPrefix::List(inner) = item else {
                let room = self.room.checked_sub(1);
                self.room = room.ok_or_else(|| LocatedText { text: too_many(), at: named.at.clone() })?;
                self.items.push(item.clone());
                continue;
            };
            if let Some(first) = path.iter().position(|outer| *outer == inner.text) {
                let circle = path[first..].iter().copied().chain([&*inner.text]).collect::<Vec<_>>();
                let text = format!("a list can't contain itself: {}", circle.join(", which has "));
                return Err(LocatedText { text, at: inner.at.clone() });
            }
            if !self.seen.contains(&*inner.text) {
                self.add(inner, path)?;
            }
        }
        path.pop();
        self.seen.insert(name);
        Ok(())
    }
}
