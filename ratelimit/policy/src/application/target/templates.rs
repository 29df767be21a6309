//! Templates of paths: `/users/{id}` stands for the path of each user.

use std::{fmt, sync::Arc};

use matchit::{InsertError, Router};

use super::{PathForm, path};

/// Templates, of which a path has at most one: names come before parameters, from the left.
#[derive(Clone, Default)]
pub struct PathTemplates {
    texts: Vec<String>,
    router: Arc<Router<usize>>,
}

/// The template of a path, and what its parameters are.
#[derive(Clone, Debug)]
pub struct TemplateMatch<'t, 'p> {
    template: &'t str,
    parameters: matchit::Params<'t, 'p>,
}

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplatesError {
    /// It is relative.
    #[error("a template begins with a slash, such as /users/{{id}}")]
    NoSlash,
    /// A name that no path has.
    #[error("no path has this form; write {right}")]
    Form {
        /// How paths have it.
        right: String,
    },
    /// The braces.
    #[error(
        "braces name a parameter at the end of a segment, {{id}}, or all that follows, {{*rest}}, at the end"
    )]
    Braces,
    /// Another template for the same paths.
    #[error("is for the same paths as {0}")]
    Conflict(String),
}

impl PathTemplates {
    /// How many there can be.
    pub const MOST: usize = 1_000;

    /// Adds a template.
    ///
    /// # Errors
    /// It is none, or there is one for the same paths.
    pub fn add(&mut self, text: &str, form: PathForm) -> Result<(), TemplatesError> {
        if !text.starts_with('/') {
            return Err(TemplatesError::NoSlash);
        }
        let right = right_form(text, form).ok_or(TemplatesError::Braces)?;
        if right != text {
            return Err(TemplatesError::Form { right });
        }
        // A slash at the end is passed over in paths, so it is here.
        let route = if text.len() > 1 { text.trim_end_matches('/') } else { text };
        match Arc::make_mut(&mut self.router).insert(route, self.texts.len()) {
            Ok(()) => self.texts.push(text.to_owned()),
            Err(InsertError::Conflict { with }) => return Err(TemplatesError::Conflict(with)),
            Err(_) => return Err(TemplatesError::Braces),
        }
        Ok(())
    }

    /// The template of a path that is in its form. Most servers take a slash at the end of a path for nothing, so here
    /// it is.
    #[must_use]
    pub fn find<'t, 'p>(&'t self, path: &'p str) -> Option<TemplateMatch<'t, 'p>> {
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        let found = self.router.at(path).ok()?;
        Some(TemplateMatch { template: self.texts.get(*found.value)?, parameters: found.params })
    }

    /// Whether a template has a parameter of that name.
    #[must_use]
    pub fn has_parameter(&self, name: &str) -> bool {
        let named = self.texts.iter().flat_map(|text| parameters(text));
        named.map(|named| named.strip_prefix('*').unwrap_or(named)).any(|named| named == name)
    }

    /// The templates, as written.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

impl<'t> TemplateMatch<'t, '_> {
    /// The template, as written.
    #[must_use]
    pub const fn template(&self) -> &'t str {
        self.template
    }

    /// What a parameter is.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name)
    }
}

/// The names in braces.
fn parameters(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// A template as paths of it would have it; `None` if its braces do not go in pairs.
fn right_form(text: &str, form: PathForm) -> Option<String> {
    let mut segments = Vec::new();
    for segment in text.split('/') {
        let (before, parameter) = match segment.split_once('{') {
            Some((before, parameter)) => {
                (before, Some(parameter.strip_suffix('}').filter(|name| !name.contains(['{', '}']))?))
            }
            None => (segment, None),
        };
        if before.contains('}') {
            return None;
        }
        match (name(before, form), parameter) {
            (name, Some(parameter)) => segments.push(format!("{}{{{parameter}}}", name.unwrap_or_default())),
            (Some(name), None) if name.is_empty() => {}
            (Some(name), None) => segments.push(name),
            (None, None) => drop(segments.pop()),
        }
    }
    let end = if text.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    Some(format!("/{}{end}", segments.join("/")))
}

/// A segment's name as paths have it; `None` if it leads back.
fn name(segment: &str, form: PathForm) -> Option<String> {
    let written = path(format!("/a/{segment}").as_bytes(), form);
    written.strip_prefix("/a/").map(str::to_owned)
}

impl PartialEq for PathTemplates {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for PathTemplates {}

impl fmt::Debug for PathTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.texts).finish()
    }
}
