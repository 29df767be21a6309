//! The memory of an emulated program: packet, stack, and the real maps as they are, of which what is written is a copy.

use std::{
    collections::{HashMap, HashSet},
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use crate::{
    bpf::bpf,
    program::{OPEN_MAP, info, open},
};

/// Where things are. A map's number is above [`MAP_SHIFT`]; an address without more is the map itself.
pub const CONTEXT: u64 = 1 << 40;
pub const PACKET: u64 = 1 << 41;
pub const STACK: u64 = 1 << 42;
/// What was found in a trie last: where it stands there is not known.
const FOUND: u64 = 1 << 43;
const MAPS: u64 = 1 << 50;
const MAP_SHIFT: u32 = 36;
/// Beside a map's address: its values, or of an array for each processor the places of these.
const VALUES: u64 = 1 << 34;
/// Beside a map's address: the values of this processor.
const OWN_VALUES: u64 = 1 << 35;
const OFFSET: u64 = VALUES - 1;

const PER_CPU_ARRAY: u64 = 6;
const MOST_PROCESSORS: usize = 8_192;

/// The bytes that are known, and the maps that the others are in.
pub struct Memory {
    bytes: HashMap<u64, u8>,
    maps: Vec<(u32, Map)>,
    loaded: HashSet<u64>,
    processor: usize,
}

struct Map {
    descriptor: OwnedFd,
    is_per_cpu: bool,
    key: u64,
    value: usize,
    entries: u64,
}

impl Memory {
    pub fn new(frame: &[u8], processor: usize) -> Self {
        let mut memory = Self { bytes: HashMap::new(), maps: Vec::new(), loaded: HashSet::new(), processor };
        // `struct xdp_buff`: data, data_end, data_meta.
        for (place, address) in [PACKET, PACKET + frame.len() as u64, PACKET].into_iter().enumerate() {
            memory.write(CONTEXT + 8 * place as u64, 8, address);
        }
        frame.iter().zip(PACKET..).for_each(|(&byte, address)| memory.write(address, 1, byte.into()));
        memory
    }

    /// The address of the map with a number.
    pub fn map(&mut self, id: u32) -> io::Result<u64> {
        let known = self.maps.iter().position(|(known, _)| *known == id);
        let place = match known {
            Some(place) => place,
            None => {
                self.maps.push((id, Map::open(id)?));
                self.maps.len() - 1
            }
        };
        Ok(MAPS | (place as u64) << MAP_SHIFT)
    }

    /// The address of a map's values, if this is the address of a map.
    pub const fn values(map: u64) -> Option<u64> {
        if map & MAPS != 0 && map & ((1 << MAP_SHIFT) - 1) == 0 { Some(map | VALUES) } else { None }
    }

    /// What a look-up by a helper finds.
    pub fn look_up(&mut self, map: u64, key: u64) -> u64 {
        let index = self.read(key, 4);
        match self.map_at(map) {
            Some(found) if index < found.entries && found.is_per_cpu => {
                (map | OWN_VALUES) + index * found.value as u64
            }
            Some(found) if index < found.entries => (map | VALUES) + index * found.value as u64,
            _ => 0,
        }
    }

    /// What a look-up in a trie of prefixes finds: a copy.
    pub fn look_up_prefix(&mut self, map: u64, key: u64) -> u64 {
        let size = self.map_at(map).map_or(0, |found| found.key);
        let key: Vec<u8> = (0..size).map(|place| self.read(key + place, 1) as u8).collect();
        let found = self.map_at(map).and_then(|found| found.get(&key, found.value));
        let Some(value) = found else { return 0 };
        self.bytes.extend((FOUND..).zip(value));
        FOUND
    }

    pub fn read(&mut self, address: u64, size: u64) -> u64 {
        if address & MAPS != 0 {
            if let Some(place) = self.place_of_own(address) {
                return place;
            }
            self.load(address);
        }
        let byte = |place: u64| self.bytes.get(&(address + place)).copied().unwrap_or_default();
        (0..size).fold(0, |number, place| number | u64::from(byte(place)) << (8 * place))
    }

    pub fn write(&mut self, address: u64, size: u64, number: u64) {
        if address & MAPS != 0 {
            self.load(address);
        }
        for place in 0..size {
            self.bytes.insert(address + place, (number >> (8 * place)) as u8);
        }
    }

    fn map_at(&self, address: u64) -> Option<&Map> {
        Some(&self.maps.get(((address & !MAPS) >> MAP_SHIFT) as usize)?.1)
    }

    /// The address that stands at this one, in an array with a place for each processor.
    fn place_of_own(&self, address: u64) -> Option<u64> {
        let map = self.map_at(address).filter(|map| map.is_per_cpu && address & VALUES != 0)?;
        let base = address >> MAP_SHIFT << MAP_SHIFT;
        Some((base | OWN_VALUES) + (address & OFFSET) / 8 * map.value as u64)
    }

    /// Copies the value at an address, unless it has been.
    fn load(&mut self, address: u64) {
        let Some(map) = self.map_at(address) else { return };
        let index = (address & OFFSET) / map.value as u64;
        let start = (address & !OFFSET) + index * map.value as u64;
        if !self.loaded.contains(&start) {
            let own = if map.is_per_cpu { self.processor * map.value } else { 0 };
            let value = map.read(index as u32);
            let value: Vec<u8> = value.into_iter().skip(own).take(map.value).collect();
            self.loaded.insert(start);
            self.bytes.extend((start..).zip(value));
        }
    }
}

impl Map {
    fn open(id: u32) -> io::Result<Self> {
        let descriptor = open(OPEN_MAP, id)?;
        let mut about = [0_u64; 11];
        info(descriptor.as_fd(), &mut about)?;
        Ok(Self {
            descriptor,
            is_per_cpu: about[0] & 0xffff_ffff == PER_CPU_ARRAY,
            key: about[1] & 0xffff_ffff,
            value: ((about[1] >> 32) as usize).next_multiple_of(8).max(8),
            entries: about[2] & 0xffff_ffff,
        })
    }

    /// Zeros where there is nothing, as for a map that can't be read.
    fn read(&self, index: u32) -> Vec<u8> {
        let size = if self.is_per_cpu { MOST_PROCESSORS * self.value } else { self.value };
        self.get(&index.to_ne_bytes(), size).unwrap_or_else(|| vec![0; size])
    }

    /// The value of a key, which has so many bytes at most.
    fn get(&self, key: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut value = vec![0_u8; size];
        let mut attributes = [0_u64; 16];
        attributes[0] = self.descriptor.as_raw_fd() as u64;
        attributes[1] = key.as_ptr() as u64;
        attributes[2] = value.as_mut_ptr() as u64;
        bpf(1, &mut attributes).ok().map(|_| value)
    }
}
