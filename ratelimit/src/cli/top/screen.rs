//! The live screen of `ratelimit top`: sorted by a key's press, with a ban for the source that is chosen.

mod signals;

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::{Alignment, Constraint, Layout, Rect},
    style::Modifier,
    text::Line,
    widgets::{Cell, Paragraph, Row, Table, TableState, Wrap},
};
use ratelimit_common::time::Nanos;

use super::{HEADINGS, Top, cells, total, windows::SketchWindows};
use crate::{
    cli::{
        InstanceArgs,
        bans::{Lasting, tell},
        failure::CommandFailure,
    },
    control::ToldBans,
    dataplane::{BanStatus, Bans, Error, NewBan, SourceLists, everything_passes, is_in_force},
    policy::{BanLength, InstanceName, Prefix},
    top::{By, Ipv6By, Sums, TopSources as Heaviest},
};

/// More sources than any screen has lines are not kept.
const MOST_ROWS: usize = 200;

/// How long a source is banned from here.
const BAN_FOR: BanLength = BanLength::For(Nanos(600 * Nanos::SECOND.0));

/// What is said until the first whole second is over.
const MEASURING: &str = "measuring the first whole second";

/// What is said of a ban of nobody.
const CHOOSE_FIRST: &str = "choose a source with the up and down keys first, then x bans it";

/// Shows the screen until the user or a signal ends it.
pub fn run(args: &Top, windows: SketchWindows) -> Result<(), CommandFailure> {
    let drawing = Arc::new(Mutex::new(()));
    signals::restore_first(&drawing).map_err(CommandFailure::failed)?;
    let mut terminal = ratatui::try_init().map_err(CommandFailure::failed)?;
    let done = show(args, windows, &mut terminal, &drawing);
    signals::restore();
    done
}

fn show(
    args: &Top,
    mut windows: SketchWindows,
    terminal: &mut DefaultTerminal,
    drawing: &Mutex<()>,
) -> Result<(), CommandFailure> {
    let mut screen = Screen::new(args.by, args.ipv6());
    let mut next = Instant::now();
    loop {
        if Instant::now() >= next {
            screen.take(windows.poll())?;
            screen.look_up_lists(&args.instance.instance)?;
            screen.in_force = is_in_force(&args.instance.instance).unwrap_or(true);
            next = windows.next_at().map_err(CommandFailure::failed)?;
        }
        {
            let _drawing = drawing.lock();
            terminal.draw(|frame| screen.draw(frame)).map_err(CommandFailure::failed)?;
        }
        if !event::poll(next.saturating_duration_since(Instant::now())).map_err(CommandFailure::failed)? {
            continue;
        }
        let Event::Key(key) = event::read().map_err(CommandFailure::failed)? else { continue };
        match screen.press(key) {
            Wish::Quit => return Ok(()),
            Wish::Ban(source) => {
                screen.message = ban(&args.instance, &source);
                screen.look_up_lists(&args.instance.instance)?;
            }
            Wish::Nothing => {}
        }
    }
}

/// What the user wants of others than the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    Quit,
    Ban(String),
}

/// What is on the screen.
struct Screen {
    by: By,
    ipv6: Ipv6By,
    sums: Sums,
    top: Heaviest,
    /// The source that is chosen: it stays so when others overtake it.
    chosen: Option<String>,
    /// Whether the user is asked if it is to be banned.
    asks: bool,
    message: String,
    /// Why there is nothing to see for the time being.
    gone: Option<String>,
    lists: SourceLists,
    /// Whether anything is dropped: not after a trial that nobody confirmed.
    in_force: bool,
}

impl Screen {
    fn new(by: By, ipv6: Ipv6By) -> Self {
        let sums = Sums::default();
        let top = sums.top(by, ipv6, 0);
        Self {
            by,
            ipv6,
            sums,
            top,
            chosen: None,
            asks: false,
            message: String::new(),
            gone: None,
            lists: SourceLists::default(),
            in_force: true,
        }
    }

