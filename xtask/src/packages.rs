//! The packages tier: the Debian package of the debug binary, as `lintian`, `systemd-analyze` and an administrator see it. It is
//! installed, upgraded, removed and purged in namespaces, over a copy of this machine's root that vanishes with them
//! (`packaging/debian/test`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::test::tier::TierOutcome;
use crate::{command, kernel, package, setup};

/// Checks the package, then what it does.
pub fn run() -> Result<TierOutcome> {
    setup::for_packages()?;
    if let Some(reason) = not_here() {
        return Ok(TierOutcome::not_run(reason));
    }
    let package = package::debug("")?;
    let later = package::debug("+later")?;
    let mut lintian = Command::new("lintian");
    // The debug binary is what it is; `cargo xtask package` optimizes and strips another one.
    lintian.args(["--fail-on", "error", "--display-info", "--no-tag-display-limit", "--allow-root"]);
    command::run(lintian.arg(&package))?;
    let script = command::workspace().join("packaging/debian/test");
    let mut test = kernel::in_namespaces();
    test.arg(script).args([absolute(&package)?, absolute(&later)?]);
    command::run(&mut test)?;
    Ok(TierOutcome::Passed(None))
}

fn absolute(path: &Path) -> Result<std::path::PathBuf> {
    std::path::absolute(path).with_context(|| format!("finding {}", path.display()))
}

fn not_here() -> Option<String> {
    let missing = setup::PACKAGES.iter().find(|program| command::find_program(program.name).is_none());
    let missing =
        missing.map(|program| format!("needs {} (Debian's package {})", program.name, program.package));
    missing.or_else(|| kernel::no_namespaces_reason().map(str::to_owned))
}
