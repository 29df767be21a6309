//! A recording as a picture: an SVG file that shows each line at its time, and all of them from then on.
//!
//! Browsers run no scripts in pictures and load nothing for them, so that style sheets alone move it. Programs that
//! know no animation show it as it is at its end, and so do browsers of people who want nothing to move.

use std::fmt::Write as _;

use super::recording::{Line, Look};

/// A character of the terminal, in pixels.
const WIDTH: f64 = 7.8;
const HEIGHT: f64 = 17.0;

/// Between the terminal's edge and its text.
const MARGIN: f64 = 16.0;

const STYLE: &str = "<style>
svg {
--paper: #f6f8fa; --edge: #d1d9e0; --ink: #1f2328; --dim: #656d76; --red: #cf222e; --green: #1a7f37; --cyan: #0f6f78;
}
@media (prefers-color-scheme: dark) {
svg {
--paper: #0d1117; --edge: #3d444d; --ink: #e6edf3; --dim: #9198a1; --red: #ff7b72; --green: #56d364; --cyan: #56d4dd;
}
}
rect { fill: var(--paper); stroke: var(--edge); }
text {
font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace;
fill: var(--ink); animation: wait 0s;
}
.bold { font-weight: bold; }
.dim { fill: var(--dim); }
.red { fill: var(--red); }
.green { fill: var(--green); }
.cyan { fill: var(--cyan); }
@keyframes wait { from, to { visibility: hidden; } }
@media (prefers-reduced-motion: reduce) { text { animation-name: none; } }
</style>
";

