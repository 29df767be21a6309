//! Comparisons without a branch: one on data would be mispredicted, and the kernel's verifier would follow both ways.

use crate::verifier::opaque;

/// 1 for zero, else 0.
#[inline(always)]
pub(super) fn is_zero(number: u64) -> u64 {
    opaque((number | number.wrapping_neg()) >> 63) ^ 1
}

/// 1 if `a < b`, else 0.
#[inline(always)]
pub(super) fn is_less(a: u64, b: u64) -> u64 {
    // The borrow of a subtraction.
    opaque(((!a & b) | ((!a | b) & a.wrapping_sub(b))) >> 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_those_of_numbers() {
        let edges = [0, 1, 2, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
        for a in edges {
            assert_eq!(is_zero(a), u64::from(a == 0), "{a}");
            for b in edges {
                assert_eq!(is_less(a, b), u64::from(a < b), "{a} < {b}");
            }
        }
    }
}
