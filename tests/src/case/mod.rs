//! One test in a world: a place of its own, a deadline, a check for leaks, and the logs if it fails.
//!
//! ```text
//!  case(name, parts, body) ────► join the shared world ──► namespace NAME-tXXXXXX ─┐
//!  on_site(name, ground, body) ► a world of its own, with machines ────────────────┤
//!                                                                                  ▼
//!                                                 body ──► leaks? (cluster, EC2, ledger) ──► taken down
//!                                                   │        │
//!                              panic, deadline, leak ────────┴──► all logs in one folder, its path
//! ```

mod logs;
mod shared;
mod site;

pub use logs::{LOGS, kept_logs};
pub use shared::Case;
pub use site::{Ground, OnSite};

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::error::Result;
use crate::world::Part;

/// How long a test may take. The slowest of them takes a tenth of it on an idle machine.
const MOST: Duration = Duration::from_secs(180);

/// Worlds with machines that one process has at once. Each system that boots takes some inotify instances, of which Linux gives
/// a user 128; without them it stands still and says nothing.
static SITES: Semaphore = Semaphore::const_new(2);

/// Runs `body` with `parts` of the shared world. Whatever it makes must carry [`Case::id`] in its name, a label or a tag,
/// and must be gone when it ends; its namespace is removed for it.
///
/// # Panics
/// When `body` does, when it leaves something behind, when it takes too long, or when the world cannot be had. The path
/// of a folder with all logs is printed first.
pub fn case(name: &str, parts: &[Part], body: impl AsyncFnOnce(&Case)) {
    let runtime = Builder::new_current_thread().enable_all().build();
    play(runtime, name, MOST, None, Case::begin(name, parts), body);
}

/// Runs `body` in a world of its own, in which machines boot. Machines, what stands in EC2, Nodes and whatever else it
/// makes must be gone when it ends.
///
/// # Panics
/// As [`case`].
pub fn on_site(name: &str, ground: Ground, body: impl AsyncFnOnce(&OnSite)) {
    on_site_for(MOST, name, ground, body);
}

/// As [`on_site`], for the few tests that take their time.
///
/// # Panics
/// As [`case`].
pub fn on_site_for(most: Duration, name: &str, ground: Ground, body: impl AsyncFnOnce(&OnSite)) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    play(runtime, name, most, Some(&SITES), OnSite::begin(name, ground), body);
}

/// What a test stands on.
trait Stage: Sized {
    /// A name that no other test has: that of the folder for its logs.
    fn title(&self) -> &str;

    /// Looks for leaks.
    async fn end(&self) -> Result<()>;

    /// Copies everything that tells what happened into `folder`.
    async fn keep_logs(&self, folder: &Path) -> Result<()>;

    /// Takes down what is the test's own.
    async fn close(self) -> Result<()>;
}

/// Begins when it is its turn, plays, ends.
#[expect(clippy::panic, reason = "a test fails by panicking")]
#[expect(clippy::print_stderr, reason = "cargo shows it with the failure")]
fn play<S: Stage>(
    runtime: std::io::Result<Runtime>,
    name: &str,
    most: Duration,
    turns: Option<&Semaphore>,
    begin: impl Future<Output = Result<S>>,
    body: impl AsyncFnOnce(&S),
) {
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    runtime.block_on(async {
        let _turn = match turns {
            Some(turns) => turns.acquire().await.ok(),
            None => None,
        };
        let stage = match begin.await {
            Ok(stage) => stage,
            Err(error) => panic!("{error}"),
        };
        let outcome = AssertUnwindSafe(timeout(most, body(&stage))).catch_unwind().await;
        let failure = match &outcome {
            Ok(Ok(())) => stage.end().await.err().map(|error| error.to_string()),
            Ok(Err(_)) => Some(format!("`{name}` was not done after {} s", most.as_secs())),
            Err(_) => Some(String::new()),
        };
        if failure.is_some() {
            match logs::keep(&stage).await {
                Ok(folder) => eprintln!("logs of all servers: {}", folder.display()),
                Err(error) => eprintln!("the logs could not be kept: {error}"),
            }
        }
        let closed = stage.close().await;
        match (outcome, failure, closed) {
            (Err(panic), _, _) => resume_unwind(panic),
            (Ok(_), Some(failure), _) => panic!("{failure}"),
            (Ok(_), None, Err(error)) => panic!("{error}"),
            (Ok(_), None, Ok(())) => {}
        }
    });
}
