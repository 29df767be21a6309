//! Captures that others made, where this machine has them, and reading of captures.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use ratelimit::simulate::{Capture, CaptureError, CapturedFrame};

/// The folder of captures that others made, if this machine has it.
pub fn shared_captures() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/captures");
    if folder.join("expected.tsv").exists() {
        return Some(folder);
    }
    println!("not run: {} is not there", folder.display());
    None
}

/// All frames of a capture.
pub fn read(path: &Path) -> Vec<CapturedFrame> {
    frames(Capture::new(File::open(path).unwrap())).unwrap()
}

pub fn frames(capture: Result<Capture, CaptureError>) -> Result<Vec<CapturedFrame>, CaptureError> {
    let mut capture = capture?;
    let mut frames = Vec::new();
    while let Some(frame) = capture.next_frame()? {
        frames.push(frame);
    }
    Ok(frames)
}
