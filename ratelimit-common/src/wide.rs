//! Arithmetic that the BPF target has no instruction and no library call for.

#[cfg(any(test, target_arch = "bpf"))]
use crate::verifier::opaque;

/// The product of two 64-bit numbers as (high, low) halves.
#[inline(always)]
#[must_use]
pub fn multiply(a: u64, b: u64) -> (u64, u64) {
    #[cfg(not(target_arch = "bpf"))]
    {
        let product = a as u128 * b as u128;
        ((product >> 64) as u64, product as u64)
    }
    #[cfg(target_arch = "bpf")]
    halves(a, b)
}

/// The product, or the largest number if it is larger.
#[inline(always)]
#[must_use]
pub fn saturating_multiply(a: u64, b: u64) -> u64 {
    match multiply(a, b) {
        (0, product) => product,
        _ => u64::MAX,
    }
}

/// [`multiply`] by 32-bit halves.
#[cfg(any(test, target_arch = "bpf"))]
#[inline(always)]
fn halves(a: u64, b: u64) -> (u64, u64) {
    const LOW: u64 = 0xffff_ffff;
    let (a1, a0, b1, b0) = (a >> 32, a & LOW, b >> 32, b & LOW);
    let low = a0.wrapping_mul(b0);
    // Opaque, for LLVM would make a 128-bit multiplication of it again.
    let middle = a1.wrapping_mul(b0).wrapping_add(opaque(low >> 32));
    let other = a0.wrapping_mul(b1).wrapping_add(middle & LOW);
    let high = a1.wrapping_mul(b1).wrapping_add(middle >> 32).wrapping_add(other >> 32);
    (high, (other << 32) | (low & LOW))
}

/// A divisor with its reciprocal: exact quotients and remainders without a division instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Divisor {
    value: u64,
    /// floor(2^64 / value), which makes an estimate of a quotient at most one too small.
    reciprocal: u64,
}

impl Divisor {
    /// `value` must be at least 1; 0 is taken as 1.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        let value = if value == 0 { 1 } else { value };
        let reciprocal = if value == 1 { u64::MAX } else { ((1_u128 << 64) / value as u128) as u64 };
        Self { value, reciprocal }
    }

    /// The divisor itself.
    #[must_use]
    #[inline(always)]
    pub const fn get(&self) -> u64 {
        self.value
    }

    /// Quotient and remainder of `dividend`.
    #[must_use]
    #[inline(always)]
    pub fn divide(&self, dividend: u64) -> (u64, u64) {
        let quotient = multiply(dividend, self.reciprocal).0;
        let remainder = dividend.wrapping_sub(quotient.wrapping_mul(self.value));
        if remainder >= self.value {
            (quotient.wrapping_add(1), remainder.wrapping_sub(self.value))
        } else {
            (quotient, remainder)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [u64; 12] = [
        0,
        1,
        2,
        3,
        7,
        1_000_000_000,
        0xffff_ffff,
        1 << 32,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
        0x1234_5678_9abc_def0,
    ];

    #[test]
    fn products_by_halves_equal_the_128_bit_ones() {
        for a in EDGES {
            for b in EDGES {
                assert_eq!(halves(a, b), multiply(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn quotients_by_reciprocal_equal_divisions() {
        for value in EDGES.into_iter().filter(|&value| value > 0) {
            for dividend in EDGES {
                assert_eq!(
                    Divisor::new(value).divide(dividend),
                    (dividend / value, dividend % value),
                    "{dividend} / {value}"
                );
            }
        }
    }
}
