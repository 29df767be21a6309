//! Ways of writing what is one, and ways of hiding what is another.

use proptest::prelude::*;

use super::*;

const FORM: PathForm = PathForm { ignore_case: false, escaped_slashes: EscapedSlashes::Keep };
const DECODED: PathForm = PathForm { ignore_case: false, escaped_slashes: EscapedSlashes::Decode };
const REFUSED: PathForm = PathForm { ignore_case: false, escaped_slashes: EscapedSlashes::Refuse };

#[test]
fn a_path_has_one_form() {
    for (target, expected) in [
        ("/login", "/login"),
        ("/login?next=http://x/home", "/login"),
        ("/login#http://x/home", "/login"),
        ("/a:b@c,d=1,e", "/a:b@c,d=1,e"),
        ("//login", "/login"),
        ("///a//b///", "/a/b/"),
        ("/./login", "/login"),
        ("/x/../login", "/login"),
        ("/../../login", "/login"),
        ("/x/%2e%2E/login", "/login"),
        ("/x//../login/.", "/login/"),
        ("/login/..", "/"),
        ("/.well-known/a..b/...", "/.well-known/a..b/..."),
        ("/%6Cogi%6e", "/login"),
        ("/a%2fb%c3%bc", "/a%2Fb%C3%BC"),
        ("/ü b", "/%C3%BC%20b"),
        ("/a%3Ab%40c%2cd%3D1%2Ce", "/a:b@c,d=1,e"),
        ("/%21%24%26%27%28%29%2A%2B", "/!$&'()*+"),
        ("/a\"<>[]\\^`{|}", "/a%22%3C%3E%5B%5D%5C%5E%60%7B%7C%7D"),
        ("/a%22%3c%3e%5b%5d%5c%5e%60%7b%7c%7d", "/a%22%3C%3E%5B%5D%5C%5E%60%7B%7C%7D"),
        ("/a%3Fb%23c", "/a%3Fb%23c"),
        ("/100%/%4/%zz/%", "/100%25/%254/%25zz/%25"),
        ("/100%25/%254/%25zz/%25", "/100%25/%254/%25zz/%25"),
        ("/%252e%252e/", "/%252e%252e/"),
        ("/login;a=b", "/login"),
        ("/login%3ba", "/login"),
        ("/x;a/..;b/login;", "/login"),
        ("/x/..%3B/login", "/login"),
        ("/;/login/;a", "/login/"),
        ("/", "/"),
        ("", "/"),
        ("https://shop.example/buy?y", "/buy"),
        ("https://shop.example?a=/b", "/"),
        ("https://shop.example", "/"),
        ("*", "*"),
    ] {
        assert_eq!(path(target.as_bytes(), FORM), expected, "{target}");
    }
    assert_eq!(path(b"/\xff", FORM), "/%FF");
}

#[test]
fn escaped_slashes_are_what_the_server_takes_them_for() {
    for (target, kept, decoded) in [
        ("/a%2fb", "/a%2Fb", "/a/b"),
        ("/x/..%2Flogin", "/x/..%2Flogin", "/login"),
        ("/x%5c..\\login", "/x%5C..%5Clogin", "/login"),
        ("/%2f%2Flogin", "/%2F%2Flogin", "/login"),
        ("%2Flogin", "%2Flogin", "/login"),
        ("/login%5C", "/login%5C", "/login/"),
    ] {
        assert_eq!(path(target.as_bytes(), FORM), kept, "{target}");
        assert_eq!(path(target.as_bytes(), REFUSED), kept, "{target}");
        assert_eq!(path(target.as_bytes(), DECODED), decoded, "{target}");
    }
}

#[test]
fn case_is_ignored_where_the_server_ignores_it() {
    let form = PathForm { ignore_case: true, ..FORM };
    assert_eq!(path(b"/Log%49n/%c3%9c%2f", form), "/login/%C3%9C%2F");
    let target = RequestTarget::parse(b"/Login?A=B", form).unwrap();
    assert_eq!((target.forwarded(), target.path()), ("/Login?A=B", "/login"));
}

