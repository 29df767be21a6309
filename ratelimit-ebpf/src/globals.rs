//! The constants of this generation. The daemon sets them before it loads the program, and the map they lie in is
//! frozen: so the verifier knows their values, and removes what this generation's rules do not use.

use core::arch::asm;

use ratelimit_common::{
    classify::ROWS_OF_FURTHER,
    verifier::opaque,
    wire::{CompiledRule, Globals, KeyMask, MOST_LIMITS, RULE_NUMBERS},
};

/// Memory for a constant, of which the compiler must not know that it is zero here.
#[repr(C, align(8))]
struct Constant<const N: usize>([u8; N]);

#[unsafe(no_mangle)]
static GLOBALS: Constant<{ size_of::<Globals>() }> = Constant([0; _]);

#[unsafe(no_mangle)]
static RULES: Constant<{ MOST_LIMITS * size_of::<CompiledRule>() }> = Constant([0; _]);

/// For each rule number, where in `RULES` the rule is, plus one; zero if this generation has none of that number.
#[unsafe(no_mangle)]
static RULE_INDEX: Constant<RULE_NUMBERS> = Constant([0; _]);

/// The rows of [`ratelimit_common::classify::Exceptions::rules_of`].
#[unsafe(no_mangle)]
static FURTHER_EXCEPTS: Constant<{ ROWS_OF_FURTHER * size_of::<u64>() }> = Constant([0; _]);

/// The address of a constant, made anew each time: kept, it would take a register or a place on the kernel's stack, and
/// to make it takes no longer than to load it from there.
///
/// The instruction does nothing else.
macro_rules! address_of {
    ($constant:ident) => {{
        let address: *const u8;
        asm!("{0} = {1} ll", out(reg) address, sym $constant, options(nomem, nostack));
        address
    }};
}

/// The constants that are not rules.
#[inline(always)]
pub fn globals() -> &'static Globals {
    // SAFETY: size and alignment are those of the type, and any bytes are a value of it.
    unsafe { &*address_of!(GLOBALS).cast::<Globals>() }
}

/// The limit at `index`, which must be below the number of limits.
#[inline(always)]
pub fn rule(index: u64) -> &'static CompiledRule {
    let index = opaque(index) as usize % MOST_LIMITS;
    // SAFETY: the index is inside, and the daemon has written rules up to it.
    unsafe { &*address_of!(RULES).cast::<CompiledRule>().add(index) }
}

/// The limit at 0.
#[inline(always)]
pub fn first_rule() -> &'static CompiledRule {
    // SAFETY: as above.
    unsafe { &*address_of!(RULES).cast::<CompiledRule>() }
}

/// What of a source makes the key of a rule. `family` is 0 or 1.
#[inline(always)]
pub fn key_mask(rule: &CompiledRule, family: u64) -> &KeyMask {
    let family = opaque(family) as usize % 2;
    // SAFETY: the index is inside.
    unsafe { rule.masks.get_unchecked(family) }
}

/// The rules of further exceptions in a row.
#[inline(always)]
pub fn rules_of_further(row: u64) -> u64 {
    let row = opaque(row) as usize % ROWS_OF_FURTHER;
    // SAFETY: the row is inside.
    unsafe { *address_of!(FURTHER_EXCEPTS).cast::<u64>().add(row) }
}

/// The rule with a number, if this generation has it.
#[inline(always)]
pub fn rule_numbered(number: u64) -> Option<&'static CompiledRule> {
    let number = opaque(number) as usize % RULE_NUMBERS;
    // SAFETY: the index is inside.
    match unsafe { *address_of!(RULE_INDEX).add(number) } {
        0 => None,
        index => Some(rule(index as u64 - 1)),
    }
}
