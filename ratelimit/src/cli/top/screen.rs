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
    style::{Modifier, Style},
    text::Line,
    widgets::{Cell, Paragraph, Row, Table, TableState},
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
                // What matters comes first: a line is cut where the screen ends.
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
        let rows = [Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)];
        let [head, below, body, foot] = Layout::vertical(rows).areas(frame.area());
        let total = if self.top.seconds == 0 { MEASURING.to_owned() } else { total(&self.top) };
        frame.render_widget(Paragraph::new(total), head);
        if !self.in_force {
            frame.render_widget(Paragraph::new(everything_passes()), below);
        }
        self.draw_sources(frame, body);
        frame.render_widget(Paragraph::new(self.foot()).style(Modifier::DIM), foot);
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
        let number = |text: String| Cell::new(Line::from(text).alignment(Alignment::Right));
        let headings = HEADINGS.iter().enumerate().map(|(column, heading)| {
            let style =
                Style::new().add_modifier(if column == sorted { Modifier::REVERSED } else { Modifier::BOLD });
            let cell = if column == 0 { Cell::new(*heading) } else { number((*heading).to_owned()) };
            cell.style(style)
        });
        let rows = self.top.sources.iter().map(|source| {
            let mut cells = cells(source, self.by).into_iter();
            let name = cells.next().map(Cell::new);
            Row::new(name.into_iter().chain(cells.map(number)))
        });
        let widths = [
            Constraint::Min(24),
            Constraint::Length(13),
            Constraint::Length(16),
            Constraint::Length(13),
            Constraint::Length(8),
            Constraint::Length(30),
        ];
        let table =
            Table::new(rows, widths).header(Row::new(headings)).row_highlight_style(Modifier::REVERSED);
        frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(self.place()));
    }
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
