//! What the XDP program asks of a kernel, and whether this one has it: asked by trying, not by its number, because
//! distributions take features over into older kernels. Each question is a program of a few instructions, a map of a
//! page or a request that can't be fulfilled; none of them changes anything.

use std::io;

use aya::{
    maps::MapType,
    programs::{ProgramError, ProgramType},
    sys::{BpfHelper, is_helper_supported, is_map_supported, is_program_supported},
};
use nix::libc::{E2BIG, EACCES, EBADF, EINVAL};

use super::{Error, raw, system::release};

/// Something that a kernel has or lacks.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name, as documents of the kernel have it.
    pub name: &'static str,
    /// The first release of Linux that has it.
    pub since: &'static str,
    probe: FeatureProbe,
}

/// How a kernel is asked.
#[derive(Clone, Copy, Debug)]
enum FeatureProbe {
    XdpProgram,
    /// A program with these instructions can be loaded, with these flags.
    Program(&'static [u64], u32),
    Helper(BpfHelper),
    Map(MapType),
    MappableArray,
    /// A command of bpf(2) looks for the link that it is about, and so is known.
    LinkCommand(i64),
}

impl Feature {
    const fn new(name: &'static str, since: &'static str, probe: FeatureProbe) -> Self {
        Self { name, since, probe }
    }

