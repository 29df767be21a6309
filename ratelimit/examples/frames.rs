//! Writes each frame of captures to a file of its own, as seeds for `cargo xtask fuzz`:
//! `cargo run --example frames -- FOLDER CAPTURE...`.

use std::{env, error::Error, fs, path::PathBuf};

use ratelimit::simulate::Capture;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("say where to: FOLDER CAPTURE...")?;
    fs::create_dir_all(&folder)?;
    for path in arguments {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut capture = Capture::new(fs::File::open(&path)?)?;
        while let Some(frame) = capture.next_frame()? {
            fs::write(folder.join(format!("{name}-{}", frame.number)), &frame.bytes)?;
        }
    }
    Ok(())
}