/// The picture of what a command has printed; `title` is for those who can't see it.
pub fn draw(title: &str, command: &str, recording: &[Line]) -> String {
    let columns = recording.iter().map(columns).max().unwrap_or(0).max(command.chars().count() + 2);
    let width = (columns as f64 * WIDTH + 2.0 * MARGIN).ceil();
    let rows = recording.iter().rposition(|line| !line.spans.is_empty()).map_or(0, |last| last + 1);
    let height = (rows + 1) as f64 * HEIGHT + 2.0 * MARGIN;
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n{STYLE}\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n",
        width - 1.0,
        height - 1.0,
    );
    let prompt = format!("$ {}", escaped(command));
    let _ = writeln!(svg, r#"<text x="{MARGIN}" y="{}" class="dim">{prompt}</text>"#, baseline(0));
    for (row, line) in (1..).zip(recording).filter(|(_, line)| !line.spans.is_empty()) {
        draw_line(&mut svg, row, line);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Each piece has its place and its length, so that columns stand below each other in whatever font there is.
fn draw_line(svg: &mut String, row: usize, line: &Line) {
    let wait = match (line.at.as_secs_f64() * 100.0).round() / 100.0 {
        0.0 => String::new(),
        seconds => format!(r#" style="animation-duration:{seconds}s""#),
    };
    let _ = write!(svg, r#"<text y="{}"{wait}>"#, baseline(row));
    let mut before = 0;
    for span in &line.spans {
        for (column, piece) in pieces(&span.text) {
            let x = tenths(MARGIN + (before + column) as f64 * WIDTH);
            let length = tenths(piece.chars().count() as f64 * WIDTH);
            let class = class(span.look);
            let _ = write!(svg, r#"<tspan x="{x}" textLength="{length}"{class}>{}</tspan>"#, escaped(piece));
        }
        before += span.text.chars().count();
    }
    svg.push_str("</text>\n");
}

/// What blanks set apart, two or more, each with its column: XML takes them for one.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    text.split("  ").filter_map(move |piece| {
        let column = next + piece.len() - piece.trim_start_matches(' ').len();
        next += piece.chars().count() + 2;
        let piece = piece.trim_matches(' ');
        (!piece.is_empty()).then_some((column, piece))
    })
}

fn columns(line: &Line) -> usize {
    line.spans.iter().map(|span| span.text.chars().count()).sum()
}

fn baseline(row: usize) -> f64 {
    MARGIN + row as f64 * HEIGHT + 13.0
}

fn tenths(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

const fn class(look: Look) -> &'static str {
    match look {
        Look::Plain => "",
        Look::Bold => r#" class="bold""#,
        Look::Dim => r#" class="dim""#,
        Look::Red => r#" class="red""#,
        Look::Green => r#" class="green""#,
        Look::Cyan => r#" class="cyan""#,
    }
}

/// As XML writes it, in text and between quotation marks.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    //! The picture of a fixed recording, and the one that the front page shows.

    use std::fs;
    use std::time::Duration;

    use roxmltree::{Document, Node};

    use super::super::recording::Span;
    use super::*;
    use crate::command;

    const MOST_BYTES: usize = 60_000;

    fn line(millis: u64, spans: &[(&str, Look)]) -> Line {
        let span = |&(text, look): &(&str, Look)| Span { text: text.to_owned(), look };
        Line { at: Duration::from_millis(millis), spans: spans.iter().map(span).collect() }
    }

    fn drawn() -> String {
        let recording = [
            line(0, &[]),
            line(3, &[("<b> & \"c\" 'd'", Look::Bold)]),
            line(1_234, &[("   200", Look::Plain), ("      7   9 ", Look::Red), ("██░░", Look::Green)]),
        ];
        draw("Packets < limit & \"more\"", "demo --loud > file", &recording)
    }

    fn texts<'d>(document: &'d Document<'_>, name: &'static str) -> Vec<Node<'d, 'd>> {
        document
            .descendants()
            .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name)))
            .collect()
    }

    #[test]
    fn a_picture_is_xml_that_says_what_was_printed() {
        let svg = drawn();
        let document = Document::parse(&svg).unwrap();
        assert_eq!(document.root_element().attribute("aria-label"), Some("Packets < limit & \"more\""));
        let said: Vec<&str> = texts(&document, "tspan").iter().filter_map(Node::text).collect();
        assert_eq!(said, ["<b> & \"c\" 'd'", "200", "7", "9", "██░░"]);
        assert_eq!(texts(&document, "text")[0].text(), Some("$ demo --loud > file"));
    }

    #[test]
    fn each_line_waits_for_its_time_and_each_piece_stands_in_its_column() {
        let svg = drawn();
        let document = Document::parse(&svg).unwrap();
        let waits: Vec<_> = texts(&document, "text").iter().map(|text| text.attribute("style")).collect();
        assert_eq!(waits, [None, None, Some("animation-duration:1.23s")]);
        let column = |piece: &Node<'_, '_>| {
            let pixels = |name| piece.attribute(name).unwrap().parse::<f64>().unwrap();
            (((pixels("x") - MARGIN) / WIDTH).round(), (pixels("textLength") / WIDTH).round())
        };
        let columns: Vec<_> = texts(&document, "tspan").iter().map(column).collect();
        assert_eq!(columns, [(0.0, 13.0), (3.0, 3.0), (12.0, 1.0), (16.0, 1.0), (18.0, 4.0)]);
    }

    #[test]
    fn the_front_page_shows_a_picture_that_moves_without_scripts_and_is_small() {
        let readme = fs::read_to_string(command::workspace().join("README.md")).unwrap();
        let (_, shown) = readme.split_once("](docs/pictures/demo.svg)").expect("README.md shows the demo");
        let svg = fs::read_to_string(command::workspace().join("docs/pictures/demo.svg")).unwrap();
        assert!(svg.len() < MOST_BYTES, "{} bytes", svg.len());
        let document = Document::parse(&svg).unwrap();
        let waits = |text: &Node<'_, '_>| text.attribute("style").is_some();
        assert!(texts(&document, "text").iter().filter(|text| waits(text)).count() > 15);
        let said: Vec<&str> = texts(&document, "tspan").iter().filter_map(Node::text).collect();
        let quoted = shown.split("```").nth(1).unwrap().lines().skip(1);
        for line in quoted {
            assert!(
                said.contains(&line),
                "README.md says `{line}` of the demo, which the picture does not show"
            );
        }
        for name in ["script", "image", "foreignObject", "a"] {
            assert!(texts(&document, name).is_empty(), "<{name}>");
        }
        assert!(
            svg.contains(STYLE),
            "drawn by an older program; `cargo xtask demo --record docs/pictures/demo.svg`"
        );
    }
}
