//! What can be done to a machine that runs.

use std::path::Path;

use super::Machine;
use crate::error::Result;

impl Machine {
    /// Cuts its network: nothing goes in or out, metadata neither.
    ///
    /// # Errors
    /// When `ip` fails.
    pub async fn cut_network(&self) -> Result<()> {
        self.wire.cut().await
    }

    /// Undoes [`Self::cut_network`].
    ///
    /// # Errors
    /// When `ip` fails.
    pub async fn mend_network(&self) -> Result<()> {
        self.wire.mend(&self.addresses).await
    }

    /// Fills its disk: from now on there is room for a few pages. What was written stays. Costs no memory, for it is the
    /// disk that shrinks: a kubelet that *starts* on it sees a small disk and says that it cannot reserve its part.
    ///
    /// # Errors
    /// When the machine does not run.
    pub async fn fill_disk(&self) -> Result<()> {
        let used = self.run(["df", "--output=used", "-k", "/var/lib/kubelet"]).await?;
        let used: u64 = used.lines().nth(1).and_then(|line| line.trim().parse().ok()).unwrap_or(0);
        self.resize_disk(&format!("{}k", used + 64)).await
    }

    /// Undoes [`Self::fill_disk`].
    ///
    /// # Errors
    /// When the machine does not run.
    pub async fn empty_disk(&self) -> Result<()> {
        self.resize_disk(&format!("{}g", self.spec.shape.disk_gib)).await
    }

    async fn resize_disk(&self, size: &str) -> Result<()> {
        // Any of its mounts will do: the size is the file system's.
        let options = format!("remount,size={size}");
        self.run(["mount", "-o", &options, "/var/lib/kubelet"]).await.map(drop)
    }

    /// Stops containerd and keeps it from coming back.
    ///
    /// # Errors
    /// When systemd refuses.
    pub async fn stop_containerd(&self) -> Result<()> {
        self.run(["systemctl", "stop", "containerd.service"]).await.map(drop)
    }

    /// Kills the kubelet. systemd starts it again as its unit says.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn kill_kubelet(&self) -> Result<()> {
        self.run(["systemctl", "kill", "--signal=KILL", "kubelet.service"]).await.map(drop)
    }

    /// Writes a file inside, whole or not at all.
    ///
    /// # Errors
    /// When the machine does not run or the disk is full.
    pub async fn put(&self, path: &Path, text: &str) -> Result<()> {
        let script = "cat >\"$0.part\" && mv \"$0.part\" \"$0\"";
        let output = self.output(["sh".as_ref(), "-ec".as_ref(), script.as_ref(), path.as_os_str()], text).await?;
        if output.status.success() {
            return Ok(());
        }
        let answer = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(crate::Error::Command { command: format!("write `{}`", path.display()), answer })
    }
}
