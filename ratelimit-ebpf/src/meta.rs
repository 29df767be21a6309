//! Where the daemon keeps what it must know to adopt these maps after a restart. The program does not read it.

use aya_ebpf::{macros::map, maps::Array};
use ratelimit_common::wire::META_BYTES;

#[map]
static META: Array<[u8; META_BYTES]> = Array::with_max_entries(1, 0);
