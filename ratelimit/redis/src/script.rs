//! The Lua scripts. The one that decides is several files that are joined; its first lines say what goes in and out.

use std::sync::LazyLock;

use crate::transport::Script;

/// Decides about requests.
pub(crate) static DECIDE: LazyLock<Script> = LazyLock::new(|| Script::new(DECIDE_TEXT.to_owned()));

/// Draws the secret that long texts and shards are hashed with, unless there is one, and gives it.
pub(crate) static SECRET: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("script/secret.lua").to_owned()));

/// Forgets a bucket, and says how many there were.
pub(crate) static RESET: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("script/reset.lua").to_owned()));

pub(crate) const DECIDE_TEXT: &str = concat!(
    include_str!("script/numbers.lua"),
    include_str!("script/fast_path.lua"),
    // Its functions are made when the first request takes it: that takes as long as several decisions.
    "local function slow_path()\n",
    include_str!("script/buckets.lua"),
    include_str!("script/arrival.lua"),
    include_str!("script/windows.lua"),
    include_str!("script/sliding.lua"),
    include_str!("script/log.lua"),
    include_str!("script/judge.lua"),
    "end\n",
    include_str!("script/calls.lua"),
);
