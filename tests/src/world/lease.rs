//! Control planes that the tests of one process use one after the other: to start one costs more than most tests.
//!
//! ```text
//!  PlaneLease::take ──► a free one: etcd is set back ──┐
//!        │ there is none                               ├──► PlaneLease ──► drop ──► free
//!        └──► started, defined, its etcd is read ──────┘                     │ the test has failed
//!                                                                            └──► ended
//! ```
//!
//! They end with the last lease: a process that runs one test at a time starts one for each.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};

use super::World;
use crate::cluster::{Cluster, Contents, ControlPlane, Kwok, Options};
use crate::error::Result;
use crate::lock::lock;

/// A control plane with KWOK, for one test. It holds what it held after its definitions were made.
#[derive(Debug)]
pub struct PlaneLease {
    /// With clients of this test's runtime.
    cluster: Cluster,
    /// None when it is being dropped.
    ready: Option<ReadyPlane>,
    /// True if the control plane ends with the value.
    is_alone: bool,
    /// Thread of the test. Elsewhere nobody knows of its panic.
    thread: ThreadId,
    planes: Arc<Planes>,
}

/// The control planes of this process. They end with the last of its tests that uses one.
#[derive(Debug)]
struct Planes {
    free: Mutex<Vec<ReadyPlane>>,
    started: Mutex<usize>,
    world: World,
}

#[derive(Debug)]
struct ReadyPlane {
    name: String,
    /// Ends before its control plane.
    kwok: Kwok,
    plane: ControlPlane,
    contents: Contents,
}

impl PlaneLease {
    /// Takes a control plane, and starts one if none is free. `define` makes what every test of this process needs; it
    /// returns when that is in use.
    ///
    /// # Errors
    /// As [`ControlPlane::start`], and what `define` answers.
    #[expect(clippy::print_stderr, reason = "the test goes on, and whoever wonders why it is slow reads this")]
    pub async fn take(define: impl AsyncFnOnce(&Cluster) -> Result<()>) -> Result<Self> {
        let planes = Planes::of_this_process()?;
        while let Some(mut ready) = planes.take_free() {
            match ready.set_back().await {
                Ok(cluster) => return Ok(Self::new(cluster, ready, false, planes)),
                Err(error) => eprintln!("control plane `{}` is not used again: {error}", ready.name),
            }
        }
        Self::start(planes, Options::default(), false, define).await
    }

    /// Starts a control plane like this for a test that does something to its servers, or looks at what they write. It
    /// ends with the value.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub async fn alone(options: Options, define: impl AsyncFnOnce(&Cluster) -> Result<()>) -> Result<Self> {
        Self::start(Planes::of_this_process()?, options, true, define).await
    }

    async fn start(
        planes: Arc<Planes>,
        options: Options,
        is_alone: bool,
        define: impl AsyncFnOnce(&Cluster) -> Result<()>,
    ) -> Result<Self> {
        let mut ready = planes.start(options, define).await?;
        if !is_alone {
            ready.contents = ready.plane.contents().await?;
        }
        Ok(Self::new(ready.plane.cluster().clone(), ready, is_alone, planes))
    }

    fn new(cluster: Cluster, ready: ReadyPlane, is_alone: bool, planes: Arc<Planes>) -> Self {
        Self { cluster, ready: Some(ready), is_alone, thread: thread::current().id(), planes }
    }

    /// Returns the cluster, with clients of the test's runtime.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns its servers, which no other test gets then.
    ///
    /// # Panics
    /// Never: only its end takes it.
    #[expect(clippy::expect_used, reason = "only the end of a lease takes it")]
    pub fn plane(&mut self) -> &mut ControlPlane {
        self.is_alone = true;
        &mut self.ready.as_mut().expect("it is there until it is dropped").plane
    }

    /// Returns the log of a server, such as `audit`.
    pub fn log(&self, server: &str) -> PathBuf {
        let name = self.ready.as_ref().map(|ready| ready.name.as_str()).unwrap_or_default();
        self.planes.world.logs().join(format!("{name}-{server}.log"))
    }
}

impl Drop for PlaneLease {
    fn drop(&mut self) {
        let is_spoiled = self.is_alone || thread::panicking() || thread::current().id() != self.thread;
        if let Some(ready) = self.ready.take().filter(|_| !is_spoiled) {
            lock(&self.planes.free).push(ready);
        }
    }
}

impl Planes {
    fn of_this_process() -> Result<Arc<Self>> {
        static PLANES: Mutex<Weak<Planes>> = Mutex::new(Weak::new());
        let mut known = lock(&PLANES);
        if let Some(planes) = known.upgrade() {
            return Ok(planes);
        }
        let world = World::open("planes")?;
        let planes = Arc::new(Self { free: Mutex::default(), started: Mutex::default(), world });
        *known = Arc::downgrade(&planes);
        Ok(planes)
    }

    fn take_free(&self) -> Option<ReadyPlane> {
        lock(&self.free).pop()
    }

    async fn start(&self, options: Options, define: impl AsyncFnOnce(&Cluster) -> Result<()>) -> Result<ReadyPlane> {
        let number = {
            let mut started = lock(&self.started);
            *started += 1;
            *started
        };
        let name = format!("plane{number}");
        let plane = self.world.control_plane(&Options { name: name.clone(), ..options }).await?;
        let kwok = Kwok::named(&format!("{name}-kwok"), self.world.spawner(), plane.cluster())?;
        define(plane.cluster()).await?;
        Ok(ReadyPlane { name, kwok, plane, contents: Contents::default() })
    }
}

impl ReadyPlane {
    /// Makes it as it was, and returns clients of this runtime.
    async fn set_back(&mut self) -> Result<Cluster> {
        self.plane.check()?;
        self.kwok.check()?;
        self.plane.set_back(&mut self.contents).await?;
        Cluster::at(self.plane.cluster().place().clone()).await
    }
}
