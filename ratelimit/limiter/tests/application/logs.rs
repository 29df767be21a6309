//! What this thread logs. One subscriber serves all threads, from before the first message on: with one for each test,
//! a thread without any may switch a message off for all while it is the first to come by.

use std::{
    cell::RefCell,
    io::{self, Write},
    sync::Once,
};

thread_local! {
    static LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Writes to this thread's lines, if it wants any.
struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.iter_mut().for_each(|lines| lines.extend(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sees to it that messages can be kept. It goes before whatever may log.
pub fn keep_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::fmt().with_writer(|| Lines).with_ansi(false).init());
}

/// What this thread logs meanwhile.
pub fn logged(what: impl FnOnce()) -> String {
    keep_messages();
    LINES.set(Some(Vec::new()));
    what();
    String::from_utf8(LINES.take().unwrap_or_default()).unwrap()
}
