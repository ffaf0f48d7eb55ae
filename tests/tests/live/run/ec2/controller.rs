//! Controllers: in the process of the test, where their metrics are read, or as the program that people run.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_aws::live::{CallObserver, Connection};
use muster_controller::ec2::{self, Ec2 as Provider};
use muster_controller::run::{CloudOptions, Observers, Options, run_in};
use muster_stages::disruption::Timing;
use muster_stages::provision::Lengths;
use muster_tests::replica::Replica;
use muster_tests::wait;
use tokio::task::JoinSet;

use super::ground::{CLUSTER, CONTROLLER, Ground, SOON};

/// The Lease that replicas hold.
pub(crate) const LEASE: &str = "karpenter-leader-election";

/// A controller in this process. It is killed with the value.
pub(crate) struct Controller {
    metrics: u16,
    _task: JoinSet<()>,
}

impl Ground {
    /// EC2 as the controller sees it.
    pub(crate) async fn provider(&self, options: ec2::Options, observer: Option<Arc<dyn CallObserver>>) -> Provider {
        let aws = Connection::new(&self.ec2.sdk_config(CONTROLLER)).unwrap();
        Provider::connect_through(aws, self.kube(), options, observer).await.unwrap()
    }

    /// Starts the controller.
    pub(crate) async fn controller(&self) -> Controller {
        self.controller_with(ec2::Options::of(CLUSTER), None).await
    }

    /// The same, which has to be elected.
    pub(crate) async fn candidate(&self) -> Controller {
        self.controller_with(ec2::Options::of(CLUSTER), Some(LEASE)).await
    }

    /// The same, which looks classes up every second, and decides on nodes as often.
    pub(crate) async fn quick_controller(&self) -> Controller {
        self.quick_controller_with(|options| options).await
    }

    /// The same with these options.
    pub(crate) async fn quick_controller_with(&self, with: impl FnOnce(Options) -> Options) -> Controller {
        let second = Duration::from_secs(1);
        let provider = ec2::Options { look_up_every: second, ..ec2::Options::of(CLUSTER) };
        let timing = Timing { every: second, validation: second * 2, ..Timing::default() };
        self.controller_as(provider, |options| with(Options { timing, ..options })).await
    }

    /// The same as `controller`, which reads the queue of this name.
    pub(crate) async fn listening_controller(&self, queue: &str) -> Controller {
        self.controller_with(listening(queue), None).await
    }

    pub(crate) async fn controller_with(&self, options: ec2::Options, lease: Option<&str>) -> Controller {
        self.controller_as(options, |options| Options { lease: lease.map(str::to_owned), ..options }).await
    }

    pub(crate) async fn controller_as(
        &self,
        provider: ec2::Options,
        with: impl FnOnce(Options) -> Options,
    ) -> Controller {
        let provider = self.provider(provider, None).await;
        // Free a moment ago: nobody else of this process asks for one that the kernel does not choose.
        let metrics = TcpListener::bind(("::", 0)).unwrap().local_addr().unwrap().port();
        let options = with(run_options(metrics));
        let mut task = JoinSet::new();
        let client = self.kube();
        task.spawn(async move {
            run_in(client, provider, options, Observers::default(), std::future::pending()).await.unwrap();
        });
        Controller { metrics, _task: task }
    }

    /// Starts the program for the cluster of `kubeconfig`. Its calls are recorded under its name.
    pub(crate) fn replica(&self, name: &str, kubeconfig: &Path) -> Replica {
        self.replica_with(name, kubeconfig, &[])
    }

    /// The same with these arguments.
    pub(crate) fn replica_with(&self, name: &str, kubeconfig: &Path, arguments: &[&str]) -> Replica {
        let program = Replica::program(name, kubeconfig).unwrap().args(arguments);
        let program = program.env("CLUSTER_NAME", CLUSTER).env("AWS_ENDPOINT_URL", self.ec2.endpoint());
        let variables = self.ec2.credentials(name).environment();
        let program = variables.into_iter().fold(program, |program, (name, value)| program.env(name, value));
        Replica::start(self.world.spawner(), &program).unwrap()
    }
}

/// The provider's options with a queue of this name.
pub(crate) fn listening(queue: &str) -> ec2::Options {
    ec2::Options { queue: Some(queue.to_owned()), ..ec2::Options::of(CLUSTER) }
}

/// The controller's own options.
pub(crate) fn run_options(metrics_port: u16) -> Options {
    Options {
        metrics_port,
        window: Lengths { idle: Duration::from_millis(100), max: Duration::from_secs(1) },
        ..Options::of(CloudOptions::Aws(Box::new(ec2::Options::of(CLUSTER))))
    }
}

impl Controller {
    /// Address of its metrics.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.metrics)
    }

    /// Waits until all series of this metric with all of these labels are together at least that much.
    pub(crate) async fn counted(&self, metric: &str, labels: &[(&str, &str)], least: f64) {
        self.shows(metric, labels, &format!("at least {least}"), |sum| sum >= least).await;
    }

    /// Waits until it leads, or does not.
    pub(crate) async fn leads(&self, leads: bool) {
        let (what, value) = if leads { ("1", 1.0) } else { ("0", 0.0) };
        self.shows("muster_leading", &[], what, |sum| (sum - value).abs() < 0.5).await;
    }

    async fn shows(&self, metric: &str, labels: &[(&str, &str)], what: &str, holds: impl Fn(f64) -> bool) {
        let url = format!("http://127.0.0.1:{}/metrics", self.metrics);
        let what = format!("{metric}{labels:?} is {what}");
        let found = wait::until_some(&what, SOON, || {
            let url = url.clone();
            let holds = &holds;
            async move {
                let text = tokio::task::spawn_blocking(move || ureq::get(&url).call()?.body_mut().read_to_string());
                let Ok(text) = text.await.unwrap() else { return Ok(None) };
                let is = |line: &&str| {
                    line.starts_with(metric)
                        && labels.iter().all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
                };
                let value = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
                let sum: f64 = text.lines().filter(is).filter_map(value).sum();
                Ok(holds(sum).then_some(()))
            }
        });
        found.await.unwrap();
    }
}