#[test]
fn what_is_forwarded_is_what_is_judged() {
    for (target, forwarded, judged) in [
        ("/", "/", "/"),
        ("/login?a=/../b", "/login?a=/../b", "/login"),
        ("/x/%2e%2e//./%6Cogin", "/login", "/login"),
        ("/../../login", "/login", "/login"),
        ("/x/..;/login", "/login", "/login"),
        ("/login;jsessionid=1/a", "/login;jsessionid=1/a", "/login/a"),
        ("/;jsessionid=1", "/;jsessionid=1", "/"),
        ("/a/;x/../b", "/b", "/b"),
        ("/a%3bb", "/a%3Bb", "/a"),
        ("/a%2bb%20c", "/a%2Bb%20c", "/a+b%20c"),
        ("/a\"b?c\"d", "/a%22b?c%22d", "/a%22b"),
        ("/a?100%&\u{fc}", "/a?100%&%C3%BC", "/a"),
        ("/a#b?c", "/a", "/a"),
        ("/a?b#c", "/a?b", "/a"),
        ("/%c3%BC%ff", "/%C3%BC%FF", "/%C3%BC%FF"),
    ] {
        let parsed = RequestTarget::parse(target.as_bytes(), REFUSED).unwrap();
        assert_eq!((parsed.forwarded(), parsed.path()), (forwarded, judged), "{target}");
    }
    let target = RequestTarget::parse(b"/a%2fb/..%5c%5Cc", DECODED).unwrap();
    assert_eq!((target.forwarded(), target.path()), ("/a/c", "/a/c"));
    let target = RequestTarget::parse(b"/a%2fb/..%5c\\c", FORM).unwrap();
    assert_eq!((target.forwarded(), target.path()), ("/a%2Fb/..%5C%5Cc", "/a%2Fb/..%5C%5Cc"));
}

#[test]
fn what_servers_understand_in_different_ways_is_refused() {
    use TargetError::*;
    for (target, error) in [
        (&b""[..], NoPath),
        (b"*", NoPath),
        (b"login", NoPath),
        (b"?a", NoPath),
        (b"\\login", NoPath),
        (b"http://shop.example/login", NoPath),
        (b"/login%00.png", Nul),
        (b"/login\0", Nul),
        (b"/login\t", Control),
        (b"/log in", Control),
        (b"/a?b c", Control),
        (b"/a?\r\nx", Control),
        (b"/a\x7f", Control),
        (b"/login%0A", Control),
        (b"/login%09", Control),
        (b"/a%7f", Control),
        (b"/100%", Escape),
        (b"/%4", Escape),
        (b"/%zz", Escape),
        (b"/%u002e", Escape),
        (b"/%%32e", Escape),
        (b"/x/%c0%ae%c0%ae/login", Overlong),
        (b"/x%C1%9Clogin", Overlong),
        (b"/x/%e0%80%ae/login", Overlong),
        (b"/x/%f0%80%80%ae/login", Overlong),
        (b"/x/\xc0%ae/login", Overlong),
        (b"/x/..%2flogin", Slash),
        (b"/x/..%5Clogin", Slash),
        (b"/x/..\\login", Slash),
    ] {
        assert_eq!(RequestTarget::parse(target, REFUSED), Err(error), "{}", target.escape_ascii());
    }
}

#[test]
fn a_path_has_the_template_whose_names_it_has() {
    let mut templates = PathTemplates::default();
    for text in ["/", "/users/{id}", "/users/me", "/users/{id}/posts/{post}", "/files/{*rest}", "/v{version}"]
    {
        templates.add(text, FORM).unwrap();
    }
    for (target, expected) in [
        ("/", Some("/")),
        ("/users/7", Some("/users/{id}")),
        ("/users/7/", Some("/users/{id}")),
        ("/users/7;a=b", Some("/users/{id}")),
        ("//users/./7", Some("/users/{id}")),
        ("/users/me", Some("/users/me")),
        ("/users/%6de/", Some("/users/me")),
        ("/users/me/posts/1", Some("/users/{id}/posts/{post}")),
        ("/files/a/b", Some("/files/{*rest}")),
        ("/v2", Some("/v{version}")),
        ("/files", None),
        ("/users", None),
        ("/users/7/x", None),
        ("/Users/7", None),
    ] {
        let path = path(target.as_bytes(), FORM);
        assert_eq!(templates.find(&path).map(|found| found.template()), expected, "{target}");
    }
    let path = path(b"/users/7/posts/a%2Fb", FORM);
    let found = templates.find(&path).unwrap();
    assert_eq!((found.parameter("id"), found.parameter("post")), (Some("7"), Some("a%2Fb")));
    assert_eq!(found.parameter("rest"), None);
    assert!(templates.has_parameter("rest") && templates.has_parameter("post"));
    assert!(!templates.has_parameter("*rest") && !templates.has_parameter("users"));
}

