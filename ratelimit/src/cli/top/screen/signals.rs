//! Signals that end the process while it has the terminal: that is put back first.

use std::{
    io::stdout,
    process,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use nix::sys::signal::{SigSet, Signal, raise};
use ratatui::crossterm::{cursor::Show, execute};

const SIGNALS: [Signal; 4] = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];

/// A terminal that takes nothing any more must not keep a signal from what it does.
const PATIENCE: Duration = Duration::from_millis(500);

/// From now on these signals end the process as ever, but put the terminal back before. Whoever draws holds `drawing`.
/// To be called before there are other threads.
pub fn restore_first(drawing: &Arc<Mutex<()>>) -> nix::Result<()> {
    let signals: SigSet = SIGNALS.into_iter().collect();
    signals.thread_block()?;
    let drawing = Arc::clone(drawing);
    thread::spawn(move || {
        let Ok(signal) = signals.wait() else { return };
        let (done, restored) = mpsc::channel();
        thread::spawn(move || {
            // Held to the end, so that nothing is drawn after that.
            let _drawing = drawing.lock();
            restore();
            let _ = done.send(());
            loop {
                thread::park();
            }
        });
        let _ = restored.recv_timeout(PATIENCE);
        let _ = signals.thread_unblock();
        let _ = raise(signal);
        // It was ignored.
        process::exit(128 + signal as i32);
    });
    Ok(())
}

/// Puts the terminal back, as far as there is one still.
pub fn restore() {
    let _ = ratatui::try_restore();
    let _ = execute!(stdout(), Show);
}
