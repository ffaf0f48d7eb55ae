//! A world: a ledger, a folder, and what is started in them.
//!
//! ```text
//!  World::open ──► sweep of dead worlds ──► ledger ──► folder ──► spawner ──► servers
//!      │                                                                        │
//!      └── close: servers in their order, then all that the ledger names ◄──────┘
//!
//!  test process ──join──► daemon (holds one World) ◄──join── test process
//!                 a connection for as long as it lives; the last one gone, the daemon ends
//! ```

mod daemon;
mod lease;
mod protocol;
mod shared;

pub use daemon::serve;
pub use lease::PlaneLease;
pub use protocol::Part;
pub use shared::Shared;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;

use crate::cluster::{Cluster, ControlPlane, Options, ports};
use crate::error::{Error, Result};
use crate::ledger::{Ledger, Root, Swept, Thing};
use crate::process::Spawner;

/// A world of this process. It ends with the value; when the process is killed the next world cleans up.
#[derive(Debug)]
pub struct World {
    ledger: Arc<Ledger>,
    folder: PathBuf,
    spawner: Spawner,
    swept: Vec<Swept>,
    is_closed: bool,
}

impl World {
    /// Cleans up after dead worlds and opens one. `owner` says in a word who it is for.
    ///
    /// # Errors
    /// When the ledger or the folder cannot be written.
    pub fn open(owner: &str) -> Result<Self> {
        Self::open_under(&Root::of_this_machine()?, owner)
    }

    /// As [`Self::open`], with ledgers in another place.
    ///
    /// # Errors
    /// When the ledger or the folder cannot be written.
    pub fn open_under(root: &Root, owner: &str) -> Result<Self> {
        let (ledger, swept) = Ledger::open(root, owner)?;
        let ledger = Arc::new(ledger);
        // Two users have worlds of the same number. Short: the path of a socket in it has at most 107 letters.
        let user = nix::unistd::geteuid();
        let folder = std::env::temp_dir().join(format!("muster-world-{user}-{}", ledger.number()));
        ledger.make(Thing::Folder { path: folder.clone() })?;
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        let spawner = Spawner::new(Arc::clone(&ledger), folder.join("logs"))?;
        Ok(Self { ledger, folder, spawner, swept, is_closed: false })
    }

    /// Its number, as `w1`.
    pub fn number(&self) -> &str {
        self.ledger.number()
    }

    /// What it has made.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Where everything of it is. Only its user may look inside.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its logs are.
    pub fn logs(&self) -> &Path {
        self.spawner.logs()
    }

    /// Returns a port of loopback that no other world asks for.
    ///
    /// # Errors
    /// [`Error::Missing`] if all ports of this world are taken.
    pub fn free_port(&self) -> Result<u16> {
        ports::free(self.spawner.ledger().number())
    }

    /// Starts its processes.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// What was cleaned up before it began.
    pub fn swept(&self) -> &[Swept] {
        &self.swept
    }

    /// Starts a control plane in it.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn control_plane(&self, options: &Options) -> Result<ControlPlane> {
        ControlPlane::start(&self.spawner, &self.folder, options).await
    }

    /// Removes all that the ledger names. Servers that are still held elsewhere are killed.
    ///
    /// # Errors
    /// [`crate::Error::LeftBehind`] with what resisted.
    pub fn close(mut self) -> Result<()> {
        self.is_closed = true;
        self.ledger.close()
    }
}

impl Drop for World {
    /// For a test that panics. What resists here is left to the next start.
    fn drop(&mut self) {
        if !self.is_closed {
            let _ = self.ledger.close();
        }
    }
}

/// Makes sure that namespaces, mounts and control groups may be made.
///
/// # Errors
/// [`Error::Missing`] for everyone but root.
pub fn needs_root() -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    Err(Error::Missing {
        what: "only root may make network namespaces, mounts and control groups".to_owned(),
        hint: "run the tests as root, or leave this suite out".to_owned(),
    })
}

/// The cluster that [`crate::cluster::GIVEN`] names, or one of ours in `world`.
///
/// # Errors
/// As [`ControlPlane::start`].
pub async fn cluster_in(world: &World, options: &Options) -> Result<(Cluster, Option<ControlPlane>)> {
    if let Some(given) = Cluster::given().await? {
        return Ok((given, None));
    }
    let plane = world.control_plane(options).await?;
    Ok((plane.cluster().clone(), Some(plane)))
}
