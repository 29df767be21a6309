//! The initramfs of a guest: busybox, the kernel's network modules, the tests, and what they start, each under the path
//! that it has here, since tests know theirs since they were compiled.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::libraries;
use super::packages::Files;
use crate::command;
use crate::kernel::TestProgram;
use crate::test::tier::{ALLOWS_TIMED, TIMED};

/// Begins the line in which a guest says with what status its tests ended.
pub const STATUS: &str = "guest: the tests ended with status ";

/// What tests start, as far as this machine has it.
const STARTED: [&str; 5] = ["ip", "setpriv", "prlimit", "script", "wg"];

/// Kinds of network devices that tests make. The kernel loads what they depend on.
const MODULES: [&str; 17] = [
    "veth",
    "dummy",
    "ifb",
    "virtio_pci",
    "virtio_net",
    "ip_gre",
    "ip6_gre",
    "ipip",
    "ip6_tunnel",
    "sit",
    "wireguard",
    "8021q",
    "bonding",
    "bridge",
    "tun",
    "vxlan",
    "macvlan",
];

const INIT: &str = include_str!("init.sh");

/// Makes the initramfs in a directory, and returns its path.
pub fn build(files: &Files, program: &TestProgram, tests: &[String], directory: &Path) -> Result<PathBuf> {
    let root = Root::new(directory.join("root"))?;
    root.programs()?;
    root.modules(files)?;
    root.tests(program, tests)?;
    root.pack(directory.join("initramfs"))
}

/// The guest's files.
struct Root(PathBuf);

impl Root {
    fn new(path: PathBuf) -> Result<Self> {
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
        }
        let root = Self(path);
        for directory in ["bin", "sbin", "etc", "proc", "sys", "dev", "run", "tmp", "root"] {
            let directory = root.0.join(directory);
            fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
        }
        Ok(root)
    }

    /// Where a path of the guest's is here.
    fn place(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn write(&self, path: &str, text: &str, mode: u32) -> Result<()> {
        let place = self.place(Path::new(path));
        fs::write(&place, text).with_context(|| format!("writing {}", place.display()))?;
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).context("setting permissions")
    }

    fn link(&self, target: &str, path: &str) -> Result<()> {
        symlink(target, self.place(Path::new(path))).with_context(|| format!("linking {path}"))
    }

    fn copy(&self, file: &Path, path: &Path) -> Result<()> {
        let place = self.place(path);
        place
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .with_context(|| format!("making {}", place.display()))?;
        fs::copy(file, &place).map(drop).with_context(|| format!("copying {}", file.display()))
    }

    /// A program, with its libraries where the loader looks for them.
    fn program(&self, file: &Path, path: &Path) -> Result<()> {
        self.copy(file, path)?;
        libraries::of(file)?.iter().try_for_each(|library| self.copy(library, library))
    }

    fn programs(&self) -> Result<()> {
        let found = |name| command::find_program(name).with_context(|| format!("{name} is gone"));
        self.program(&found("busybox")?, Path::new("/bin/busybox"))?;
        self.link("busybox", "/bin/sh")?;
        // The kernel starts it for modules.
        self.program(&found("modprobe")?, Path::new("/sbin/modprobe"))?;
        for name in STARTED {
            if let Some(file) = command::find_program(name) {
                self.program(&file, &Path::new("/bin").join(name))?;
            }
        }
        self.write("/init", INIT, 0o755)?;
        self.write("/etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n", 0o644)
    }

    fn modules(&self, files: &Files) -> Result<()> {
        let depmod = |root: &Path| {
            command::quietly(command::administrators("depmod").arg("-b").arg(root).arg(&files.release))
                .map(drop)
        };
        depmod(&files.root)?;
        for name in MODULES {
            let mut modprobe = command::administrators("modprobe");
            modprobe.arg("-d").arg(&files.root).args(["-S", &files.release, "--show-depends", name]);
            for path in module_files(&command::quietly(&mut modprobe)?) {
                let place = path.strip_prefix(&files.root).context("a module outside its package")?;
                self.copy(&path, place)?;
            }
        }
        let modules = Path::new("lib/modules").join(&files.release);
        for name in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
            self.copy(&files.root.join(&modules).join(name), &modules.join(name))?;
        }
        depmod(&self.0)
    }

    /// The test program, the binary that it starts, and the captures, if this machine has them.
    fn tests(&self, program: &TestProgram, tests: &[String]) -> Result<()> {
        for file in [&program.tests, &program.binary] {
            self.program(file, file)?;
            // Debug information takes memory, and seconds to unpack.
            if command::find_program("strip").is_some() {
                command::quietly(Command::new("strip").arg(self.place(file)))?;
            }
        }
        let package = command::workspace().join("ratelimit");
        self.copy(&package.join("Cargo.toml"), &package.join("Cargo.toml"))?;
        let captures = command::workspace().join("../shared/captures");
        for entry in fs::read_dir(&captures).into_iter().flatten() {
            let file = entry.context("reading the captures")?.path();
            let folder = captures.canonicalize().context("finding the captures")?;
            self.copy(&file, &folder.join(file.file_name().unwrap_or_default()))?;
        }
        let quoted = tests.iter().fold(String::new(), |all, name| all + " " + name);
        let run = format!(
            "cd {} && {ALLOWS_TIMED} {} --test-threads=1 {} --exact{quoted}\n",
            package.display(),
            program.tests.display(),
            TIMED.join(" ")
        );
        self.write("/tests", &run, 0o755)
    }

    /// Packs it as the kernel unpacks it.
    fn pack(&self, path: PathBuf) -> Result<PathBuf> {
        let archive = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        let mut find = Command::new("find");
        let mut find =
            find.arg(".").current_dir(&self.0).stdout(Stdio::piped()).spawn().context("starting find")?;
        let mut cpio = Command::new("cpio");
        cpio.args(["--create", "--format=newc", "--owner=+0:+0", "--quiet"]).current_dir(&self.0);
        cpio.stdin(find.stdout.take().map_or_else(Stdio::null, Stdio::from)).stdout(archive);
        let packed = cpio.status().context("starting cpio")?;
        if !(packed.success() && find.wait().context("waiting for find")?.success()) {
            bail!("{} failed: {packed}", command::render(&cpio));
        }
        Ok(path)
    }
}

/// Reads what `modprobe --show-depends` prints: `insmod FILE PARAMETERS` or `builtin NAME`.
fn module_files(printed: &str) -> Vec<PathBuf> {
    let files = printed.lines().filter_map(|line| line.strip_prefix("insmod ")?.split(' ').next());
    files.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    //! Reading what modprobe prints, and what the guest and its listener must agree on.

    use super::*;

    #[test]
    fn the_guest_says_its_status_as_it_is_expected() {
        assert!(INIT.contains(&format!("echo \"{STATUS}$?\"")), "{INIT}");
    }

    #[test]
    fn built_in_modules_need_no_file() {
        let printed =
            "builtin udp_tunnel\ninsmod /root/lib/modules/6.1/wireguard.ko \ninsmod /root/x.ko.xz option=1\n";
        assert_eq!(
            module_files(printed),
            ["/root/lib/modules/6.1/wireguard.ko", "/root/x.ko.xz"].map(PathBuf::from)
        );
    }
}
