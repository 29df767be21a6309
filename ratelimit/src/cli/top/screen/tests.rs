//! The screen without a terminal: what keys do, and what is drawn.

use ratatui::{Terminal, backend::TestBackend};
use ratelimit_common::sketch::{Group, SETS, Sample, SketchSet, WINDOW, stamp};

use super::*;
use crate::{
    dataplane::SeenSet,
    top::{Estimate, TopSource},
};

/// Three sources: one with many packets, one with many bytes, one that is dropped.
fn screen() -> Screen {
    let mut sums = Sums::default();
    let sample = |source: u64, bytes| Sample {
        stamp: stamp(WINDOW, if source == 0 { Group::All } else { Group::V4 }),
        source: [source << 32, 0],
        weight: 1,
        bytes,
    };
    let set = |place, dropped, samples: &[Sample]| {
        let mut set = SketchSet::default();
        samples.iter().for_each(|sample| set.count(sample));
        SeenSet { place, dropped, slots: set.0 }
    };
    sums.add(&[
        set(0, false, &[[sample(1, 60); 9].as_slice(), &[sample(2, 1_500)]].concat()),
        set(0, true, &[sample(3, 60); 2]),
        set(SETS, false, &[sample(0, 204); 10]),
        set(SETS, true, &[sample(0, 60); 2]),
    ]);
    let mut screen = Screen::new(By::Packets, Ipv6By::Address);
    screen.update(sums);
    screen
}

fn press(screen: &mut Screen, code: KeyCode) -> Wish {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn drawn(screen: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal.backend().to_string()
}

fn first(screen: &Screen) -> &str {
    &screen.top.sources[0].source
}

#[test]
fn keys_sort_and_what_is_chosen_stays_chosen() {
    let mut screen = screen();
    assert_eq!(first(&screen), "0.0.0.1");
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Char('b'));
    assert_eq!((first(&screen), screen.place()), ("0.0.0.2", Some(1)));
    press(&mut screen, KeyCode::Char('d'));
    assert_eq!((first(&screen), screen.place()), ("0.0.0.3", None));
    for _ in 0..5 {
        press(&mut screen, KeyCode::Down);
    }
    assert_eq!(screen.chosen.as_deref(), Some("0.0.0.3"));
    for code in [KeyCode::Char('q'), KeyCode::Esc] {
        assert_eq!(press(&mut screen, code), Wish::Quit);
    }
    assert_eq!(screen.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Wish::Quit);
}

#[test]
fn a_ban_is_asked_for_and_made_only_with_a_yes() {
    let mut screen = screen();
    assert_eq!(press(&mut screen, KeyCode::Char('x')), Wish::Nothing);
    assert!(!screen.asks);
    assert!(screen.foot().starts_with("choose a source with the up and down keys first"));
    press(&mut screen, KeyCode::Down);
    assert!(screen.foot().starts_with("p packets"));
    press(&mut screen, KeyCode::Char('x'));
    assert!(screen.foot().starts_with("ban 0.0.0.1 for 10 minutes?"));
    assert_eq!(press(&mut screen, KeyCode::Char('n')), Wish::Nothing);
    assert_eq!(press(&mut screen, KeyCode::Char('y')), Wish::Nothing);
    press(&mut screen, KeyCode::Char('x'));
    assert_eq!(press(&mut screen, KeyCode::Char('y')), Wish::Ban("0.0.0.1".to_owned()));
}

#[test]
fn while_everything_passes_the_screen_says_so() {
    let mut screen = screen();
    let second_line = |screen: &Screen| {
        let mut terminal = Terminal::new(TestBackend::new(80, 10)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        cells[80..160].iter().map(|cell| cell.symbol()).collect::<String>()
    };
    assert_eq!(second_line(&screen).trim(), "");
    screen.in_force = false;
    assert!(second_line(&screen).starts_with("everything passes: nobody has confirmed the rules in time"));
}

#[test]
fn on_a_narrow_screen_columns_give_way_whole_and_the_warning_is_wrapped() {
    let mut screen = screen();
    let prefix = "0.0.0.1/32".parse().unwrap();
    screen.lists = SourceLists::new(Vec::new(), Vec::new(), vec![prefix]);
    screen.in_force = false;
    screen.sort();
    let [packets, bytes] =
        [1_234_567.0, 1_234_567_890.0].map(|about| Estimate { low: about, about, high: about + 1_000.0 });
    let source = "2001:db8::5678:9abc".to_owned();
    for first in &mut screen.top.sources[..1] {
        *first = TopSource { source: source.clone(), packets, bytes, ..first.clone() };
    }
    let text = drawn(&screen, 80, 24);
    for expected in
        ["2001:db8::5678:9abc (banned)", "95 % SURE", "1,234,567 to 1,235,567\"", "begins another trial"]
    {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    assert!(text.contains("PACKETS/S") && !text.contains("BYTES/S"), "{text}");
    let text = drawn(&screen, 120, 24);
    assert!(HEADINGS.iter().all(|heading| text.contains(heading)), "{text}");
    // What it is sorted by stays to the end.
    let widths = [30, 9, 13, 9, 6, 31];
    assert_eq!(columns(&widths, 2, 80), [0, 2, 5]);
    assert_eq!(columns(&widths, 2, 200), [0, 1, 2, 3, 4, 5]);
    assert_eq!(columns(&widths, 3, 1), [0, 3]);
}

#[test]
fn what_is_drawn_fits_narrow_and_low_screens() {
    let mut screen = screen();
    let prefix = |text: &str| text.parse().unwrap();
    screen.lists = SourceLists::new(vec![prefix("0.0.0.2")], Vec::new(), vec![prefix("0.0.0.3")]);
    press(&mut screen, KeyCode::Down);
    for (width, height) in [(110, 10), (80, 24), (20, 3), (1, 1)] {
        let text = drawn(&screen, width, height);
        if width == 110 {
            let marks = ["0.0.0.1   ", "0.0.0.2 (allowed)", "0.0.0.3 (banned)"];
            for expected in
                ["SOURCE", "exact", "about 12 packets/s", "75.0 %", "x ban"].into_iter().chain(marks)
            {
                assert!(text.contains(expected), "no {expected:?} in\n{text}");
            }
        }
    }
}

#[test]
fn an_instance_that_is_taken_off_is_waited_for() {
    let mut screen = screen();
    let gone = || Err(Error::NotAttached { instance: "edge".to_owned() });
    screen.take(gone()).unwrap();
    assert!(screen.top.sources.is_empty());
    assert!(drawn(&screen, 80, 24).contains("measuring the first whole second"));
    assert!(screen.foot().contains("`edge` is not attached"), "{}", screen.foot());
    screen.take(Ok(Some(Sums::default()))).unwrap();
    assert!(screen.foot().starts_with("p packets"), "{}", screen.foot());
    assert!(screen.take(Err(Error::Object("a map"))).is_err());
}
