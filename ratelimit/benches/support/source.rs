//! Small XDP programs in C (`benches/floor`): the floor, which does what a limiter must do and nothing else, and what
//! sends packets to it. clang compiles them when they are wanted, so the floor has another compiler and another
//! language than the product.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    env, fs,
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, Result, anyhow, bail};
use aya::{Ebpf, EbpfLoader, programs::Xdp};

/// One of them, loaded.
pub struct Compiled {
    object: Ebpf,
    name: &'static str,
}

/// The floor with these definitions, such as `RUNG=3`; floor.c says which there are.
pub fn floor(definitions: &[String]) -> Result<Compiled> {
    Compiled::load("floor.c", "least_limiter", definitions, &[])
}

impl Compiled {
    /// The program of this name in a file, with these values of its constants.
    pub fn load(
        file: &str,
        name: &'static str,
        definitions: &[String],
        constants: &[(&str, u32)],
    ) -> Result<Self> {
        let object = compile(file, definitions)?;
        let mut loader = EbpfLoader::new();
        for (constant, value) in constants {
            loader.override_global(constant, value, true);
        }
        let mut object = loader.load(&object).with_context(|| format!("reading {file}"))?;
        let program: &mut Xdp =
            object.program_mut(name).with_context(|| format!("{file} has no {name}"))?.try_into()?;
        program.load().map_err(|error| refused(file, definitions, &error.to_string()))?;
        Ok(Self { object, name })
    }

    pub fn program(&self) -> Result<BorrowedFd<'_>> {
        let program: &Xdp = self.object.program(self.name).context("a program")?.try_into()?;
        Ok(program.fd().context("its descriptor")?.as_fd())
    }
}

/// The end of what the verifier says tells why.
fn refused(file: &str, definitions: &[String], said: &str) -> anyhow::Error {
    let lines: Vec<&str> = said.trim_end().lines().collect();
    anyhow!("loading {file} with {definitions:?}: {}", lines[lines.len().saturating_sub(6)..].join("\n"))
}

/// What has been compiled, by file and definitions.
static OBJECTS: Mutex<BTreeMap<Source, Vec<u8>>> = Mutex::new(BTreeMap::new());

type Source = (String, Vec<String>);

fn compile(file: &str, definitions: &[String]) -> Result<Vec<u8>> {
    let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    match objects.entry((file.to_owned(), definitions.to_vec())) {
        Entry::Occupied(known) => Ok(known.get().clone()),
        Entry::Vacant(place) => Ok(place.insert(compile_anew(file, definitions)?).clone()),
    }
}

fn compile_anew(file: &str, definitions: &[String]) -> Result<Vec<u8>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/floor").join(file);
    let directory = tempfile::tempdir().context("a directory for an object")?;
    let object = directory.path().join("program.o");
    let mut command = Command::new(compiler()?);
    command.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3"]);
    command.args(definitions.iter().map(|definition| format!("-D{definition}")));
    let output = command.arg("-c").arg(&source).arg("-o").arg(&object).output().context("starting clang")?;
    if !output.status.success() {
        bail!("clang refuses {file}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    fs::read(&object).context("reading an object")
}

/// `$CLANG`, or `clang` from the path; a distribution may have it under the name of its version only.
fn compiler() -> Result<PathBuf> {
    if let Some(named) = env::var_os("CLANG") {
        return Ok(named.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found =
        env::split_paths(&path).map(|directory| directory.join("clang")).find(|clang| clang.is_file());
    found.context(
        "clang, which compiles the floor, is missing: `cargo xtask setup` installs it; $CLANG names another",
    )
}
