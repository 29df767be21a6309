//! The reverse proxy as its document says, between curl and servers of other people: nginx, and Python's.

use std::{
    fs,
    net::SocketAddr,
    process::{Command, Output},
};

use tempfile::TempDir;

use crate::{
    http::Answer,
    process::{Process, accepts, free_address, from_document, program, until, without_rights},
};

/// A proxy that passes all on.
pub const UNLIMITED: &str = "application:
  proxy:
    - listen: 127.0.0.1:8000
      routes: [{upstreams: 'http://127.0.0.1:3000'}]
";

/// A daemon with this configuration, but before a server at this address, and at an address of its own.
pub fn start_proxy(directory: &TempDir, server: SocketAddr, config: &str) -> (SocketAddr, Process) {
    start_proxy_with(without_rights(env!("CARGO_BIN_EXE_ratelimit")), directory, server, config)
}

/// The same with a command that starts it.
pub fn start_proxy_with(
    mut command: Command,
    directory: &TempDir,
    server: SocketAddr,
    config: &str,
) -> (SocketAddr, Process) {
    let address = free_address();
    assert!(config.contains("127.0.0.1:8000") && config.contains("127.0.0.1:3000"), "{config}");
    let config = config.replace("127.0.0.1:8000", &address.to_string());
    let config = config.replace("127.0.0.1:3000", &server.to_string());
    let control = directory.path().join("control.sock");
    let file = directory.path().join("ratelimit.yaml");
    fs::write(&file, format!("control: {}\n{config}", control.display())).unwrap();
    let mut daemon = Process::start(command.arg("run").arg("--config").arg(&file));
    until("the daemon's start", || {
        assert!(daemon.is_running(), "the daemon has ended");
        accepts(address)
    });
    (address, daemon)
}

/// nginx with a page, a large file, and these locations.
pub fn start_nginx(directory: &TempDir, server: SocketAddr, locations: &str) -> Process {
    let config = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr crit; events {{}}
http {{ access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d;
scgi_temp_path e; client_max_body_size 0; absolute_redirect off; server {{ listen {server}; root html; {locations} }} }}
"
    );
    fs::write(directory.path().join("nginx.conf"), config).unwrap();
    fs::create_dir_all(directory.path().join("html")).unwrap();
    fs::write(directory.path().join("html/page"), "a page").unwrap();
    fs::write(directory.path().join("html/large"), vec![7; 20 << 20]).unwrap();
    let mut command = Command::new(program("RATELIMIT_NGINX"));
    let prefix = format!("{}/", directory.path().display());
    let process = Process::start(command.args(["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"]));
    until("the start of nginx", || accepts(server));
    process
}

/// A server, and a proxy in front of it.
struct Protected {
    directory: TempDir,
    address: SocketAddr,
    _server: Process,
    _daemon: Process,
}

impl Protected {
    /// With the files and the commands of the document, at ports of its own.
    fn by_document() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("page.html"), "a page").unwrap();
        let server = free_address();
        let command = from_document("docs/proxy.md", "sh", "-m http.server");
        assert!(command.contains("3000 --bind 127.0.0.1"), "{command}");
        let command = command.replace("3000", &server.port().to_string());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {}", command.trim())]).current_dir(directory.path());
        let server_process = Process::start(&mut shell);
        until("the start of the server", || accepts(server));
        let rules = from_document("docs/proxy.md", "yaml", "# web.yaml");
        fs::write(directory.path().join("web.yaml"), rules).unwrap();
        let config = from_document("docs/proxy.md", "yaml", "# ratelimit.yaml");
        Self::start(directory, server, server_process, &config)
    }

    fn start(directory: TempDir, server: SocketAddr, server_process: Process, config: &str) -> Self {
        let (address, daemon) = start_proxy(&directory, server, config);
        Self { directory, address, _server: server_process, _daemon: daemon }
    }

    /// Before nginx with these locations, without limits.
    fn before_nginx(locations: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = free_address();
        let process = start_nginx(&directory, server, locations);
        Self::start(directory, server, process, UNLIMITED)
    }

    fn curl(&self, arguments: &[&str], path: &str) -> Output {
        let url = format!("http://{}{path}", self.address);
        Command::new(program("RATELIMIT_CURL")).args(["-s"]).args(arguments).arg(url).output().unwrap()
    }

    fn get(&self, arguments: &[&str], path: &str) -> Answer {
        Answer::parse(&self.curl(&[&["-i"], arguments].concat(), path).stdout)
    }
}