    /// Takes what the program has seen. An instance that is taken off may come back.
    fn take(&mut self, polled: Result<Option<Sums>, Error>) -> Result<(), CommandFailure> {
        match polled {
            Ok(sums) => {
                self.gone = None;
                if let Some(sums) = sums {
                    self.update(sums);
                }
            }
            Err(error @ Error::NotAttached { .. }) => {
                self.gone = Some(format!("waiting for the instance  q quit  ({error})"));
                self.update(Sums::default());
            }
            Err(error) => return Err(CommandFailure::failed(error)),
        }
        Ok(())
    }

    /// Marks sources by what is in force now. An instance that is taken off has nothing in force.
    fn look_up_lists(&mut self, instance: &InstanceName) -> Result<(), CommandFailure> {
        match self.lists.update(instance) {
            Ok(()) => {}
            Err(Error::NotAttached { .. }) => self.lists = SourceLists::default(),
            Err(error) => return Err(CommandFailure::failed(error)),
        }
        self.sort();
        Ok(())
    }

    fn update(&mut self, sums: Sums) {
        self.sums = sums;
        self.sort();
    }

    fn sort(&mut self) {
        self.top = self.sums.top(self.by, self.ipv6, MOST_ROWS);
        self.top.mark(&self.lists);
    }

    fn place(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.top.sources.iter().position(|source| source.source == *chosen)
    }

    fn choose(&mut self, place: usize) {
        let last = self.top.sources.len().saturating_sub(1);
        self.chosen = self.top.sources.get(place.min(last)).map(|source| source.source.clone());
    }

    fn press(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Nothing;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if std::mem::take(&mut self.asks) {
            let chosen = self.chosen.clone().filter(|_| key.code == KeyCode::Char('y'));
            return chosen.map_or(Wish::Nothing, Wish::Ban);
        }
        self.message.clear();
        match key.code {
            KeyCode::Char('c') if is_control => return Wish::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
            KeyCode::Char('p') => self.by = By::Packets,
            KeyCode::Char('b') => self.by = By::Bytes,
            KeyCode::Char('d') => self.by = By::Drops,
            KeyCode::Char('n') => {
                let is_by_address = self.ipv6 == Ipv6By::Address;
                self.ipv6 = if is_by_address { Ipv6By::Network } else { Ipv6By::Address };
            }
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.place().map_or(0, |place| place + 1)),
            KeyCode::Up | KeyCode::Char('k') => {
                self.choose(self.place().map_or(0, |place| place.saturating_sub(1)))
            }
            KeyCode::Char('x') => {
                self.asks = self.place().is_some();
                if !self.asks {
                    CHOOSE_FIRST.clone_into(&mut self.message);
                }
            }
            _ => {}
        }
        self.sort();
        Wish::Nothing
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let total = if self.top.seconds == 0 { MEASURING.to_owned() } else { total(&self.top) };
        let warning = if self.in_force { String::new() } else { everything_passes() };
        let foot = self.foot();
        let area = frame.area();
        let [head, below, last] =
            [&total, &warning, &foot].map(|text| Constraint::Length(lines(text, area.width)));
        let rows = [head, below, Constraint::Fill(1), last];
        let [head, below, body, last] = Layout::vertical(rows).areas(area);
        let wrapped = |text: String| Paragraph::new(text).wrap(Wrap { trim: true });
        frame.render_widget(wrapped(total), head);
        frame.render_widget(wrapped(warning), below);
        self.draw_sources(frame, body);
        frame.render_widget(wrapped(foot).style(Modifier::DIM), last);
    }

    fn foot(&self) -> String {
        if let Some(gone) = &self.gone {
            return gone.clone();
        }
        match &self.chosen {
            Some(source) if self.asks => format!("ban {source} for 10 minutes? y: yes, any other key: no"),
            _ if !self.message.is_empty() => self.message.clone(),
            _ => "p packets  b bytes  d drops  n IPv6 networks  up/down choose  x ban  q quit".to_owned(),
        }
    }

    fn draw_sources(&self, frame: &mut Frame<'_>, area: Rect) {
        let sorted = match self.by {
            By::Packets => 1,
            By::Bytes => 2,
            By::Drops => 3,
        };
        let all: Vec<[String; 6]> = self.top.sources.iter().map(|source| cells(source, self.by)).collect();
        let widths: [u16; 6] = std::array::from_fn(|column| {
            let cells = all.iter().map(|cells| cells[column].len());
            cells.chain([HEADINGS[column].len()]).max().unwrap_or_default().try_into().unwrap_or(u16::MAX)
        });
        let shown = columns(&widths, sorted, area.width);
        let cell = |column: usize, text: &str| {
            let side = if column == 0 { Alignment::Left } else { Alignment::Right };
            Cell::new(Line::from(text.to_owned()).alignment(side))
        };
        let headings = shown.iter().map(|&column| {
            let style = if column == sorted { Modifier::REVERSED } else { Modifier::BOLD };
            cell(column, HEADINGS[column]).style(style)
        });
        let rows = all.iter().map(|cells| Row::new(shown.iter().map(|&column| cell(column, &cells[column]))));
        let widths = shown.iter().map(|&column| match column {
            0 => Constraint::Min(widths[0]),
            _ => Constraint::Length(widths[column]),
        });
        let table = Table::new(rows, widths)
            .column_spacing(SPACING)
            .header(Row::new(headings))
            .row_highlight_style(Modifier::REVERSED);
        frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(self.place()));
    }
}

