//! The daemon that holds the world which the suites of one `cargo test` share.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use super::protocol::{Answer, Ask, Described, MotoPlace, Part};
use super::{World, cluster_in, shared};
use crate::cluster::{Cluster, ControlPlane, Kwok, Options};
use crate::ec2::Moto;
use crate::error::{Error, Result};

/// How long the daemon stays when nobody uses it: cargo starts one test program after another, and the next one should
/// find the world of the last. Linking happened before the first of them.
const LINGER: Duration = Duration::from_secs(5);

/// What runs so far.
struct Parts {
    world: World,
    cluster: Option<(Cluster, Option<ControlPlane>)>,
    kwok: Option<Kwok>,
    moto: Option<Moto>,
}

/// Opens a world for `owner` and serves it until its last user is gone. A user is a connection: the kernel closes it when
/// a process is killed.
///
/// # Errors
/// When the world cannot be opened or closed.
pub async fn serve(owner: &str) -> Result<()> {
    let world = World::open(owner)?;
    let socket = shared::socket(world.ledger().folder());
    let listener = UnixListener::bind(&socket)?;
    let parts = Arc::new(Mutex::new(Parts { world, cluster: None, kwok: None, moto: None }));
    let (users_tx, mut users_rx) = watch::channel(0_usize);
    loop {
        let is_idle = *users_rx.borrow_and_update() == 0;
        tokio::select! {
            accepted = listener.accept() => {
                let (user, _) = accepted?;
                users_tx.send_modify(|users| *users += 1);
                let (parts, users_tx) = (Arc::clone(&parts), users_tx.clone());
                // Ends with its connection. At the end nobody is connected, so none is left.
                tokio::spawn(async move {
                    let _gone = attend(user, &parts).await;
                    users_tx.send_modify(|users| *users -= 1);
                });
            }
            changed = users_rx.changed() => if changed.is_err() { break },
            () = tokio::time::sleep(LINGER), if is_idle => break,
        }
    }
    // Nobody can come in from here on: whoever finds no socket starts a daemon of its own.
    fs_err::remove_file(&socket)?;
    drop(listener);
    let mut parts = parts.lock().await;
    parts.moto = None;
    parts.kwok = None;
    parts.cluster = None;
    parts.world.ledger().close()
}

/// Answers one user until it goes.
async fn attend(user: UnixStream, parts: &Mutex<Parts>) -> Result<()> {
    let (reader, mut writer) = user.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let ask: Ask = serde_json::from_str(&line).map_err(std::io::Error::from)?;
        let answer = match parts.lock().await.provide(&ask.parts).await {
            Ok(described) => Answer::Ready(described),
            Err(error) => Answer::Failed(error.to_string()),
        };
        let mut text = serde_json::to_string(&answer).map_err(std::io::Error::from)?;
        text.push('\n');
        // A user that went away in the meantime is the next line's business: there is none.
        if timeout(LINGER, writer.write_all(text.as_bytes())).await.is_err() {
            break;
        }
    }
    Ok(())
}

impl Parts {
    /// Starts what is asked for and does not run yet. What has died in the meantime is an error with its last words: a
    /// server that dies under a test is never restarted in silence.
    async fn provide(&mut self, wanted: &[Part]) -> Result<Described> {
        if wanted.iter().any(|part| matches!(part, Part::Cluster | Part::Kwok)) {
            self.provide_cluster(wanted.contains(&Part::Kwok)).await?;
        }
        if wanted.contains(&Part::Moto) && self.moto.is_none() {
            self.moto = Some(Moto::start(self.world.spawner()).await?);
        }
        if let Some(moto) = &self.moto {
            moto.check()?;
        }
        let moto = self.moto.as_ref().map(|moto| MotoPlace { port: moto.port(), log: moto.log().to_owned() });
        let cluster = self.cluster.as_ref().map(|(cluster, _)| cluster.place().clone());
        Ok(Described { cluster, logs: self.world.logs().to_owned(), moto })
    }

    async fn provide_cluster(&mut self, with_kwok: bool) -> Result<()> {
        if self.cluster.is_none() {
            let options = Options { audit: true, ..Options::named("shared") };
            self.cluster = Some(cluster_in(&self.world, &options).await?);
        }
        let Some((cluster, plane)) = &mut self.cluster else {
            return Err(Error::Missing { what: "the shared world has no cluster".into(), hint: "run it again".into() });
        };
        if let Some(plane) = plane {
            plane.check()?;
        }
        if with_kwok && self.kwok.is_none() {
            self.kwok = Some(Kwok::start(self.world.spawner(), cluster)?);
        }
        if let Some(kwok) = &mut self.kwok {
            kwok.check()?;
        }
        Ok(())
    }
}
