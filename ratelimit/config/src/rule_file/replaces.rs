//! What limits say of each other by name, over all files of a set: those that replace each other, so that neither
//! applies, and names that nobody has. Both are allowed, as in Envoy's service, but hardly meant.

use std::collections::{HashMap, HashSet};

use crate::{
    error::{Report, quoted},
    fields::LocatedText,
    policy::application::{DescriptorRule, RuleSet},
};

/// Names of a circle that a message repeats.
const MOST_SHOWN: usize = 8;

/// Circles that are looked for: rules with more have one systematic fault, which these show well enough.
const MOST_CIRCLES: usize = 100;

/// A limit's word that another one does not apply where it does.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// Which of the files it stands in.
    pub file: usize,
    /// Whose rules it is about.
    pub domain: String,
    /// The limit's own name, if it has one.
    pub by: Option<String>,
    /// The name of the other, where it stands.
    pub name: LocatedText,
}

/// Notes what may not be meant, in the report of the file that it stands in.
pub fn warn(replacements: &[Replacement], rules: &RuleSet, reports: &mut [Report]) {
    let mut of_domains: HashMap<&str, Vec<&Replacement>> = HashMap::new();
    for replacement in replacements {
        of_domains.entry(&replacement.domain).or_default().push(replacement);
    }
    for domain in rules.domains() {
        let Some(here) = of_domains.get(&*domain.name) else { continue };
        let mut names = HashSet::new();
        add_names(&domain.descriptors, &mut names);
        let unknown = here.iter().filter(|replacement| !names.contains(&*replacement.name.text));
        let unknown = unknown.map(|replacement| (*replacement, names_nobody(&replacement.name.text)));
        for (replacement, message) in unknown.chain(Circles::of(here).find()) {
            if let Some(report) = reports.get_mut(replacement.file) {
                report.warning(&replacement.name.at, message);
            }
        }
    }
}

fn names_nobody(name: &str) -> String {
    format!("no limit of the domain has the name {}, so this replaces nothing", quoted(name))
}

fn add_names<'r>(rules: &'r [DescriptorRule], names: &mut HashSet<&'r str>) {
    for rule in rules {
        names.extend(rule.limit.as_ref().and_then(|limit| limit.name.as_deref()));
        add_names(&rule.children, names);
    }
}

/// A walk along replacements, which finds each name that leads back to one on the way to it.
struct Circles<'r> {
    order: Vec<&'r str>,
    from: HashMap<&'r str, Vec<(&'r str, &'r Replacement)>>,
}

/// A name on the way, with how many of its replacements have been followed.
type Step<'r> = (&'r str, usize);

impl<'r> Circles<'r> {
    fn of(replacements: &[&'r Replacement]) -> Self {
        let mut circles = Self { order: Vec::new(), from: HashMap::new() };
        // A limit without a name is replaced by nobody.
        for replacement in replacements {
            let Some(by) = replacement.by.as_deref() else { continue };
            circles.order.push(by);
            circles.from.entry(by).or_default().push((&replacement.name.text, replacement));
        }
        circles
    }

    /// For each circle the replacement that closes it. Not recursive: names may make a chain through a whole file.
    fn find(&self) -> Vec<(&'r Replacement, String)> {
        let mut found = Vec::new();
        let (mut done, mut on_way) = (HashSet::new(), HashSet::new());
        for start in &self.order {
            let mut way: Vec<Step<'r>> = Vec::new();
            if !done.contains(start) && found.len() < MOST_CIRCLES {
                on_way.insert(*start);
                way.push((start, 0));
            }
            while let Some((name, followed)) = way.last_mut().filter(|_| found.len() < MOST_CIRCLES) {
                let name = *name;
                let next = self.from.get(name).and_then(|replacements| replacements.get(*followed));
                *followed += 1;
                match next {
                    Some((to, replacement)) if on_way.contains(to) => {
                        found.push((*replacement, self.message(&way, to)));
                    }
                    Some((to, _)) if !done.contains(to) => {
                        on_way.insert(*to);
                        way.push((to, 0));
                    }
                    Some(_) => {}
                    None => {
                        on_way.remove(name);
                        done.insert(name);
                        way.pop();
                    }
                }
            }
        }
        found
    }

    /// About the way from `to` to its end, which leads back.
    fn message(&self, way: &[Step<'r>], to: &str) -> String {
        let last = way.last().map_or("", |(name, _)| name);
        let back = self.from.get(to).into_iter().flatten();
        if back.into_iter().any(|(name, _)| *name == last) {
            let (one, other) = (quoted(to), quoted(last));
            return format!(
                "{one} and {other} replace each other, so neither limit applies to a request with both; \
                 let only one \
                 replace the other"
            );
        }
        let circle: Vec<&str> = way.iter().map(|(name, _)| *name).skip_while(|name| *name != to).collect();
        let shown: Vec<String> = circle.iter().take(MOST_SHOWN).map(|name| quoted(name)).collect();
        let more = if circle.len() > MOST_SHOWN { ", …" } else { "" };
        let shown = shown.join(", ");
        format!(
            "{shown}{more} replace each other in a circle, so no limit applies to a request with all of \
             them; leave one of \
             these out"
        )
    }
}
