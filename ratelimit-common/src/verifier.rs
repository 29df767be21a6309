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

/// What has been written to memory, read from there: the compiler would keep a copy of it, which takes as much of the
/// kernel's stack again.
#[must_use]
#[inline(always)]
pub fn again<T: Copy>(memory: &T) -> T {
    #[cfg(target_arch = "bpf")]
    {
        // SAFETY: a reference is valid.
        unsafe { core::ptr::from_ref(memory).read_volatile() }
    }
    #[cfg(not(target_arch = "bpf"))]
    *memory
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

macro_rules! big_endian {
    ($($name:ident -> $type:ident as $load:literal;)*) => {$(
        /// The number in network byte order at `AT`, which must be inside, in one load: the compiler does not know that
        /// the kernel's processors can load from anywhere.
        #[must_use]
        #[inline(always)]
        pub fn $name<const AT: usize, const N: usize>(bytes: &[u8; N]) -> $type {
            const { assert!(AT + size_of::<$type>() <= N) };
            #[cfg(target_arch = "bpf")]
            {
                let number: u64;
                // SAFETY: the bytes are inside.
                unsafe {
                    core::arch::asm!(
                        concat!("{0} = *(", $load, " *)({1} + {2})"),
                        out(reg) number,
                        in(reg) bytes.as_ptr(),
                        const AT,
                        options(pure, readonly, nostack)
                    );
                }
                // SAFETY: the load has set all other bits to zero. So the compiler does not do it again.
                unsafe { core::hint::assert_unchecked(number <= $type::MAX as u64) };
                $type::from_be(number as $type)
            }
            #[cfg(not(target_arch = "bpf"))]
            $type::from_be_bytes(core::array::from_fn(|index| bytes[AT + index]))
        }
    )*};
}

big_endian! {
    be16 -> u16 as "u16";
    be32 -> u32 as "u32";
    be64 -> u64 as "u64";
}
