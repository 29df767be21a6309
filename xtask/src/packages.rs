//! The packages tier: a Debian package as `lintian`, `systemd-analyze` and an administrator see it. It is installed,
//! upgraded, removed and purged in namespaces, over a copy of this machine's root that vanishes with them
//! (`packaging/debian/test`). It is that of the debug binary; `cargo xtask package --test` tests the one that people
//! get.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::test::tier::TierOutcome;
use crate::{command, kernel, package, setup};

/// Checks the package of the debug binary.
pub fn run() -> Result<TierOutcome> {
    check(package::debug)
}

/// Checks a package, then what it does. `make` makes it, as a version that its argument makes a later one.
pub fn check(make: fn(&str) -> Result<PathBuf>) -> Result<TierOutcome> {
    setup::for_packages()?;
    if let Some(reason) = not_here() {
        return Ok(TierOutcome::not_run(reason));
    }
    let (later, package) = (make("+later")?, make("")?);
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error", "--display-info", "--no-tag-display-limit", "--allow-root"]);
    command::run(lintian.arg(&package))?;
    let script = command::workspace().join("packaging/debian/test");
    let mut test = kernel::in_namespaces();
    test.arg(script).args([absolute(&package)?, absolute(&later)?]);
    command::run(&mut test)?;
    Ok(TierOutcome::Passed(None))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("finding {}", path.display()))
}

fn not_here() -> Option<String> {
    let missing = setup::PACKAGES.iter().find(|program| command::find_program(program.name).is_none());
    let missing =
        missing.map(|program| format!("needs {} (Debian's package {})", program.name, program.package));
    missing.or_else(|| kernel::no_namespaces_reason().map(str::to_owned))
}
