//! Where the logs of failed tests go.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::Stage;
use crate::cluster::Cluster;
use crate::ec2::Ec2;
use crate::error::Result;
use crate::snapshot::Snapshot;

/// Where the logs of failed tests go: this, or a folder for temporary files.
pub const LOGS: &str = "MUSTER_WORLD_LOGS";

/// Where the logs are that were kept when the test with this title failed: its namespace, for one in the shared world.
pub fn kept_logs(title: &str) -> PathBuf {
    let folder = std::env::var_os(LOGS).map(PathBuf::from);
    folder.unwrap_or_else(|| std::env::temp_dir().join("muster-world-logs")).join(title)
}

/// Keeps the logs of a test that failed.
pub(super) async fn keep<S: Stage>(stage: &S) -> Result<PathBuf> {
    let folder = kept_logs(stage.title());
    fs::create_dir_all(&folder)?;
    stage.keep_logs(&folder).await?;
    Ok(folder)
}

/// Copies the files of one folder.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Writes down every call that EC2 had.
pub(super) fn write_calls(ec2: &Ec2, to: &Path) -> Result<()> {
    fs::write(to.join("ec2-calls.jsonl"), ec2.calls().json_lines())?;
    // Of the shared moto, if another process holds it.
    Ok(fs::copy(ec2.moto_log(), to.join("moto.log")).map(drop)?)
}

/// Writes down what there is of cluster and EC2, side by side. A cluster that does not answer any more leaves a line.
pub(super) async fn write_picture(cluster: &Cluster, ec2: Option<&Ec2>, mark: &str, to: &Path) -> Result<()> {
    let instances = ec2.map(Ec2::snapshot).unwrap_or_default();
    let snapshot = match Snapshot::take(cluster, instances, mark).await {
        Ok(snapshot) => snapshot.to_string(),
        Err(error) => format!("{error}\n"),
    };
    Ok(fs::write(to.join("picture.txt"), snapshot)?)
}
