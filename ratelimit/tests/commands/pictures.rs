//! The picture of the algorithms in `docs/algorithms.md`, drawn from what `ratelimit simulate` says of the same
//! arrivals.
//!
//! `RENEW=1 cargo test -p ratelimit --test commands pictures` draws it anew.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use serde_json::Value;

use crate::simulate::success;

/// The limits, from the top down, and what is said of each.
pub const LIMITS: [(&str, &str); 6] = [
    ("token_bucket,rate=5/s", "tokens come back one by one"),
    ("token_bucket,rate=5/s,refill=interval", "tokens come back five at a time"),
    ("leaky_bucket,rate=5/s,on_limit=delay", "what is allowed leaves one by one (the ticks)"),
    ("fixed_window,rate=5/s", "each second starts at zero: ten pass within 0.8 s"),
    ("sliding_window_counter,rate=5/s", "the second before counts by its overlap"),
    ("sliding_window_log,rate=5/s", "never more than five in any second"),
];

/// Pixels: of a second, of a panel, of a request, and where panels begin.
const SECOND: f64 = 130.0;
const PANEL: f64 = 112.0;
const REQUEST: f64 = 6.0;
const LEFT: f64 = 20.0;

/// What is shown of the time.
const SECONDS: u32 = 6;

const STYLE: &str = "  <style>
    svg { --ink: #1f2328; --faint: #d0d7de; --pass: #0969da; --deny: #cf222e; }
    @media (prefers-color-scheme: dark) {
      svg { --ink: #e6edf3; --faint: #3d444d; --pass: #4493f8; --deny: #f85149; }
    }
    text { font: 12px sans-serif; fill: var(--ink); }
    .limit { font: bold 12px monospace; }
    .grid { stroke: var(--faint); }
    .left { stroke: var(--ink); fill: none; opacity: 0.45; }
    .pass { fill: var(--pass); }
    .deny { fill: none; stroke: var(--deny); }
    .leave { stroke: var(--pass); stroke-width: 2; }
  </style>
";

/// One panel: a limit, what it says of each arrival, and where it is drawn.
struct Panel<'p> {
    limit: &'p str,
    remark: &'p str,
    decisions: Vec<Value>,
    top: f64,
}

impl Panel<'_> {
    fn base(&self) -> f64 {
        self.top + PANEL - 24.0
    }

    fn draw(&self, svg: &mut String) {
        let (left, base) = (LEFT, self.base());
        let _ = writeln!(
            svg,
            r#"  <text class="limit" x="{left}" y="{}">{}</text>"#,
            self.top + 14.0,
            self.limit
        );
        let right = x(f64::from(SECONDS));
        let _ = writeln!(
            svg,
            r#"  <text x="{right}" y="{}" text-anchor="end">{}</text>"#,
            self.top + 14.0,
            self.remark
        );
        for second in 0..=SECONDS {
            let at = x(f64::from(second));
            let _ = writeln!(svg, r#"  <path class="grid" d="M{at} {}V{}"/>"#, self.top + 20.0, base + 4.0);
        }
        let _ = writeln!(svg, r#"  <path class="grid" d="M{left} {base}H{right}"/>"#);
        self.draw_what_is_left(svg);
        self.draw_requests(svg);
    }

    /// A line of `remaining`, from decision to decision; five are as high as five requests.
    fn draw_what_is_left(&self, svg: &mut String) {
        let mut path = format!("M{} {}", x(0.0), self.base() - 5.0 * 2.0 * REQUEST);
        for decision in &self.decisions {
            let left = decision["remaining"].as_f64().unwrap();
            let _ = write!(path, "H{}V{}", x(seconds(decision)), self.base() - left * 2.0 * REQUEST);
        }
        let _ = writeln!(svg, r#"  <path class="left" d="{path}"/>"#);
    }

    /// Requests of the same time stand on each other.
    fn draw_requests(&self, svg: &mut String) {
        let mut heights: BTreeMap<u64, f64> = BTreeMap::new();
        for decision in &self.decisions {
            let at = seconds(decision);
            let height = heights.entry(at.to_bits()).or_insert(0.0);
            let (cx, cy) = (x(at), self.base() - REQUEST - *height);
            *height += REQUEST;
            let is_allowed = decision["allow"].as_bool().unwrap();
            let class = if is_allowed { "pass" } else { "deny" };
            let _ = writeln!(svg, r#"  <circle class="{class}" cx="{cx}" cy="{cy:.1}" r="2.5"/>"#);
            if let Some(delay) = decision["leaves_after"].as_f64() {
                let at = x(at + delay);
                let _ = writeln!(svg, r#"  <path class="leave" d="M{at} {}v8"/>"#, self.base());
            }
        }
    }
}

fn seconds(decision: &Value) -> f64 {
    decision["seconds"].as_f64().unwrap()
}

/// Where a time is, in tenths of a pixel.
fn x(seconds: f64) -> f64 {
    ((LEFT + seconds * SECOND) * 10.0).round() / 10.0
}

fn draw(arrivals: &str) -> String {
    let (width, height) = (x(f64::from(SECONDS)) + 20.0, PANEL * 6.0 + 40.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         {STYLE}"
    );
    for (index, (limit, remark)) in (0_u32..).zip(LIMITS) {
        let output = success(&["--limit", limit, "--output", "json"], arrivals);
        let lines = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let decisions: Vec<Value> = lines.filter(|line| line.get("allow").is_some()).collect();
        Panel { limit, remark, decisions, top: PANEL * f64::from(index) }.draw(&mut svg);
    }
    let bottom = PANEL * 6.0;
    for second in 0..=SECONDS {
        let at = x(f64::from(second));
        let _ = writeln!(svg, r#"  <text x="{at}" y="{bottom}" text-anchor="middle">{second} s</text>"#);
    }
    let legend = bottom + 26.0;
    let _ = writeln!(svg, r#"  <circle class="pass" cx="24" cy="{}" r="3.5"/>"#, legend - 4.0);
    let _ = writeln!(svg, r#"  <text x="34" y="{legend}">allowed</text>"#);
    let _ = writeln!(svg, r#"  <circle class="deny" cx="104" cy="{}" r="3.5"/>"#, legend - 4.0);
    let _ = writeln!(svg, r#"  <text x="114" y="{legend}">denied</text>"#);
    let _ = writeln!(svg, r#"  <path class="left" d="M174 {}h20"/>"#, legend - 4.0);
    let _ = writeln!(svg, r#"  <text x="200" y="{legend}">what is left after each</text>"#);
    svg.push_str("</svg>\n");
    svg
}

#[test]
fn pictures_are_what_simulate_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    let drawn = draw(&fs::read_to_string(directory.join("arrivals.txt")).unwrap());
    let path = directory.join("algorithms.svg");
    if std::env::var_os("RENEW").is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        drawn == committed,
        "docs/pictures/algorithms.svg is not what `simulate` says; draw it anew with `RENEW=1 cargo test -p ratelimit \
         --test commands pictures`"
    );
}