#[test]
fn what_is_no_template_is_refused() {
    let mut templates = PathTemplates::default();
    templates.add("/users/{id}", FORM).unwrap();
    for (text, expected) in [
        ("users/{id}", "begins with a slash"),
        ("", "begins with a slash"),
        ("/users/{name}", "is for the same paths as /users/{id}"),
        ("/users/{id}/", "is for the same paths as /users/{id}"),
        ("/a//b", "write /a/b"),
        ("/a/../b", "write /b"),
        ("/%61;x/{id}", "write /a/{id}"),
        ("/a b", "write /a%20b"),
        ("/{id}x", "braces name a parameter"),
        ("/{id", "braces name a parameter"),
        ("/id}", "braces name a parameter"),
        ("/{}", "braces name a parameter"),
        ("/{*rest}/a", "braces name a parameter"),
        ("/{a}{b}", "braces name a parameter"),
        ("/{{a}}", "braces name a parameter"),
    ] {
        let error = templates.add(text, FORM).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = templates.add("/Users", PathForm { ignore_case: true, ..FORM }).unwrap_err();
    assert!(error.to_string().contains("write /users"), "{error}");
}

/// Parts of paths that somebody could want to hide something with.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        "[a-zA-Z0-9%;?#.&=+ ]{0,3}".prop_map(String::into_bytes),
        prop::sample::select(vec![
            "/",
            "//",
            ".",
            "..",
            "/..",
            "/../",
            "/./",
            "%2e",
            "%2E%2e",
            ".%2e",
            "%2f",
            "%2F",
            "%5c",
            "\\",
            ";",
            "%3b",
            ";a=b",
            "..;",
            "%00",
            "%c0%ae",
            "%25",
            "%252e",
            "%",
            "%zz",
            "*",
            "?",
            "#",
            "ü",
            "http://a/",
        ])
        .prop_map(|part| part.as_bytes().to_vec()),
        any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

fn forms() -> impl Strategy<Value = PathForm> {
    let slashes =
        prop::sample::select(vec![EscapedSlashes::Keep, EscapedSlashes::Decode, EscapedSlashes::Refuse]);
    (any::<bool>(), slashes)
        .prop_map(|(ignore_case, escaped_slashes)| PathForm { ignore_case, escaped_slashes })
}

proptest! {
    #[test]
    fn a_form_is_its_own_form(target in hostile(), form in forms()) {
        let once = path(&target, form);
        prop_assert_eq!(path(once.as_bytes(), form), once);
    }

    #[test]
    fn no_path_leads_above_the_root(target in hostile(), form in forms()) {
        let judged = path(&[b"/", &target[..]].concat(), form);
        prop_assert!(judged.starts_with('/'), "{}", judged);
        let mut segments = judged.split('/').skip(1);
        prop_assert!(!segments.any(|segment| segment == "." || segment == ".."), "{}", judged);
        prop_assert!(!judged.contains("//") && judged.is_ascii(), "{}", judged);
    }

    #[test]
    fn the_server_behind_sees_the_path_that_was_judged(target in hostile(), form in forms()) {
        let target = [b"/", &target[..]].concat();
        if let Ok(parsed) = RequestTarget::parse(&target, form) {
            prop_assert_eq!(parsed.path(), path(&target, form));
            prop_assert_eq!(parsed.path(), path(parsed.forwarded().as_bytes(), form));
            let again = RequestTarget::parse(parsed.forwarded().as_bytes(), form).unwrap();
            prop_assert_eq!(again.forwarded(), parsed.forwarded());
            let (sent, query) = parsed.forwarded().split_once('?').unwrap_or((parsed.forwarded(), ""));
            let mut names = sent.split('/').skip(1).map(|segment| segment.split(';').next().unwrap());
            prop_assert!(!names.any(|name| name == "." || name == ".."), "{}", sent);
            prop_assert!(!sent.contains("//") && sent.is_ascii() && query.is_ascii(), "{}", sent);
            let is_control = |byte: u8| byte <= b' ' || byte == 0x7F;
            prop_assert!(!parsed.forwarded().bytes().any(is_control));
        }
    }

    #[test]
    fn templates_never_panic(target in hostile(), template in "(/|\\{|\\}|[a-z*.%;]){0,12}", form in forms()) {
        let mut templates = PathTemplates::default();
        let _ = templates.add("/users/{id}", form);
        let _ = templates.add(&template, form);
        let path = path(&target, form);
        let _ = templates.find(&path).map(|found| found.parameter("id").map(str::to_owned));
    }
}
