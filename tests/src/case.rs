//! One test in the shared world: a namespace of its own, a deadline, a check for leaks, and the logs if it fails.
//!
//! ```text
//!  case(name, parts, body) ──► join the shared world ──► namespace NAME-tXXXXXX ──► body ──► leaks?
//!                                                                                    │
//!                                                    panic, deadline, leak ──────────┴──► logs in one folder, its path
//! ```

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::error::Result;
use crate::leaks::{self, Item};
use crate::world::{Part, Shared};

/// How long a test may take. The slowest of them takes a tenth of it on an idle machine.
const MOST: Duration = Duration::from_secs(180);

/// Where the logs of failed tests go: this, or a folder for temporary files.
pub const LOGS: &str = "MUSTER_WORLD_LOGS";

/// What a test has while it runs.
#[derive(Debug)]
pub struct Case {
    name: String,
    id: String,
    namespace: String,
    shared: Shared,
    before: Vec<Item>,
}

/// Runs `body` with `parts` of the shared world. Whatever it makes must carry [`Case::id`] in its name, a label or a tag,
/// and must be gone when it ends; its namespace is removed for it.
///
/// # Panics
/// When `body` does, when it leaves something behind, when it takes too long, or when the world cannot be had. The path
/// of a folder with all logs is printed first.
#[expect(clippy::panic, reason = "a test fails by panicking")]
#[expect(clippy::print_stderr, reason = "cargo shows it with the failure")]
pub fn case(name: &str, parts: &[Part], body: impl AsyncFnOnce(&Case)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    runtime.block_on(async {
        let case = match Case::begin(name, parts).await {
            Ok(case) => case,
            Err(error) => panic!("{error}"),
        };
        let outcome = AssertUnwindSafe(timeout(MOST, body(&case))).catch_unwind().await;
        let failure = match &outcome {
            Ok(Ok(())) => case.end().await.err().map(|error| error.to_string()),
            Ok(Err(_)) => Some(format!("`{name}` was not done after {} s", MOST.as_secs())),
            Err(_) => Some(String::new()),
        };
        let Some(failure) = failure else { return };
        match case.keep_logs() {
            Ok(folder) => eprintln!("logs of all servers: {}", folder.display()),
            Err(error) => eprintln!("the logs could not be kept: {error}"),
        }
        match outcome {
            Err(panic) => resume_unwind(panic),
            Ok(_) => panic!("{failure}"),
        }
    });
}

impl Case {
    async fn begin(name: &str, parts: &[Part]) -> Result<Self> {
        let shared = Shared::join(parts).await?;
        let id = format!("t{}", crate::random::text(3)?);
        let namespace = format!("{name}-{id}");
        let before = leaks::of_cluster(&shared.cluster).await?;
        let namespaces: Api<Namespace> = Api::all(shared.cluster.client());
        let object = json!({"metadata": {"name": namespace}});
        let object = serde_json::from_value(object).map_err(std::io::Error::from)?;
        namespaces.create(&PostParams::default(), &object).await?;
        shared.cluster.can_create_pods(&namespace).await?;
        Ok(Self { name: name.to_owned(), id, namespace, shared, before })
    }

    /// The mark of everything that this test makes, as `t4f9a01`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `name` with the mark, for an object that lies in no namespace.
    pub fn named(&self, name: &str) -> String {
        format!("{name}-{}", self.id)
    }

    /// The namespace of this test.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    /// Where the servers write.
    pub fn logs(&self) -> &Path {
        &self.shared.logs
    }

    async fn end(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.cluster().client());
        namespaces.delete(&self.namespace, &DeleteParams::default()).await?;
        let now = leaks::of_cluster(self.cluster()).await?;
        leaks::none(&self.name, &self.id, &self.before, &now)
    }

    /// Copies the logs of the world to where they stay.
    fn keep_logs(&self) -> Result<PathBuf> {
        let folder = kept_logs(&self.namespace);
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&self.shared.logs)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), folder.join(entry.file_name()))?;
            }
        }
        Ok(folder)
    }
}

/// Where the logs are that were kept when the test with this namespace failed.
pub fn kept_logs(namespace: &str) -> PathBuf {
    let folder = std::env::var_os(LOGS).map(PathBuf::from);
    folder.unwrap_or_else(|| std::env::temp_dir().join("muster-world-logs")).join(namespace)
}