/// Between two columns.
const SPACING: u16 = 2;

/// The columns that a screen of this width has room for: the source and the one that it is sorted by, and of the others
/// those that matter most.
fn columns(widths: &[u16; 6], sorted: usize, width: u16) -> Vec<usize> {
    /// What gives way first: bytes, drops, packets, the share, the bounds.
    const GIVE_WAY: [usize; 5] = [2, 3, 1, 4, 5];
    let mut shown: Vec<usize> = (0..widths.len()).collect();
    for column in GIVE_WAY.into_iter().filter(|column| *column != sorted) {
        let needed: usize = shown.iter().map(|&column| usize::from(widths[column] + SPACING)).sum();
        if needed <= usize::from(width + SPACING) {
            break;
        }
        shown.retain(|other| *other != column);
    }
    shown
}

/// On how many lines a text stands, wrapped between words; an empty one leaves one free.
fn lines(text: &str, width: u16) -> u16 {
    let (mut lines, mut used) = (1, 0);
    for word in text.split_whitespace().map(str::len) {
        let more = if used == 0 { word } else { used + 1 + word };
        (lines, used) = if used > 0 && more > usize::from(width) { (lines + 1, word) } else { (lines, more) };
    }
    lines
}

/// Bans a source; returns what to tell the user.
fn ban(instance: &InstanceArgs, source: &str) -> String {
    let done = || {
        let prefix = source.parse::<Prefix>().map_err(|error| error.to_string())?;
        let bans = Bans::open(&instance.instance).map_err(|error| error.to_string())?;
        let made = bans.ban(prefix, &NewBan::asked(BAN_FOR)).map_err(|error| error.to_string())?;
        let statuses =
            bans.statuses_of_made(std::slice::from_ref(&made)).map_err(|error| error.to_string())?;
        tell(instance, &ToldBans::new(&statuses, &[]));
        Ok::<_, String>((made, statuses))
    };
    match done() {
        Ok((made, bans)) => bans.iter().find_map(BanStatus::warning).unwrap_or_else(|| {
            let left = Lasting(made.ban.left);
            let banned = if made.is_longer {
                format!("{source} stays banned {left}")
            } else {
                format!("banned {source} {left}")
            };
            format!("{banned}; `ratelimit unban {source}` ends that")
        }),
        Err(error) => format!("not banned: {error}"),
    }
}

#[cfg(test)]
mod tests;
