//! The `Forwarded` header (RFC 7239): `for=192.0.2.1;proto=https, for="[2001:db8::1]:4711"`.

use std::net::IpAddr;

use http::HeaderMap;

use super::{FORWARDED, node};

/// The address that the hop so many from the right names. `None` if there is none, it is hidden, or any of it can't be
/// read: then a quotation mark that a stranger left open could hide what a proxy wrote.
pub fn hop(headers: &HeaderMap, from_right: usize) -> Option<IpAddr> {
    let mut hops = Vec::new();
    for line in headers.get_all(FORWARDED) {
        hops.extend(elements(line.to_str().ok()?)?);
    }
    node(hops.iter().nth_back(from_right)?.as_deref()?)
}

/// What `for` says in each element of a line; `None` if the line is malformed.
fn elements(line: &str) -> Option<Vec<Option<String>>> {
    let mut elements = Vec::new();
    let mut rest = line;
    loop {
        let (element, more) = element(rest)?;
        elements.extend(element);
        match more {
            Some(more) => rest = more,
            None => return Some(elements),
        }
    }
}

/// One element, and what follows its comma. An element without pairs is none at all.
fn element(text: &str) -> Option<(Option<Option<String>>, Option<&str>)> {
    let (mut rest, mut client, mut has_pairs) = (text, None, false);
    loop {
        rest = rest.trim_start();
        if let Some((name, after)) = pair_name(rest) {
            let (value, after) = value(after)?;
            if name.eq_ignore_ascii_case("for") && client.replace(value).is_some() {
                return None;
            }
            has_pairs = true;
            rest = after.trim_start();
        }
        let element = has_pairs.then(|| client.clone());
        match rest.chars().next() {
            None => return Some((element, None)),
            Some(',') => return Some((element, rest.get(1..))),
            Some(';') => rest = rest.get(1..)?,
            Some(_) => return None,
        }
    }
}

/// It looks no further than the name, so that a long header without pairs is read in one pass.
fn pair_name(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.split_at(text.find(|c| !is_token(c))?);
    after.strip_prefix('=').filter(|_| !name.is_empty()).map(|after| (name, after))
}

/// A token or a quoted string, and what follows it.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        // Colons and brackets are to be quoted, and often are not.
        let is_value = |c: char| is_token(c) || matches!(c, ':' | '[' | ']');
        let end = text.find(|c| !is_value(c)).unwrap_or(text.len());
        let (token, after) = text.split_at(end);
        return (!token.is_empty()).then(|| (token.to_owned(), after));
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(characters.next()?),
            character => value.push(character),
        }
    }
}

fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}
