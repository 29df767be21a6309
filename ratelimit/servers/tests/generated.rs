//! Makes Rust of the protocol's files, without a protobuf compiler on the machine, and keeps their descriptors for
//! reflection and for JSON: what is committed in `src/proto/generated` is what they make, so that a build need not.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on fails")]

use std::{collections::BTreeMap, env, fs, path::Path};

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/proto/generated");
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

/// How it is renewed after a change of the protocol's files, or of the generator.
const RENEW: &str = "RENEW=1 cargo test -p ratelimit-servers --test generated";

/// What a request is made of; in `wire` its strings are bytes.
const OF_REQUESTS: [&str; 2] = ["RateLimitRequest", "RateLimitDescriptor"];
/// The units of time, which have no strings, and where they are.
const UNITS: (&str, &str) = (".envoy.type.v3", "crate::proto::wire::units");

#[test]
fn what_is_committed_is_what_the_protocol_s_files_make() {
    let made = tempfile::tempdir().unwrap();
    generate(made.path());
    let (made, committed) = (files_of(made.path()), files_of(Path::new(COMMITTED)));
    if env::var_os("RENEW").is_some() {
        fs::remove_dir_all(COMMITTED).unwrap();
        for (name, content) in made {
            let path = Path::new(COMMITTED).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        return;
    }
    assert!(made.keys().eq(committed.keys()), "{:?} {:?}; {RENEW}", made.keys(), committed.keys());
    for (name, content) in &made {
        assert!(committed[name] == *content, "{name} is not what {ROOT} makes; {RENEW}");
    }
}

/// The files below a directory, by their paths from there.
fn files_of(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Writes a module for each package, and `ratelimit-protos.bin`; and in `wire` the same of requests whose strings need
/// not be text.
fn generate(out_dir: &Path) {
    let files = protox::compile([SERVICE], [ROOT]).expect(SERVICE);
    fs::write(out_dir.join("ratelimit-protos.bin"), files.encode_to_vec()).unwrap();
    let wire = out_dir.join("wire");
    fs::create_dir(&wire).unwrap();
    let of_wire = tonic_prost_build::configure().emit_rerun_if_changed(false).out_dir(wire);
    of_wire.extern_path(UNITS.0, UNITS.1).compile_fds(with_bytes(files.clone())).unwrap();
    let all = tonic_prost_build::configure().emit_rerun_if_changed(false).out_dir(out_dir);
    all.build_server(false).compile_fds(files).unwrap();
}

/// The messages of requests alone, with bytes where they have strings. On the wire both are the same.
fn with_bytes(mut files: FileDescriptorSet) -> FileDescriptorSet {
    for file in &mut files.file {
        file.service.clear();
        if file.package().starts_with("envoy.") {
            file.message_type.retain(|message| OF_REQUESTS.contains(&message.name()));
        }
        file.message_type.iter_mut().for_each(make_bytes);
    }
    files
}

fn make_bytes(message: &mut DescriptorProto) {
    for field in message.field.iter_mut().filter(|field| field.r#type() == Type::String) {
        field.set_type(Type::Bytes);
    }
    message.nested_type.iter_mut().for_each(make_bytes);
}
