//! Reads access logs of nginx and Apache in the combined format (or the common one, which lacks the last two fields):
//! `ADDRESS IDENT USER [TIME] "REQUEST" STATUS BYTES "REFERER" "USER AGENT"`. One line is in memory at a time.

use std::{
    borrow::Cow,
    io::{self, BufRead, Read as _},
    net::IpAddr,
};

use ratelimit_common::time::Nanos;

use crate::policy::application::{
    FactValue, Facts,
    target::{self, PathForm},
};

/// Longer lines are not looked at.
const LONGEST_LINE: usize = 64 * 1024;

/// A request as it was logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedRequest {
    /// When, since the Unix epoch; logs have whole seconds.
    pub time: Nanos,
    /// Who asked, as written: an address, or a name.
    pub client: String,
    /// The method, if the request was one.
    pub method: Option<String>,
    /// Path and query.
    pub target: Option<String>,
    /// `Referer`, if there was one.
    pub referer: Option<String>,
    /// `User-Agent`, if there was one.
    pub user_agent: Option<String>,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLine {
    /// A request.
    Request(Box<LoggedRequest>),
    /// Something else, or too long.
    Unread,
}

/// Lines of a log.
#[derive(Debug)]
pub struct AccessLog<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> AccessLog<R> {
    /// Reads from there.
    pub const fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), number: 0 }
    }

    /// The next line with its number, from 1; `None` at the end. Empty lines are passed over.
    ///
    /// # Errors
    /// It can't be read.
    pub fn next_line(&mut self) -> io::Result<Option<(u64, LogLine)>> {
        loop {
            self.line.clear();
            let most = LONGEST_LINE as u64 + 1;
            if self.reader.by_ref().take(most).read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.len() as u64 == most && self.line.last() != Some(&b'\n') {
                self.reader.skip_until(b'\n')?;
                return Ok(Some((self.number, LogLine::Unread)));
            }
            let line = String::from_utf8_lossy(self.line.trim_ascii());
            if !line.is_empty() {
                let request = parse(&line).map(|request| LogLine::Request(Box::new(request)));
                return Ok(Some((self.number, request.unwrap_or(LogLine::Unread))));
            }
        }
    }
}

/// A line's request; `None` if it is none.
#[must_use]
pub fn parse(line: &str) -> Option<LoggedRequest> {
    let (client, rest) = line.split_once(' ')?;
    let (client, rest) = behind_virtual_host(client, rest).unwrap_or((client, rest));
    // A user's name may have blanks and brackets in it, the time has none of both before it ends.
    let (time, rest) = rest.match_indices(" [").find_map(|(at, _)| {
        let (time, rest) = rest.get(at + 2..)?.split_once("] \"")?;
        Some((parse_time(time)?, rest))
    })?;
    let (request, rest) = quoted(rest)?;
    let mut words = rest.trim_start().splitn(3, ' ');
    words.next()?.parse::<u16>().ok()?;
    let bytes = words.next()?;
    if bytes != "-" && bytes.parse::<u64>().is_err() {
        return None;
    }
    let rest = words.next().unwrap_or_default();
    let (referer, rest) = rest.strip_prefix('"').and_then(quoted).unwrap_or_default();
    let (user_agent, _) = rest.trim_start().strip_prefix('"').and_then(quoted).unwrap_or_default();
    let (method, target) = request_line(&request);
    let given = |text: String| Some(text).filter(|text| !text.is_empty() && text != "-");
    Some(LoggedRequest {
        time,
        client: client.to_owned(),
        method,
        target,
        referer: given(referer),
        user_agent: given(user_agent),
    })
}

/// The client of a line that begins with the server's name and port, as Apache's `vhost_combined` has it.
fn behind_virtual_host<'l>(first: &str, rest: &'l str) -> Option<(&'l str, &'l str)> {
    let (_, port) = first.rsplit_once(':').filter(|_| first.parse::<IpAddr>().is_err())?;
    port.parse::<u16>().ok()?;
    rest.split_once(' ').filter(|(client, _)| client.parse::<IpAddr>().is_ok())
}

/// What stands before the closing quote, without escapes, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_at(rest.find(['"', '\\'])?);
        bytes.extend(before.as_bytes());
        if let Some(after) = after.strip_prefix('"') {
            return Some((String::from_utf8_lossy(&bytes).into_owned(), after));
        }
        let mut escape = after.get(1..)?.chars();
        match escape.next()? {
            'x' => {
                let digits = escape.as_str().get(..2)?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                escape = escape.as_str().get(2..)?.chars();
            }
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            other => bytes.extend(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        rest = escape.as_str();
    }
}

