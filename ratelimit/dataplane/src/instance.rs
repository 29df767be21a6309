//! One instance of the XDP program: its constants, the room in the maps of its generation, and what they are filled
//! with.

use std::{
    io::ErrorKind,
    os::fd::{AsFd as _, AsRawFd as _},
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{LpmTrie, Map, lpm_trie::Key},
    programs::{ProgramError, Xdp},
};
use memmap2::MmapOptions;
use ratelimit_common::{
    classify::{Dimension, ROWS_OF_FURTHER},
    wire::{CompiledRule, Globals, MOST_LIMITS, RULE_NUMBERS},
};

use super::{Error, ProgramLog, error::verifier_log_level, kernel::Wire};
use crate::compile::Compiled;

/// Embedded, so that the binary needs no other file.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-xdp"));

pub(super) const PROGRAM: &str = "ratelimit";

/// What each instance is loaded with.
#[derive(Debug)]
pub(super) struct Constants {
    globals: Globals,
    rules: Wire<[u8; MOST_LIMITS * size_of::<CompiledRule>()]>,
    index: [u8; RULE_NUMBERS],
    further_excepts: Box<[u64; ROWS_OF_FURTHER]>,
    log_level: u8,
}

impl Constants {
    pub(super) fn of(compiled: &Compiled) -> Self {
        Self {
            globals: compiled.globals,
            rules: padded(&compiled.limits),
            index: compiled.index,
            further_excepts: compiled.further_excepts.clone(),
            log_level: ProgramLog::level(),
        }
    }

    pub(super) const fn globals(&self) -> Globals {
        self.globals
    }

    /// Begins to load an instance: `globals` are those of its kind.
    pub(super) fn loader<'s>(&'s self, globals: &'s Wire<Globals>) -> EbpfLoader<'s> {
        let mut loader = EbpfLoader::new();
        loader
            .override_global("AYA_LOG_LEVEL", &self.log_level, true)
            .verifier_log_level(verifier_log_level())
            .override_global("GLOBALS", globals, true)
            .override_global("RULES", &self.rules, true)
            .override_global("RULE_INDEX", &self.index, true)
            .override_global("FURTHER_EXCEPTS", &*self.further_excepts, true);
        loader
    }
}

/// Loads an object, without the program in it.
pub(super) fn load(mut loader: EbpfLoader<'_>, object: &[u8]) -> Result<Ebpf, Error> {
    loader.load(object).map_err(|error| Error::load(&error))
}

/// How often the program is loaded anew after a signal: as often as libbpf does it.
const TRIES: u32 = 5;

/// Loads the program itself.
pub(super) fn into_kernel(ebpf: &mut Ebpf) -> Result<(), Error> {
    let program = program_of(ebpf)?;
    tried(|| program.load(), is_interrupted).map_err(|error| Error::load(&error))
}

fn is_interrupted(error: &ProgramError) -> bool {
    matches!(error, ProgramError::LoadError { io_error, .. } if io_error.kind() == ErrorKind::WouldBlock)
}

/// Loads something. If a signal comes while the kernel verifies it, the kernel gives up and wants to be asked again.
fn tried<E>(mut load: impl FnMut() -> Result<(), E>, is_interrupted: impl Fn(&E) -> bool) -> Result<(), E> {
    for _ in 1..TRIES {
        match load() {
            Err(error) if is_interrupted(&error) => {}
            done => return done,
        }
    }
    load()
}

pub(super) fn program_of(ebpf: &mut Ebpf) -> Result<&mut Xdp, Error> {
    let program = ebpf.program_mut(PROGRAM).ok_or(Error::Object("the program"))?;
    program.try_into().map_err(|_| Error::Object("an XDP program"))
}

fn padded(rules: &[CompiledRule]) -> Wire<[u8; MOST_LIMITS * size_of::<CompiledRule>()]> {
    let mut bytes = [0; MOST_LIMITS * size_of::<CompiledRule>()];
    for (place, rule) in bytes.chunks_exact_mut(size_of::<CompiledRule>()).zip(rules) {
        place.copy_from_slice(Wire(*rule).as_bytes());
    }
    Wire(bytes)
}

/// The table's map.
const fn map_of(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Protocol => "PROTOCOL",
        Dimension::SourcePort => "SOURCE_PORT",
        Dimension::DestinationPort => "DEST_PORT",
        Dimension::TcpFlags => "TCP_FLAGS",
        Dimension::IcmpType => "ICMP_TYPE",
        Dimension::Vlan => "VLAN",
        Dimension::Kind => "KIND",
        Dimension::Length => "LENGTH",
    }
}

