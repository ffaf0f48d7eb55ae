//! What systemd tells the world outside: that the boot is done, and every line of the journal.
//!
//! Both are sockets of ours that lie in the machine's `/run`: `host/notify` is where the manager reports to whatever
//! started the container, `systemd/journal/syslog` is where journald forwards to a syslog daemon. So nobody polls, and
//! the journal of a machine outlives it.

use std::path::{Path, PathBuf};

use tokio::net::UnixDatagram;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::network::Fabric;
use super::record::Record;
use crate::error::Result;

/// The two sockets of a machine and the tasks that read them.
#[derive(Debug)]
pub(super) struct Voice {
    journal: Record,
    ready: watch::Sender<bool>,
    readers: [JoinHandle<()>; 2],
}

/// Longer than any line that journald forwards (`LineMax=48K`).
const LONGEST: usize = 64 << 10;

impl Voice {
    /// Makes the sockets `notify` and `syslog` in `folder`; the journal goes to `file`.
    pub(super) async fn listen(fabric: &Fabric, folder: &Path, file: PathBuf) -> Result<Self> {
        let journal = Record::create(file)?;
        let notify = UnixDatagram::bind(folder.join("notify"))?;
        let syslog = fabric.receive(&folder.join("syslog")).await?;
        let ready = watch::Sender::new(false);
        let ready_tx = ready.clone();
        let boot = tokio::spawn(async move {
            let mut buffer = vec![0; LONGEST];
            while let Ok(count) = notify.recv(&mut buffer).await {
                let text = String::from_utf8_lossy(buffer.get(..count).unwrap_or_default());
                if text.lines().any(|line| line == "READY=1") {
                    ready_tx.send_replace(true);
                }
            }
        });
        let lines = journal.clone();
        let copy = tokio::spawn(async move {
            let mut buffer = vec![0; LONGEST];
            while let Ok(count) = syslog.recv(&mut buffer).await {
                let text = String::from_utf8_lossy(buffer.get(..count).unwrap_or_default());
                let line = without_priority(&text).replace('\n', "\\n") + "\n";
                if lines.take(line.as_bytes()).is_err() {
                    return;
                }
            }
        });
        Ok(Self { journal, ready, readers: [boot, copy] })
    }

    /// The journal so far.
    pub(super) fn journal(&self) -> &Record {
        &self.journal
    }

    /// The machine boots again.
    pub(super) fn begin_again(&self) {
        self.ready.send_replace(false);
        self.journal.turn_page();
    }

    /// Turns true when the machine's default target is reached.
    pub(super) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

/// `<30>Jan  1 00:00:00 kubelet[7]: text` without its first field.
fn without_priority(line: &str) -> &str {
    line.strip_prefix('<').and_then(|rest| rest.split_once('>')).map_or(line, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_is_left_out() {
        assert_eq!(without_priority("<30>Nov 21 19:30:00 kubelet[7]: a > b"), "Nov 21 19:30:00 kubelet[7]: a > b");
        assert_eq!(without_priority("plain"), "plain");
    }
}