/// Method and target of `GET /path HTTP/1.1`; what clients send that is no HTTP has neither.
fn request_line(request: &str) -> (Option<String>, Option<String>) {
    let mut words = request.split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some(version), None) if version.starts_with("HTTP/") => {
            (Some(method.to_owned()), Some(target.to_owned()))
        }
        _ => (None, None),
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `10/Oct/2000:13:55:36 -0700`
fn parse_time(text: &str) -> Option<Nanos> {
    let (time, zone) = text.split_once(' ')?;
    let (day, rest) = time.split_once('/')?;
    let (month, rest) = rest.split_once('/')?;
    let mut parts = rest.split(':');
    let mut next = |most| number(parts.next()?, most);
    let (year, hour, minute, second) = (next(9999)?, next(23)?, next(59)?, next(60)?);
    let day = number(day, 31).filter(|day| *day > 0)?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let next = days_since_epoch(next_year, next_month, 1)?;
    let days = days_since_epoch(year, month, day).filter(|days| *days < next)?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    let seconds = seconds.checked_add_signed(-offset(zone)?)?;
    seconds.checked_mul(Nanos::SECOND.0).map(Nanos)
}

fn number(digits: &str, most: u64) -> Option<u64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| is_number && *number <= most)
}

/// Seconds east of Greenwich, of `+0200`.
fn offset(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    Some(sign * (number / 100 * 3_600 + number % 100 * 60))
}

/// Days from 1 January 1970 to a date, counted in years that begin in March, so that the leap day is the last one.
fn days_since_epoch(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let in_year = (153 * month + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + in_year;
    // From 1 March of the year 0 to 1970.
    days.checked_sub(719_468)
}

impl LoggedRequest {
    /// The path in its one form.
    #[must_use]
    pub fn path(&self, form: PathForm) -> Option<String> {
        self.target.as_deref().map(|target| target::path(target.as_bytes(), form))
    }
}

/// A logged request, as those see it who take paths to be in this form.
#[derive(Clone, Copy, Debug)]
pub struct LoggedFacts<'l> {
    /// The request.
    pub logged: &'l LoggedRequest,
    /// How paths are compared.
    pub path: PathForm,
}

