//! The Debian package of a tree: what only Debian has (`packaging/debian`), the control files, and `dpkg-deb`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{binary::Target, directory, source_date, tree::Tree, version};
use crate::command;

/// Files that an administrator changes: an upgrade asks before it replaces them.
const CONFIGURATION: [(&str, &str); 2] = [
    ("etc/ratelimit.yaml", "packaging/debian/ratelimit.yaml"),
    ("etc/fail2ban/action.d/ratelimit.conf", "config/fail2ban/ratelimit.conf"),
];

const DESCRIPTION: &str = "limits how fast each client may use a host
 An XDP program drops the packets above a source's rate before the kernel
 allocates anything for them. A daemon puts it in force from one YAML file,
 and a command line watches it and bans sources. The same daemon answers
 Envoy, nginx, HAProxy and others whether a request may go on.
";

/// What is at least needed where `dpkg-shlibdeps` can't look into the libraries: on another machine.
const LIBRARIES: &str = "libc6 (>= 2.34), libgcc-s1 (>= 4.2)";

/// Makes the package; `suffix` makes its version a later one.
pub fn build(tree: &Tree, target: Target, suffix: &str) -> Result<PathBuf> {
    let sources = command::workspace();
    let debian = |name: &str| sources.join("packaging/debian").join(name);
    for (path, from) in CONFIGURATION {
        tree.copy(path, &sources.join(from), 0o644)?;
    }
    tree.directory("etc/ratelimit")?;
    tree.copy("usr/share/lintian/overrides/ratelimit", &debian("lintian-overrides"), 0o644)?;
    let version = format!("{}-1{suffix}", version());
    tree.write_gz("usr/share/doc/ratelimit/changelog.Debian.gz", changelog(&version)?.as_bytes())?;
    let installed = tree.files()?;
    for script in ["postinst", "prerm", "postrm"] {
        tree.copy(&format!("DEBIAN/{script}"), &debian(script), 0o755)?;
    }
    let conffiles: String = CONFIGURATION.iter().map(|(path, _)| format!("/{path}\n")).collect();
    tree.write("DEBIAN/conffiles", conffiles.as_bytes(), 0o644)?;
    tree.write("DEBIAN/md5sums", sums(tree, &installed)?.as_bytes(), 0o644)?;
    tree.write("DEBIAN/control", control(tree, &installed, target, &version)?.as_bytes(), 0o644)?;
    let package = directory()?.join(format!("ratelimit_{version}_{}.deb", target.architecture));
    let mut dpkg = Command::new("dpkg-deb");
    // One thread: what several make depends on how many there are.
    dpkg.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(tree.root()).arg(&package);
    command::run(dpkg.env("SOURCE_DATE_EPOCH", source_date()?))?;
    Ok(package)
}

fn control(tree: &Tree, installed: &[String], target: Target, version: &str) -> Result<String> {
    let sizes = installed.iter().map(|path| Ok(fs::metadata(tree.root().join(path))?.len().div_ceil(1024)));
    let size = sizes.sum::<Result<u64>>()?;
    let depends = libraries(tree, target)?;
    let Target { architecture, .. } = target;
    Ok(format!(
        "Package: ratelimit\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {size}\nDepends: {depends}, init-system-helpers (>= 1.54)\n\
         Suggests: curl, fail2ban, prometheus, python3\nSection: net\nPriority: optional\nDescription: {DESCRIPTION}"
    ))
}

const MAINTAINER: &str = "The ratelimit authors <ratelimit@packages.debian.org>";

/// The libraries that the binary is linked with.
fn libraries(tree: &Tree, target: Target) -> Result<String> {
    if !target.runs_here() {
        return Ok(LIBRARIES.to_owned());
    }
    // It wants to find the source package that it is called for.
    let here = directory()?.join("shlibdeps");
    fs::create_dir_all(here.join("debian"))?;
    fs::write(here.join("debian/control"), "Source: ratelimit\n\nPackage: ratelimit\nArchitecture: any\n")?;
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    let binary = std::path::absolute(tree.root().join("usr/bin/ratelimit"))?;
    let found =
        command::quietly(shlibdeps.arg("-O").arg(format!("-e{}", binary.display())).current_dir(here))?;
    let found = found.trim().strip_prefix("shlibs:Depends=").context("dpkg-shlibdeps names no libraries")?;
    Ok(found.to_owned())
}

fn sums(tree: &Tree, installed: &[String]) -> Result<String> {
    let is_configuration = |path: &&String| CONFIGURATION.iter().any(|(other, _)| other == path);
    let paths: Vec<&String> = installed.iter().filter(|path| !is_configuration(path)).collect();
    command::quietly(Command::new("md5sum").args(paths).current_dir(tree.root()))
}

fn changelog(version: &str) -> Result<String> {
    let date = format!("@{}", source_date()?);
    let mut command = Command::new("date");
    let date = command::quietly(command.args(["--utc", "--rfc-email", "--date", &date]).env("LC_ALL", "C"))?;
    Ok(format!(
        "ratelimit ({version}) unstable; urgency=medium\n\n  * New upstream release: changelog.gz.\n\n -- {MAINTAINER}  {}\n",
        date.trim()
    ))
}
