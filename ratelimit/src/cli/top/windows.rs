//! The windows that the program fills, read one after the other as they end.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    dataplane::{Error, SeenSet, Sketch, current_window},
    policy::InstanceName,
    top::Sums,
};

/// How long after its end a window is read: whoever judged a packet at its very end has counted it by then.
const SETTLING: Duration = Duration::from_millis(5);

/// The windows of an instance.
pub struct SketchWindows {
    instance: InstanceName,
    sketch: Sketch,
    /// How many are taken together.
    together: u64,
    /// The next one to read.
    next: u64,
    /// Those read so far of the ones that are taken together.
    read: VecDeque<Vec<SeenSet>>,
}

impl SketchWindows {
    /// Those of an instance that begin from now on: all of them are measured from their beginning to their end, also
    /// where the instance has only just begun.
    pub fn open(instance: &InstanceName, together: u64) -> Result<Self, Error> {
        let sketch = Sketch::open(instance)?;
        let next = current_window()?.0 + 1;
        Ok(Self { instance: instance.clone(), sketch, together, next, read: VecDeque::new() })
    }

    /// The sums of the next windows, waiting for their end.
    pub fn next(&mut self) -> Result<Sums, Error> {
        self.read.clear();
        loop {
            if let Some(sums) = self.poll()?.filter(|_| self.read.len() as u64 == self.together) {
                return Ok(sums);
            }
            let wait = self.wait()?;
            std::thread::sleep(wait);
        }
    }

    /// How long until the next window can be read.
    pub fn wait(&self) -> Result<Duration, Error> {
        let (current, left) = current_window()?;
        Ok(if self.next < current { Duration::ZERO } else { Duration::from_nanos(left.0) + SETTLING })
    }

    /// The sums of the last windows if another one has ended, without waiting: of fewer at the beginning.
    pub fn poll(&mut self) -> Result<Option<Sums>, Error> {
        let (current, _) = current_window()?;
        if self.next >= current {
            return Ok(None);
        }
        // Who was stopped for a while has missed some: they are overwritten.
        let window = current - 1;
        self.next = current;
        if !self.sketch.is_current(&self.instance)? {
            *self = Self::open(&self.instance, self.together)?;
            return Ok(None);
        }
        let seen = self.sketch.window(window);
        // It took so long that the window may have been overwritten meanwhile.
        if current_window()?.0 > current {
            return Ok(None);
        }
        self.read.push_back(seen);
        while self.read.len() as u64 > self.together {
            self.read.pop_front();
        }
        let mut sums = Sums::default();
        self.read.iter().for_each(|seen| sums.add(seen));
        Ok(Some(sums))
    }

    /// When the next window can be read, if the clock can.
    pub fn next_at(&self) -> Result<Instant, Error> {
        Ok(Instant::now() + self.wait()?)
    }
}