    /// A function of the kernel that XDP programs may call.
    #[must_use]
    pub const fn helper(name: &'static str, since: &'static str, helper: BpfHelper) -> Self {
        Self::new(name, since, FeatureProbe::Helper(helper))
    }
}

/// All that is needed. That XDP programs can be loaded at all comes first: nothing else can be asked without.
#[rustfmt::skip]
pub const NEEDED: [Feature; 19] = [
    Feature::new("XDP", "4.8", FeatureProbe::XdpProgram),
    Feature::helper("bpf_map_lookup_elem", "3.19", BpfHelper::BPF_FUNC_map_lookup_elem),
    Feature::helper("bpf_ktime_get_ns", "4.1", BpfHelper::BPF_FUNC_ktime_get_ns),
    Feature::helper("bpf_get_prandom_u32", "4.1", BpfHelper::BPF_FUNC_get_prandom_u32),
    Feature::helper("bpf_get_smp_processor_id", "4.1", BpfHelper::BPF_FUNC_get_smp_processor_id),
    Feature::helper("bpf_fib_lookup", "4.18", BpfHelper::BPF_FUNC_fib_lookup),
    Feature::new("arrays that can be mapped (BPF_F_MMAPABLE)", "5.5", FeatureProbe::MappableArray),
    Feature::new("ring buffers", "5.8", FeatureProbe::Map(MapType::RingBuf)),
    Feature::helper("bpf_ringbuf_reserve", "5.8", BpfHelper::BPF_FUNC_ringbuf_reserve),
    Feature::helper("bpf_ringbuf_submit", "5.8", BpfHelper::BPF_FUNC_ringbuf_submit),
    Feature::helper("bpf_ringbuf_discard", "5.8", BpfHelper::BPF_FUNC_ringbuf_discard),
    Feature::new("links of XDP programs (BPF_LINK_UPDATE)", "5.9", FeatureProbe::LinkCommand(raw::LINK_UPDATE)),
    Feature::new("links that can be detached (BPF_LINK_DETACH)", "5.9", FeatureProbe::LinkCommand(raw::LINK_DETACH)),
    Feature::new("atomic instructions of BPF", "5.12", FeatureProbe::Program(&EXCHANGE, 0)),
    Feature::helper("bpf_check_mtu", "5.12", BpfHelper::BPF_FUNC_check_mtu),
    Feature::helper("bpf_loop", "5.17", BpfHelper::BPF_FUNC_loop),
    Feature::new("multi-buffer XDP (BPF_F_XDP_HAS_FRAGS)", "5.18", FeatureProbe::Program(&PASS, XDP_HAS_FRAGS)),
    Feature::helper("bpf_xdp_get_buff_len", "5.18", BpfHelper::BPF_FUNC_xdp_get_buff_len),
    Feature::helper("bpf_xdp_load_bytes", "5.18", BpfHelper::BPF_FUNC_xdp_load_bytes),
];

/// From the kernel's interface: the program can take packets in several buffers.
const XDP_HAS_FRAGS: u32 = 1 << 5;

/// `r0 = XDP_PASS; exit`.
const PASS: [u64; 2] = [instruction(0xb7, 0, 0, 2), instruction(0x95, 0, 0, 0)];

/// The same after a word of the stack was compared and exchanged.
const EXCHANGE: [u64; 6] = [
    instruction(0xb7, 0, 0, 0),
    instruction(0x7a, 10, -8, 0),
    instruction(0xb7, 1, 0, 0),
    // `r0 = cmpxchg(r10 - 8, r0, r1)`.
    instruction(0xdb, 0x1a, -8, 0xf1),
    PASS[0],
    PASS[1],
];

/// An instruction, as memory has it; `registers`: the destination in the low half of a byte, the source in the high
/// one.
const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> u64 {
    let (offset, immediate) = (offset.to_ne_bytes(), immediate.to_ne_bytes());
    u64::from_ne_bytes([
        code,
        if cfg!(target_endian = "big") { registers.rotate_left(4) } else { registers },
        offset[0],
        offset[1],
        immediate[0],
        immediate[1],
        immediate[2],
        immediate[3],
    ])
}

/// Whether this kernel has all that the XDP program needs.
///
/// # Errors
/// It lacks something, or does not answer.
pub fn check_kernel() -> Result<(), Error> {
    refuse_without(&NEEDED)
}

/// Whether this kernel has all of these.
///
/// # Errors
/// See [`check_kernel`].
pub fn refuse_without(features: &[Feature]) -> Result<(), Error> {
    let missing = missing(features, |feature| ask(feature.probe))
        .map_err(|source| Error::System { what: "asking the kernel what BPF programs may do", source })?;
    if missing.is_empty() { Ok(()) } else { Err(Error::LacksFeatures { kernel: release(), missing }) }
}

/// Those that a kernel lacks; if it is the first one, only that.
fn missing(features: &[Feature], has: impl Fn(&Feature) -> io::Result<bool>) -> io::Result<Vec<Feature>> {
    let mut missing = Vec::new();
    for feature in features {
        if !has(feature)? {
            missing.push(*feature);
            if matches!(feature.probe, FeatureProbe::XdpProgram) {
                break;
            }
        }
    }
    Ok(missing)
}

/// Asks the kernel.
fn ask(probe: FeatureProbe) -> io::Result<bool> {
    match probe {
        FeatureProbe::XdpProgram => is_program_supported(ProgramType::Xdp).map_err(io_error),
        FeatureProbe::Helper(helper) => is_helper_supported(ProgramType::Xdp, helper).map_err(io_error),
        FeatureProbe::Map(kind) => is_map_supported(kind).map_err(|error| error.io_error),
        FeatureProbe::Program(instructions, flags) => is_known(raw::load_xdp(instructions, flags)),
        FeatureProbe::MappableArray => is_known(raw::make_array(raw::MMAPABLE)),
        FeatureProbe::LinkCommand(command) => match raw::ask_about_no_link(command) {
            Err(error) if error.raw_os_error() == Some(EBADF) => Ok(true),
            answer => is_known(answer),
        },
    }
}

/// Whether the kernel has done it; what it does not know, it says is wrong.
fn is_known<T>(answer: io::Result<T>) -> io::Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(EINVAL | E2BIG | EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn io_error(error: ProgramError) -> io::Error {
    match error {
        ProgramError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nix::libc;
    use object::{Object as _, ObjectSection as _};

    use super::*;
    use crate::instance::OBJECT;

    #[test]
    fn everything_that_is_missing_is_named_with_the_release_that_has_it() {
        let lacks = |names: &[&str]| {
            missing(&NEEDED, |feature| Ok(!names.iter().any(|name| feature.name.contains(name)))).unwrap()
        };
        assert!(lacks(&[]).is_empty());
        // As Linux 5.15 is, with its maker's bpf_loop or without.
        for (names, expected) in [
            (
                &["multi-buffer", "bpf_xdp_load"][..],
                "multi-buffer XDP (BPF_F_XDP_HAS_FRAGS), in Linux since 5.18; \
             bpf_xdp_load_bytes, in Linux since 5.18",
            ),
            (&["bpf_loop"], "bpf_loop, in Linux since 5.17"),
            // Nothing else can be known then.
            (&["XDP", "bpf_loop"], "XDP, in Linux since 4.8"),
        ] {
            let error =
                Error::LacksFeatures { kernel: "5.15.0-91-generic".to_owned(), missing: lacks(names) };
            let said = error.to_string();
            assert!(said.contains(expected), "{said}");
            assert!(said.contains("5.15.0-91-generic") && said.contains("Linux 6.1"), "{said}");
        }
        let refused = missing(&NEEDED, |_| Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn answers_are_told_from_failures() {
        let answer = |number| is_known::<()>(Err(io::Error::from_raw_os_error(number)));
        assert!(is_known(Ok(())).unwrap());
        assert!(!answer(EINVAL).unwrap() && !answer(E2BIG).unwrap());
        assert!(answer(libc::EPERM).is_err() && answer(libc::ENOSYS).is_err());
    }

    #[test]
    fn every_function_that_the_program_calls_is_asked_for() {
        let object = object::File::parse(OBJECT).unwrap();
        let mut called = BTreeSet::new();
        for name in [".text", "xdp.frags"] {
            let section = object.section_by_name(name).expect(name);
            for instruction in section.data().unwrap().chunks_exact(8) {
                // A call that is not to another function of the program, which has a source register.
                if instruction[0] == 0x85 && instruction[1] >> 4 == 0 {
                    called.insert(u32::from_ne_bytes(instruction[4..].try_into().unwrap()));
                }
            }
        }
        let asked = NEEDED.iter().filter_map(|feature| match feature.probe {
            FeatureProbe::Helper(helper) => Some(helper as u32),
            _ => None,
        });
        assert_eq!(asked.collect::<BTreeSet<_>>(), called);
    }
}