#[test]
fn a_web_server_is_protected_as_the_document_says() {
    let protected = Protected::by_document();
    let page = protected.get(&[], "/page.html");
    assert_eq!((page.status, page.body.as_str()), (200, "a page"));
    assert_eq!(page.header("x-ratelimit-limit"), Some("10"));
    let head = protected.get(&["-I"], "/page.html");
    assert_eq!((head.status, head.header("content-length"), head.body.as_str()), (200, Some("6"), ""));
    let since = format!("if-modified-since: {}", page.header("last-modified").unwrap());
    assert_eq!(protected.get(&["-H", &since], "/page.html").status, 304);
    assert_eq!(
        protected.get(&["-d", "x"], "/page.html").status,
        501,
        "the server takes no POST, and says so"
    );
    let ask = from_document("docs/proxy.md", "sh", "for i in");
    let ask = ask.replace("curl", &program("RATELIMIT_CURL").display().to_string());
    let ask = ask.replace("127.0.0.1:8000", &protected.address.to_string());
    let output = Command::new("sh").args(["-c", &ask]).output().unwrap();
    let counts = String::from_utf8(output.stdout).unwrap();
    let count = |status: &str| {
        let line = counts.lines().find_map(|line| line.trim().strip_suffix(status)).unwrap_or("0");
        line.trim().parse::<u32>().unwrap()
    };
    // Some come back while curl starts, on a slow machine all.
    assert_eq!(count("200") + count("429"), 20, "{counts}");
    assert!(count("200") >= 6, "{counts}");
    let commands = from_document("docs/proxy.md", "sh", "ratelimit validate");
    let (validate, run) = commands.trim().split_once('\n').unwrap();
    // The test has started it with the same file.
    assert_eq!(run, "ratelimit run --config ratelimit.yaml");
    let mut validate_it = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    validate_it.args(validate.split(' ').skip(1)).current_dir(protected.directory.path());
    let valid = validate_it.output().unwrap();
    assert!(valid.status.success() && valid.stderr.is_empty(), "{valid:?}");
}

#[test]
fn nginx_answers_through_it_what_it_answers_itself() {
    let nginx =
        Protected::before_nginx("location /empty { return 204; } location /moved { return 302 /page; }");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let page = nginx.get(&[version], "/page");
        assert_eq!((page.status, page.body.as_str()), (200, "a page"), "{version}");
        let etag = page.header("etag").unwrap();
        let cached = nginx.get(&[version, "-H", &format!("if-none-match: {etag}")], "/page");
        assert_eq!((cached.status, cached.body.as_str()), (304, ""), "{version}");
        let head = nginx.get(&[version, "-I"], "/page");
        assert_eq!((head.status, head.header("content-length")), (200, Some("6")), "{version}");
        let range = nginx.get(&[version, "-r", "2-3"], "/page");
        assert_eq!((range.status, range.body.as_str()), (206, "pa"), "{version}");
        assert_eq!(nginx.get(&[version], "/empty").status, 204, "{version}");
        let moved = nginx.get(&[version], "/moved");
        assert_eq!(moved.header("location"), Some("/page"), "{version}");
        let large = nginx.curl(&[version], "/large").stdout;
        assert!(large.len() == 20 << 20 && large.iter().all(|byte| *byte == 7), "{version}");
    }
}
