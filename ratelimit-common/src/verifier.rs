//! What the kernel's verifier needs that the compiler would take out.

/// The same number, of which the compiler knows nothing: keeps arithmetic from becoming a branch, and a mask or a check
/// from being left out.
#[must_use]
#[inline(always)]
pub fn opaque(number: u64) -> u64 {
    #[cfg(target_arch = "bpf")]
    {
        let mut number = number;
        // SAFETY: the instruction changes nothing. (An empty one would leave two source lines at one place, which the
        // kernel refuses.)
        unsafe { core::arch::asm!("{0} = {0}", inout(reg) number, options(pure, nomem, nostack)) };
        number
    }
    #[cfg(not(target_arch = "bpf"))]
    number
}

/// The same number, and nothing that comes after in the source is done before: keeps a row of loads from being done all
/// at once, for which the kernel's registers and stack are too few.
#[must_use]
#[inline(always)]
pub fn in_order(number: u64) -> u64 {
    #[cfg(target_arch = "bpf")]
    {
        let mut number = number;
        // SAFETY: the instruction changes nothing.
        unsafe { core::arch::asm!("{0} = {0}", inout(reg) number, options(nostack)) };
        number
    }
    #[cfg(not(target_arch = "bpf"))]
    number
}
