//! `ratelimit validate --list FILE`: checks files of prefixes before they are put into the place of those that are in
//! use.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    config::read_list,
    policy::Prefix,
    text::{Shown, Thousands},
};

/// What a file is found to be.
#[derive(Serialize)]
pub struct ListAnswer {
    file: String,
    pub ok: bool,
    errors: Vec<Message>,
    warnings: Vec<Message>,
    prefixes: usize,
    ipv4: usize,
    ipv6: usize,
}

#[derive(Serialize)]
struct Message {
    message: String,
}

impl ListAnswer {
    fn of(file: &Path) -> Self {
        let mut answer = Self {
            file: file.display().to_string(),
            ok: false,
            errors: Vec::new(),
            warnings: Vec::new(),
            prefixes: 0,
            ipv4: 0,
            ipv6: 0,
        };
        let messages = |texts: Vec<String>| texts.into_iter().map(|message| Message { message }).collect();
        match read_list(file) {
            Err(mistakes) => answer.errors = messages(mistakes),
            Ok(list) => {
                let name = file.display();
                let is_ipv6 = |(_, prefix): &&(usize, Prefix)| prefix.address().is_ipv6();
                answer.prefixes = list.prefixes.len();
                answer.ipv6 = list.prefixes.iter().filter(is_ipv6).count();
                answer.ipv4 = answer.prefixes - answer.ipv6;
                answer.warnings = messages(list.warnings);
                let everybody = list.prefixes.iter().find(|(_, prefix)| prefix.len() == 0);
                answer.warnings.extend(everybody.map(|(line, prefix)| Message {
                    message: format!("{name}:{line}: {prefix} is everybody"),
                }));
                if list.is_blank {
                    let message = format!(
                        "{name}: empty, as after a failed download; if an empty list is meant, say so by \
                         a comment in it"
                    );
                    answer.errors.push(Message { message });
                }
            }
        }
        answer.ok = answer.errors.is_empty();
        answer
    }
}

/// Checks all of them.
pub fn check(files: &[PathBuf]) -> Vec<ListAnswer> {
    files.iter().map(|file| ListAnswer::of(file)).collect()
}

/// Checks all of them; what is good goes to `out`, mistakes and warnings to `err`. Says whether all were good.
///
/// # Errors
/// The answer could not be written.
pub fn write_text(files: &[PathBuf], out: &mut impl Write, err: &mut impl Write) -> io::Result<bool> {
    let answers = check(files);
    for ListAnswer { file, ok, errors, warnings, prefixes, ipv4, ipv6 } in &answers {
        if *ok {
            let [prefixes, ipv4, ipv6] = [prefixes, ipv4, ipv6].map(|count| Thousands(*count as u64));
            writeln!(out, "{}: ok: {prefixes} prefixes ({ipv4} of IPv4, {ipv6} of IPv6)", Shown(file))?;
        }
        for Message { message } in errors {
            writeln!(err, "{}", Shown(message))?;
        }
        for Message { message } in warnings {
            writeln!(err, "warning: {}", Shown(message))?;
        }
    }
    Ok(answers.iter().all(|answer| answer.ok))
}
