//! Logs of services: the event log, read with `wevtutil`, and the log files of bootstrap and container runtime.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use fs_err as fs;
use jiff::Timestamp;
use tokio::process::Command;
use tokio::time::timeout;

use crate::probes::PROGRAM;
use crate::watch::events::{self, Record};
use crate::watch::journal::Line;

/// Sources whose lines go into a log bundle.
pub const SOURCES: &[&str] = &["kubelet", "kube-proxy", "eks-bootstrap", "ec2launch", "containerd"];

/// Event log of the image's services, with the output of kubelet and kube-proxy from EKS-WindowsServiceHost.exe.
const LOG: &str = "EKS";
/// Log files and folders of other programs, with the source name of their lines.
const FILES: [(&str, &str); 4] = [
    ("eks-bootstrap", r"C:\ProgramData\Amazon\EKS\logs"),
    ("ec2launch", r"C:\ProgramData\Amazon\EC2Launch\log\agent.log"),
    ("ec2launch", r"C:\ProgramData\Amazon\EC2-Windows\Launch\Log\UserdataExecution.log"),
    ("containerd", r"C:\ProgramData\containerd\root\panic.log"),
];
/// Time before the agent's start from which events are read, since services start concurrently.
const BEFORE: Duration = Duration::from_secs(30);
/// Maximum number of records per query.
const MOST: u32 = 500;
/// Maximum number of bytes per read of a file.
const LARGEST: u64 = 256 << 10;

/// Reader of logs since the agent's start.
pub struct Journal {
    began: SystemTime,
    last_record: u64,
    /// Read position of each file.
    read: BTreeMap<PathBuf, u64>,
}

impl Journal {
    /// Returns a reader that starts now.
    #[must_use]
    pub fn follow() -> Self {
        let now = SystemTime::now();
        Self { began: now.checked_sub(BEFORE).unwrap_or(now), last_record: 0, read: BTreeMap::new() }
    }

    /// Returns true if the image's bootstrap has written to its log.
    #[must_use]
    pub fn has_bootstrap(&self) -> bool {
        let (_, folder) = FILES[0];
        self.read.iter().any(|(path, length)| *length > 0 && path.starts_with(folder))
    }

    /// Returns the lines since the last call.
    pub async fn news(&mut self) -> Vec<Line> {
        let since = Timestamp::try_from(self.began).unwrap_or_default();
        let query =
            format!("*[System[(EventRecordID>{}) and TimeCreated[@SystemTime>='{since:.3}']]]", self.last_record);
        let records = query_log(&query, MOST, false).await;
        self.last_record = records.iter().map(|it| it.number).max().unwrap_or(self.last_record);
        let mut lines: Vec<Line> = records.into_iter().map(|it| it.line).collect();
        for (name, path) in files() {
            let text = self.rest_of(&path);
            lines.extend(text.lines().filter(|line| !line.trim().is_empty()).map(|line| Line::new(name, line)));
        }
        lines
    }

    /// Returns new complete lines of a file. Content from before the agent's start is skipped.
    fn rest_of(&mut self, path: &Path) -> String {
        let Ok(about) = fs::metadata(path) else { return String::new() };
        let is_old = about.modified().is_ok_and(|at| at < self.began);
        let known = self.read.entry(path.to_owned()).or_insert(if is_old { about.len() } else { 0 });
        // A file that became shorter was replaced.
        *known = if about.len() < *known { 0 } else { *known };
        let Ok((text, length)) = read_from(path, *known) else { return String::new() };
        *known += length;
        text
    }
}

fn files() -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    for (name, place) in FILES {
        let place = Path::new(place);
        if place.is_dir() {
            let entries = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
            found.extend(entries.filter(|path| path.is_file()).map(|path| (name, path)));
        } else {
            found.push((name, place.to_owned()));
        }
    }
    found
}

/// Returns complete lines from a position in a file, and their length in bytes.
fn read_from(path: &Path, from: u64) -> std::io::Result<(String, u64)> {
    let mut file = fs::File::open(path)?;
    let mut mark = [0; 2];
    let is_wide = file.read(&mut mark)? == 2 && mark == [0xff, 0xfe];
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    let (text, length) = events::complete_lines(bytes, is_wide, usize::try_from(LARGEST).unwrap_or(usize::MAX));
    Ok((text, length as u64))
}

/// Returns the last lines of a source, for the bundle.
pub async fn tail(source: &str, lines: u32) -> String {
    let query = format!("*[System[Provider[@Name='{source}']]]");
    let mut said: Vec<String> = query_log(&query, lines, true).await.into_iter().map(|it| it.line.text).collect();
    said.reverse();
    for (_, path) in files().into_iter().filter(|(name, _)| *name == source) {
        let length = fs::metadata(&path).map_or(0, |about| about.len());
        // An even offset, since UTF-16 characters take two bytes.
        let from = length.saturating_sub(LARGEST) & !1;
        let text = read_from(&path, from).map(|(text, _)| text).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        let last = all.len().saturating_sub(lines as usize);
        said.extend(all.iter().skip(last).map(|line| (*line).to_owned()));
    }
    said.join("\n")
}

async fn query_log(query: &str, most: u32, last_first: bool) -> Vec<Record> {
    let mut command = Command::new("wevtutil.exe");
    command.args(["query-events", LOG, "/format:XML", "/element:Events", "/unicode:true"]);
    command.args([format!("/query:{query}"), format!("/count:{most}"), format!("/reversedirection:{last_first}")]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    match timeout(PROGRAM, command.output()).await {
        Ok(Ok(output)) => events::read(&events::decode(&output.stdout)),
        _ => Vec::new(),
    }
}
