//! What a machine says: lines that go to a file as they come, and that a test can wait for.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fs_err as fs;
use tokio::sync::watch;

use crate::error::{Error, Result};

/// A growing list of lines with a file of the same. Clones share it.
#[derive(Debug, Clone)]
pub struct Record {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    pages: Mutex<Pages>,
    /// How many lines there are.
    count: watch::Sender<usize>,
}

#[derive(Debug)]
struct Pages {
    file: fs::File,
    lines: Vec<String>,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
}

impl Record {
    /// An empty one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = fs::File::create(&path)?;
        let pages = Mutex::new(Pages { file, lines: Vec::new(), begun: Vec::new() });
        Ok(Self { shared: Arc::new(Shared { path, pages, count: watch::Sender::new(0) }) })
    }

    /// Takes in bytes in which lines end with a newline.
    pub(super) fn take(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut pages = self.shared.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.file.write_all(bytes)?;
        pages.begun.extend_from_slice(bytes);
        while let Some(end) = pages.begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pages.begun.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            pages.lines.push(line);
        }
        self.shared.count.send_replace(pages.lines.len());
        Ok(())
    }

    /// Turns the page: only what comes from now on is seen. The file keeps everything.
    pub fn turn_page(&self) {
        let mut pages = self.shared.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.lines.clear();
        self.shared.count.send_replace(0);
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.shared.pages.lock().unwrap_or_else(PoisonError::into_inner).lines.clone()
    }

    /// The first line in which `wanted` occurs, now or within `deadline`.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the last lines.
    pub async fn line(&self, wanted: &str, deadline: Duration) -> Result<String> {
        let mut count = self.shared.count.subscribe();
        let mut read = 0;
        let search = async {
            loop {
                let there = *count.borrow_and_update();
                let found = {
                    let pages = self.shared.pages.lock().unwrap_or_else(PoisonError::into_inner);
                    pages.lines.get(read..there).and_then(|new| new.iter().find(|line| line.contains(wanted)).cloned())
                };
                if let Some(line) = found {
                    return line;
                }
                read = there;
                if count.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        match tokio::time::timeout(deadline, search).await {
            Ok(line) => Ok(line),
            Err(_) => Err(Error::Deadline {
                what: format!("a line with `{wanted}` in `{}`", self.shared.path.display()),
                waited: deadline,
                seen: self.tail(5),
            }),
        }
    }

    /// The last lines, as one text.
    pub fn tail(&self, count: usize) -> String {
        let pages = self.shared.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let from = pages.lines.len().saturating_sub(count);
        pages.lines.get(from..).unwrap_or_default().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_is_found_whenever_it_comes() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::create(folder.path().join("console")).unwrap();
        record.take(b"booting\nhalf a li").unwrap();
        assert_eq!(record.lines(), ["booting"]);
        let waiting = tokio::spawn({
            let record = record.clone();
            async move { record.line("half", Duration::from_secs(5)).await }
        });
        record.take(b"ne\r\nnext\n").unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), "half a line");
        assert_eq!(std::fs::read_to_string(record.path()).unwrap(), "booting\nhalf a line\r\nnext\n");
    }

    #[tokio::test]
    async fn a_line_that_does_not_come_says_what_came_instead() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::create(folder.path().join("console")).unwrap();
        record.take(b"one\ntwo\n").unwrap();
        let error = record.line("three", Duration::from_millis(1)).await.unwrap_err();
        assert!(error.is_deadline());
        assert!(error.to_string().ends_with("last seen: one\ntwo"), "{error}");
    }
}