impl Facts for LoggedFacts<'_> {
    fn client_address(&self) -> Option<IpAddr> {
        self.logged.client.parse().ok()
    }

    /// Host names in a log tell clients apart, whose addresses were known.
    fn unknown_client(&self) -> Option<&'static str> {
        None
    }

    fn method(&self) -> Option<Cow<'_, str>> {
        self.logged.method.as_deref().map(Cow::Borrowed)
    }

    fn path(&self) -> Option<Cow<'_, str>> {
        Some(self.logged.path(self.path)?.into())
    }

    /// The combined format has none.
    fn host(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn header(&self, name: &str) -> FactValue<'_> {
        let value = match name {
            "referer" => self.logged.referer.as_deref(),
            "user-agent" => self.logged.user_agent.as_deref(),
            _ => None,
        };
        value.map(Cow::Borrowed).into_iter().collect()
    }

    /// See above.
    fn cookie(&self, _: &str) -> FactValue<'_> {
        FactValue::Absent
    }

    fn query(&self, name: &str) -> FactValue<'_> {
        let target = self.logged.target.as_deref();
        target.map_or(FactValue::Absent, |target| target::parameter(target.as_bytes(), name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMBINED: &str = r#"192.0.2.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /./a//b.gi%66?x=1%20y&z=2 HTTP/1.0" 200 2326 "http://e.org/" "Mozilla/4.08 [en] (Win98; I ;Nav)""#;

    #[test]
    fn a_line_of_the_combined_format() {
        let request = parse(COMBINED).unwrap();
        let facts = LoggedFacts { logged: &request, path: PathForm::default() };
        let one = |text: &'static str| FactValue::One(text.into());
        assert_eq!(request.time, Nanos::from_secs(971_211_336));
        assert_eq!(facts.client_address(), "192.0.2.7".parse().ok());
        assert_eq!((facts.method(), facts.path()), (Some("GET".into()), Some("/a/b.gif".into())));
        assert_eq!((facts.query("x"), facts.query("z")), (one("1 y"), one("2")));
        assert_eq!(facts.query("y"), FactValue::Absent);
        assert_eq!(facts.header("referer"), one("http://e.org/"));
        assert_eq!(facts.header("user-agent"), one("Mozilla/4.08 [en] (Win98; I ;Nav)"));
        assert_eq!(
            (facts.header("cookie"), facts.cookie("a"), facts.host()),
            (FactValue::Absent, FactValue::Absent, None)
        );
    }

    #[test]
    fn what_a_request_does_not_have_is_not_there() {
        let common = r#"::1 - - [01/Jan/1970:00:00:00 +0000] "POST / HTTP/1.1" 429 -"#;
        let request = parse(common).unwrap();
        assert_eq!((request.time, request.user_agent, request.referer), (Nanos(0), None, None));
        let odd = r#"host.example - a [x] b [29/Feb/2024:23:59:60 +0530] "\x16\x03\x01 \"\\" 400 0 "-" "-""#;
        let request = parse(odd).unwrap();
        let facts = LoggedFacts { logged: &request, path: PathForm::default() };
        assert_eq!(facts.client_address(), None);
        assert_eq!((request.method, request.target, request.user_agent), (None, None, None));
        assert_eq!(request.time, Nanos::from_secs(1_709_231_400));
    }

    #[test]
    fn a_server_before_the_client_is_passed_over() {
        let line = format!("www.example.org:443 {COMBINED}");
        assert_eq!(parse(&line), parse(COMBINED));
        let named = r#"example.org:80 - - [31/Dec/1970:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#;
        assert_eq!(parse(named).unwrap().client, "example.org:80");
    }

    #[test]
    fn the_path_of_a_target_with_a_host_is_what_follows_it() {
        for (target, path) in
            [("http://e.org/a/b?x=1", "/a/b"), ("https://e.org?x=/", "/"), ("/a?u=http://e.org/b", "/a")]
        {
            let request = LoggedRequest { target: Some(target.to_owned()), ..LoggedRequest::default() };
            assert_eq!(request.path(PathForm::default()).as_deref(), Some(path), "{target}");
        }
    }

    #[test]
    fn what_is_no_line_of_a_log_is_not_read() {
        let bad = [
            "",
            "a",
            "a b c",
            r#"1.2.3.4 - - [10/Oct/2000:13:55:36] "GET / HTTP/1.0" 200 5"#,
            r#"1.2.3.4 - - [10/Okt/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 5"#,
            r#"1.2.3.4 - - [32/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 5"#,
            r#"1.2.3.4 - - [31/Feb/2000:13:55:36 +0000] "GET / HTTP/1.0" 200 5"#,
            r#"1.2.3.4 - - [29/Feb/2023:13:55:36 +0000] "GET / HTTP/1.0" 200 5"#,
            r#"1.2.3.4 - - [10/Oct/2000:24:55:36 +0000] "GET / HTTP/1.0" 200 5"#,
            r#"1.2.3.4 - - [10/Oct/2000:13:55:36 +000] "GET / HTTP/1.0" 200 5"#,
            r#"1.2.3.4 - - [01/Jan/1970:00:00:00 +0100] "GET / HTTP/1.0" 200 5"#,
            r#"1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0 200 5"#,
            r#"1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.0" OK 5"#,
            r#"1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "\xzz" 200 5"#,
            r#"1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "\"#,
        ];
        bad.iter().for_each(|line| assert_eq!(parse(line), None, "{line}"));
        for length in 0..COMBINED.len() {
            let _ = parse(&COMBINED[..length]);
        }
    }

    #[test]
    fn lines_are_numbered_and_long_ones_are_passed_over() {
        let log = format!("{COMBINED}\r\n\n{}\nx\n{COMBINED}", "a".repeat(1 << 20));
        let mut log = AccessLog::new(log.as_bytes());
        let mut found = Vec::new();
        while let Some((number, line)) = log.next_line().unwrap() {
            found.push((number, matches!(line, LogLine::Request(_))));
        }
        assert_eq!(found, [(1, true), (3, false), (4, false), (5, true)]);
    }

    #[test]
    fn days_are_counted_as_calendars_do() {
        let cases = [
            ((1970, 1, 1), 0),
            ((1970, 3, 1), 59),
            ((2000, 2, 29), 11_016),
            ((2024, 12, 31), 20_088),
            ((2100, 3, 1), 47_541),
        ];
        for ((year, month, day), days) in cases {
            assert_eq!(days_since_epoch(year, month, day), Some(days), "{year}-{month}-{day}");
        }
        assert_eq!(days_since_epoch(1969, 12, 31), None);
        assert_eq!(days_since_epoch(0, 1, 1), None);
    }
}