/// The maps of the prefixes of sources and of destinations, for IPv4 and IPv6.
const PREFIX_MAPS: [[&str; 2]; 2] = [["SOURCE_V4", "SOURCE_V6"], ["DEST_V4", "DEST_V6"]];

/// A map can't be empty.
fn room<T>(entries: &[T]) -> u32 {
    entries.len().max(1) as u32
}

/// Gives the maps of a generation as much room as it needs.
pub(super) fn set_rooms(loader: &mut EbpfLoader<'_>, compiled: &Compiled) {
    loader.map_max_entries("LISTS", room(&compiled.lists.words));
    for table in &compiled.tables {
        loader.map_max_entries(map_of(table.dimension), table.rows.len() as u32);
    }
    for ([v4, v6], prefixes) in PREFIX_MAPS.iter().zip(&compiled.prefixes) {
        loader.map_max_entries(v4, room(&prefixes.v4)).map_max_entries(v6, room(&prefixes.v6));
    }
}

/// Fills the maps of a generation.
pub(super) fn fill(ebpf: &mut Ebpf, compiled: &Compiled) -> Result<(), Error> {
    for ([v4, v6], prefixes) in PREFIX_MAPS.into_iter().zip(&compiled.prefixes) {
        fill_prefixes(ebpf, v4, prefixes.v4.iter().copied())?;
        fill_prefixes(ebpf, v6, prefixes.v6.iter().copied())?;
    }
    fill_words(ebpf, "LISTS", &compiled.lists.words)?;
    for table in &compiled.tables {
        fill_words(ebpf, map_of(table.dimension), &table.rows)?;
    }
    Ok(())
}

fn fill_prefixes<K: aya::Pod, V: aya::Pod>(
    ebpf: &mut Ebpf,
    name: &'static str,
    prefixes: impl Iterator<Item = (K, u8, V)>,
) -> Result<(), Error> {
    let mut list: LpmTrie<_, K, V> = ebpf.map_mut(name).ok_or(Error::Object(name))?.try_into()?;
    for (address, length, value) in prefixes {
        list.insert(&Key::new(u32::from(length), address), value, 0)?;
    }
    Ok(())
}

/// By mmap: a system call for each of a hundred thousand words would take longer than all the rest.
fn fill_words(ebpf: &Ebpf, name: &'static str, words: &[u64]) -> Result<(), Error> {
    let Some(Map::Array(data)) = ebpf.map(name) else { return Err(Error::Object(name)) };
    if words.is_empty() {
        return Ok(());
    }
    let mapped = MmapOptions::new().len(size_of_val(words)).map_raw(data.fd().as_fd().as_raw_fd());
    let mapped = mapped.map_err(|source| Error::System { what: "mapping a table of rules", source })?;
    // SAFETY: the mapping has this many aligned words, and nobody else uses it yet.
    unsafe { mapped.as_mut_ptr().cast::<u64>().copy_from_nonoverlapping(words.as_ptr(), words.len()) };
    Ok(())
}

#[cfg(test)]
mod tests {
    //! A kernel that is interrupted while it verifies.

    use nix::errno::Errno::{self, EAGAIN, EINVAL};

    use super::*;

    /// What comes of loading, and how often it was tried, if this is what the kernel says one time after the other.
    fn loaded(says: &[Errno]) -> (Result<(), Errno>, usize) {
        let mut tries = 0;
        let load = || {
            tries += 1;
            says.get(tries - 1).map_or(Ok(()), |errno| Err(*errno))
        };
        (tried(load, |errno| *errno == EAGAIN), tries)
    }

    #[test]
    fn a_program_whose_verification_was_interrupted_is_loaded_anew_and_not_for_ever() {
        assert_eq!(loaded(&[]), (Ok(()), 1));
        assert_eq!(loaded(&[EAGAIN; 2]), (Ok(()), 3));
        assert_eq!(loaded(&[EAGAIN; 4]), (Ok(()), 5));
        assert_eq!(loaded(&[EAGAIN; 9]), (Err(EAGAIN), 5));
        assert_eq!(loaded(&[EAGAIN, EINVAL]), (Err(EINVAL), 2), "no other error");
    }
}
