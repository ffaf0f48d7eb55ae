//! One test in a world: a place of its own, a deadline, a check for leaks, and the logs if it fails.
//!
//! ```text
//!  case(name, parts, body) ────► join the shared world ──► namespace NAME-tXXXXXX ─┐
//!  on_site(name, ground, body) ► a network, machines, a cluster that is set back ──┤
//!                                                                                  ▼
//!                                                 body ──► leaks? (cluster, EC2, ledger) ──► taken down
//!                                                   │        │
//!                              panic, deadline, leak ────────┴──► all logs in one folder, its path
//! ```

mod logs;
mod shared;
mod site;
mod sites;

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

use self::sites::Sites;
use crate::error::Result;
use crate::world::Part;

/// How long a test may take. The slowest of them takes a tenth of it on an idle machine.
const MOST: Duration = Duration::from_secs(180);

/// Turns of tests with machines, as many as networks that one process uses at once. Each system that boots takes some
/// inotify instances, of which Linux gives a user 128; without them it stands still and says nothing.
static TURNS: Semaphore = Semaphore::const_new(AT_ONCE as usize);

/// Tests with machines at once.
const AT_ONCE: u32 = 2;

/// Runs `body` with `parts` of the shared world. Whatever it makes must carry [`Case::id`] in its name, a label or a tag,
/// and must be gone when it ends; its namespace is removed for it.
///
/// # Panics
/// When `body` does, when it leaves something behind, when it takes too long, or when the world cannot be had. The path
/// of a folder with all logs is printed first.
pub fn case(name: &str, parts: &[Part], body: impl AsyncFnOnce(&Case)) {
    let runtime = started(&mut Builder::new_current_thread());
    play(runtime, name, MOST, Case::begin(name, parts), body);
}

/// Runs `body` in a network in which no other test is, and machines boot. Machines, what stands in EC2, Nodes and whatever
/// else it makes must be gone when it ends. Network and cluster may have served other tests; the objects are those of a new
/// cluster, while logs and the memory of servers go back to their start.
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
    in_turn(1, most, name, ground, body);
}

/// As [`on_site_for`], while no other test of this process has machines: for those that boot more than five at once.
///
/// # Panics
/// As [`case`].
pub fn on_crowded_site_for(most: Duration, name: &str, ground: Ground, body: impl AsyncFnOnce(&OnSite)) {
    in_turn(AT_ONCE, most, name, ground, body);
}

fn in_turn(turns: u32, most: Duration, name: &str, ground: Ground, body: impl AsyncFnOnce(&OnSite)) {
    let runtime = started(Builder::new_multi_thread().worker_threads(2));
    // Before it is this test's turn: they would end with the test before.
    let sites = Sites::of_this_process();
    // Until the site is given back: who comes next takes it.
    let _turns = runtime.block_on(TURNS.acquire_many(turns));
    if let Some(left) = play(runtime, name, most, OnSite::begin(name, ground, &sites), body) {
        sites.give(left);
    }
}

/// What a test stands on.
trait Stage: Sized {
    /// Part of it that another test can use, once the runtime of this one has ended.
    type Left;

    /// A name that no other test has: that of the folder for its logs.
    fn title(&self) -> &str;

    /// Looks for leaks.
    async fn end(&self) -> Result<()>;

    /// Copies everything that tells what happened into `folder`.
    async fn keep_logs(&self, folder: &Path) -> Result<()>;

    /// Takes down what is the test's own; everything, unless `is_sound`.
    async fn close(self, is_sound: bool) -> Result<Self::Left>;
}

#[expect(clippy::panic, reason = "a test fails by panicking")]
fn started(builder: &mut Builder) -> Runtime {
    builder.enable_all().build().unwrap_or_else(|error| panic!("no runtime: {error}"))
}

/// Begins, plays, ends. The runtime has ended when this returns.
#[expect(clippy::panic, reason = "a test fails by panicking")]
#[expect(clippy::print_stderr, reason = "cargo shows it with the failure")]
fn play<S: Stage>(
    runtime: Runtime,
    name: &str,
    most: Duration,
    begin: impl Future<Output = Result<S>>,
    body: impl AsyncFnOnce(&S),
) -> S::Left {
    runtime.block_on(async {
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
        let closed = stage.close(failure.is_none()).await;
        match (outcome, failure, closed) {
            (Err(panic), _, _) => resume_unwind(panic),
            (Ok(_), Some(failure), _) => panic!("{failure}"),
            (Ok(_), None, Err(error)) => panic!("{error}"),
            (Ok(_), None, Ok(left)) => left,
        }
    })
}
