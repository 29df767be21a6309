//! Functions with symbols: the kernel verifies each of them once, whatever calls it, and others once for each way to
//! get there. They take and return numbers, and pointers to memory whose size its type says.

use aya_ebpf::bindings::xdp_md;
use ratelimit_common::{
    lists::Listed,
    pipeline::{FrameSize, StageOutcome, bucket::BucketResult, several::Settled},
    table::Position,
};

use crate::frame::PacketStart;

/// What such a function takes. A reference goes over as a pointer, and the verifier wants that to be looked at before
/// it is used, although it is never null.
pub trait Argument: Sized {
    /// As it goes over.
    type Raw: Copy;

    fn raw(self) -> Self::Raw;

    /// # Safety
    /// `raw` must be what [`Self::raw`] gave, and what that was made of must not have been used since.
    unsafe fn from_raw(raw: Self::Raw) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Argument for $type {
            type Raw = u64;

            #[inline(always)]
            fn raw(self) -> u64 {
                ReturnValue::number(self)
            }

            #[inline(always)]
            unsafe fn from_raw(raw: u64) -> Option<Self> {
                Some(ReturnValue::of(raw))
            }
        }
    )*};
}

numbers! { u64 PacketStart }

/// The program's context, which only helpers are given.
impl Argument for *mut xdp_md {
    type Raw = Self;

    #[inline(always)]
    fn raw(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn from_raw(raw: Self) -> Option<Self> {
        Some(raw)
    }
}

impl<T> Argument for &T {
    type Raw = *const T;

    #[inline(always)]
    fn raw(self) -> *const T {
        self
    }

    #[inline(always)]
    unsafe fn from_raw(raw: *const T) -> Option<Self> {
        // SAFETY: the caller's.
        unsafe { raw.as_ref() }
    }
}

impl<T> Argument for &mut T {
    type Raw = *mut T;

    #[inline(always)]
    fn raw(self) -> *mut T {
        self
    }

    #[inline(always)]
    unsafe fn from_raw(raw: *mut T) -> Option<Self> {
        // SAFETY: the caller's.
        unsafe { raw.as_mut() }
    }
}

/// What such a function returns: a number, of which the verifier knows nothing.
pub trait ReturnValue {
    fn number(self) -> u64;
    fn of(number: u64) -> Self;
}

/// In the place of a slot's rank.
const NO_POSITION: u64 = u64::MAX;

macro_rules! answers {
    ($($type:ty: |$answer:ident| $number:expr, |$read:ident| $of:expr;)*) => {$(
        impl ReturnValue for $type {
            #[inline(always)]
            fn number(self) -> u64 {
                let $answer = self;
                $number
            }

            #[inline(always)]
            fn of($read: u64) -> Self {
                $of
            }
        }
    )*};
}

answers! {
    u64: |answer| answer, |number| number;
    bool: |answer| answer.into(), |number| number != 0;
    (): |_answer| 0, |_number| ();
    StageOutcome: |answer| StageOutcome::number(answer), |number| StageOutcome::from_number(number);
    BucketResult: |answer| BucketResult::number(answer), |number| BucketResult::from_number(number);
    Settled: |answer| Settled::number(answer), |number| Settled::from_number(number);
    FrameSize: |answer| answer.0, |number| Self(number);
    PacketStart: |answer| PacketStart::number(answer), |number| PacketStart::from_number(number);
    Listed: |answer| answer as u64, |number| Listed::of(number);
    Option<Position>: |answer| answer.map_or(NO_POSITION, |position| position.rank() as u64), |number| match number {
        NO_POSITION => None,
        rank => Some(Position::of_rank(rank as usize)),
    };
}

/// Defines functions with symbols. What is behind `else` stands for the answer to null, which nobody passes.
macro_rules! verified_once {
    ($($(#[$meta:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $answer:ty $body:block
       else $null:expr;)*) => {$(
        $(#[$meta])*
        #[inline(always)]
        $visibility fn $name($($argument: $type),*) -> $answer {
            #[unsafe(no_mangle)]
            #[inline(never)]
            unsafe extern "C" fn $name($($argument: <$type as $crate::verified::Argument>::Raw),*) -> u64 {
                $(
                    // SAFETY: the caller's, who has just made it, and uses nothing of it before this returns.
                    let $argument = match unsafe { <$type as $crate::verified::Argument>::from_raw($argument) } {
                        Some(argument) => argument,
                        None => return $crate::verified::ReturnValue::number($null),
                    };
                )*
                let answer: $answer = (|| $body)();
                $crate::verified::ReturnValue::number(answer)
            }
            // SAFETY: all that goes over is made here.
            $crate::verified::ReturnValue::of(unsafe { $name($($crate::verified::Argument::raw($argument)),*) })
        }
    )*};
}

pub(crate) use verified_once;
