//! What an instance has in the kernel, and whether it is gone.

use std::{fs, path::Path};

use aya::{
    maps::loaded_maps,
    programs::{links::FdLink, links::PinnedLink, loaded_programs},
};

use crate::wait;

pub const PINS: &str = "/sys/fs/bpf/ratelimit";

/// The ids of a program and its maps. The kernel does not use an id again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InKernel {
    pub program: u32,
    maps: Vec<u32>,
}

/// What the only link of the instance `default` leads to.
pub fn in_kernel() -> InKernel {
    let links: Vec<_> = fs::read_dir(format!("{PINS}/default/links")).expect("pinned links").collect();
    let [link] = &links[..] else { panic!("one link, not {links:?}") };
    let link = PinnedLink::from_pin(link.as_ref().unwrap().path()).unwrap();
    let program = FdLink::from(link).info().unwrap().program_id();
    let info =
        loaded_programs().filter_map(Result::ok).find(|info| info.id() == program).expect("the program");
    let maps = info.map_ids().unwrap().expect("its maps");
    assert!(maps.len() >= 5, "{maps:?}");
    InKernel { program, maps }
}

/// Checks that nothing of it is left: no pin, no program, no map, no socket.
pub fn assert_gone(was: &InKernel) {
    assert_no_files();
    wait::until("the program is gone", || {
        let mut programs = loaded_programs().filter_map(Result::ok);
        (!programs.any(|info| info.id() == was.program)).then_some(())
    });
    wait::until("the maps are gone", || {
        let mut maps = loaded_maps().filter_map(Result::ok);
        (!maps.any(|info| was.maps.contains(&info.id()))).then_some(())
    });
}

/// Checks that there is no pin and no socket.
pub fn assert_no_files() {
    assert!(!Path::new(PINS).exists(), "pins are left");
    let sockets: Vec<_> = fs::read_dir("/run/ratelimit").into_iter().flatten().collect();
    assert!(sockets.is_empty(), "{sockets:?}");
}
