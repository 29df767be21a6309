//! Unix sockets, and how they come and go.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
};

use crate::support::{Answer, Fixture, question, request, unix};

#[test]
fn a_socket_answers_and_is_removed_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("rules.yaml"), crate::support::RULES).unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let lines = format!("listen: {{http: 'unix:{}', grpc: 'unix:{}'}}", at("http.sock"), at("grpc.sock"));
    let fixture = Fixture::in_directory(directory, &lines);
    let path = unix(&fixture.servers.addresses().http[0]);
    let stream = UnixStream::connect(&path).unwrap();
    let answer = Answer::read(stream, &request("POST", "/v1/check", &[], question("user", "a").as_bytes()));
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("1")));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    UnixStream::connect(unix(&fixture.servers.addresses().grpc[0])).unwrap();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(fixture.servers.drain());
    assert!(!path.exists());
}

#[test]
fn what_is_in_the_way_is_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("rules.yaml"), crate::support::RULES).unwrap();
    let path = directory.path().join("precious");
    fs::write(&path, "precious").unwrap();
    let lines = format!("listen: {{http: 'unix:{}'}}", path.display());
    let policy = crate::support::application(directory.path(), &lines);
    let start = || {
        let service =
            std::sync::Arc::new(ratelimit::application::Service::new(&policy.service_policy()).unwrap());
        ratelimit::server::Servers::start(&policy, service)
    };
    let error = start().unwrap_err().to_string();
    assert!(error.contains("precious: can't listen there (a regular file is there)"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");

    fs::remove_file(&path).unwrap();
    let first = start().unwrap();
    let error = start().unwrap_err().to_string();
    assert!(error.contains("in use") && error.contains("choose another address"), "{error}");
    drop(first);
}
