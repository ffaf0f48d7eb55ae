//! A test in the shared world.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::{Stage, logs};
use crate::cluster::Cluster;
use crate::ec2::Ec2;
use crate::error::{Error, Result};
use crate::leaks::{self, Item};
use crate::ledger;
use crate::world::{Part, Shared, World};

/// What a test has while it runs.
#[derive(Debug)]
pub struct Case {
    name: String,
    id: String,
    namespace: String,
    shared: Shared,
    ec2: Option<Arc<Ec2>>,
    before: Vec<Item>,
    own: OnceLock<World>,
}

impl Case {
    pub(super) async fn begin(name: &str, parts: &[Part]) -> Result<Self> {
        let shared = Shared::join(parts).await?;
        let id = format!("t{}", crate::random::text(3)?);
        let namespace = format!("{name}-{id}");
        let ec2 = if parts.contains(&Part::Moto) {
            let ec2 = Shared::ec2().await?;
            Some(Arc::new(ec2))
        } else {
            None
        };
        let before = leaks::of_cluster(&shared.cluster).await?;
        let namespaces: Api<Namespace> = Api::all(shared.cluster.client());
        let object = json!({"metadata": {"name": namespace}});
        let object = serde_json::from_value(object).map_err(std::io::Error::from)?;
        namespaces.create(&PostParams::default(), &object).await?;
        shared.cluster.can_create_pods(&namespace).await?;
        Ok(Self { name: name.to_owned(), id, namespace, shared, ec2, before, own: OnceLock::new() })
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

    /// An EC2 of this test's own.
    ///
    /// # Errors
    /// When the test did not ask for [`Part::Moto`].
    pub fn ec2(&self) -> Result<&Arc<Ec2>> {
        self.ec2.as_ref().ok_or_else(|| Error::Missing {
            what: format!("`{}` has no EC2", self.name),
            hint: "give `Part::Moto` among its parts".to_owned(),
        })
    }

    /// A world of this test's own, for the processes that it starts. They must have ended when it does.
    ///
    /// # Errors
    /// As [`World::open`].
    pub fn own_world(&self) -> Result<&World> {
        if let Some(world) = self.own.get() {
            return Ok(world);
        }
        let world = World::open(&self.name)?;
        Ok(self.own.get_or_init(|| world))
    }

    /// Where the servers write.
    pub fn logs(&self) -> &Path {
        &self.shared.logs
    }
}

impl Stage for Case {
    type Left = ();

    fn title(&self) -> &str {
        &self.namespace
    }

    async fn end(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.cluster().client());
        namespaces.delete(&self.namespace, &DeleteParams::default()).await?;
        let mut now = leaks::of_cluster(self.cluster()).await?;
        if let Some(ec2) = &self.ec2 {
            // All of it is this test's: its account is.
            now.extend(leaks::of_ec2(ec2).await?.into_iter().map(|item| item.marked(&self.id)));
        }
        if let Some(world) = self.own.get() {
            // All but the folder that it began with.
            now.extend(leaks::of_ledger(world.ledger()).into_iter().skip(1).map(|item| item.marked(&self.id)));
        }
        leaks::none(&self.name, &self.id, &self.before, &now)
    }

    async fn keep_logs(&self, folder: &Path) -> Result<()> {
        logs::copy(&self.shared.logs, folder)?;
        if let Some(world) = self.own.get() {
            logs::copy(world.logs(), folder)?;
        }
        if let Some(ec2) = &self.ec2 {
            logs::write_calls(ec2, folder)?;
        }
        logs::write_picture(self.cluster(), self.ec2.as_deref(), &self.id, folder).await
    }

    async fn close(self, _is_sound: bool) -> Result<()> {
        let Some(world) = self.own.into_inner() else { return Ok(()) };
        let ledger = world.ledger().folder().to_owned();
        world.close()?;
        match ledger::alive_in(&ledger).as_slice() {
            [] => Ok(()),
            left => Err(Error::Leaked {
                test: self.name,
                what: left.iter().map(|process| format!("process {}", process.pid)).collect(),
            }),
        }
    }
}
