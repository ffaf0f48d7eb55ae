//! Traces, as a collector gets them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use kube::ResourceExt;
use kube::api::ListParams;
use muster_tests::replica::{self, Replica};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::ground::{Ground, SOON};

/// A collector of traces.
struct Collector(mpsc::UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        // Nobody listens at the end of the test.
        drop(self.0.send(request.into_inner()));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

async fn collect() -> (SocketAddr, mpsc::UnboundedReceiver<ExportTraceServiceRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = mpsc::unbounded_channel();
    let served = Server::builder().add_service(TraceServiceServer::new(Collector(sender)));
    tokio::spawn(served.serve_with_incoming(TcpListenerStream::new(listener)));
    (address, receiver)
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> &'a str {
    let value = attributes.iter().find(|one| one.key == key).and_then(|one| one.value.as_ref());
    match value.and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("`{key}` is {other:?}"),
    }
}

/// Spans by trace ID, written as a UID without hyphens.
type Traces = BTreeMap<String, Vec<Span>>;

/// Returns all traces as soon as those with these IDs are there.
async fn heard(requests: &mut mpsc::UnboundedReceiver<ExportTraceServiceRequest>, expected: &[String]) -> Traces {
    let mut traces = Traces::new();
    while !expected.iter().all(|id| traces.contains_key(id)) {
        let request = timeout(SOON, requests.recv()).await.unwrap_or_else(|_| panic!("only {traces:?}")).unwrap();
        for of_resource in request.resource_spans {
            assert_eq!(text(&of_resource.resource.unwrap().attributes, "service.name"), "muster");
            for span in of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans) {
                let id = span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
                traces.entry(id).or_default().push(span);
            }
        }
    }
    traces
}

/// Returns the whole and its parts, whose times lie in those of the whole.
fn taken_apart(spans: &[Span]) -> (&Span, Vec<&str>) {
    let (roots, parts): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|span| span.parent_span_id.is_empty());
    let [root] = roots[..] else { panic!("{spans:?}") };
    for part in &parts {
        assert_eq!(part.parent_span_id, root.span_id);
        assert!(part.start_time_unix_nano <= part.end_time_unix_nano);
        assert!(root.start_time_unix_nano <= part.start_time_unix_nano, "{spans:?}");
        assert!(part.end_time_unix_nano <= root.end_time_unix_nano, "{spans:?}");
    }
    (root, parts.iter().map(|part| part.name.as_str()).collect())
}

#[tokio::test]
async fn pods_and_nodes_have_traces_and_bad_settings_are_refused() {
    let (collector, mut requests) = collect().await;
    let ground = Ground::new("run suite").await;
    let kubeconfig = ground.cluster().kubeconfig();
    for (bad, reason) in [("https://collector:4317", "TLS is not supported"), ("collector", "it is not a URL")] {
        let mut refused = Command::new(replica::built().unwrap());
        let refused = refused.args(["run", "--cloud", "kwok", "--metrics-port", "0", "--health-probe-port", "0"]);
        let refused = refused.env("KUBECONFIG", kubeconfig).env("OTEL_EXPORTER_OTLP_ENDPOINT", bad).kill_on_drop(true);
        let ended = timeout(SOON, refused.output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("`OTEL_EXPORTER_OTLP_ENDPOINT`: {reason}")), "{said}");
    }

    let program = Replica::program("muster", kubeconfig).unwrap().flag("cloud", "kwok");
    let program = program.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"));
    let program = program.env("OTEL_BSP_SCHEDULE_DELAY", "500");
    let _replica = Replica::start(ground.world.spawner(), &program).unwrap();
    ground.deploy_pairs(3).await;
    ground.running(3, SOON).await;
    let id = |uid: Option<String>| uid.unwrap().replace('-', "");
    let pods = ground.pods().list(&ListParams::default()).await.unwrap().items;
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    let of_pods: Vec<String> = pods.iter().map(|pod| id(pod.uid())).collect();
    let of_claims: Vec<String> = claims.iter().map(|claim| id(claim.uid())).collect();
    let traces = heard(&mut requests, &[of_pods.clone(), of_claims.clone()].concat()).await;

    for (pod, trace) in pods.iter().zip(&of_pods) {
        let (root, parts) = taken_apart(&traces[trace]);
        assert_eq!((root.name.as_str(), parts), ("pod pending", vec!["decision", "placement"]));
        assert_eq!(text(&root.attributes, "k8s.pod.name"), pod.name_any());
        assert_eq!(text(&root.attributes, "k8s.node.name"), pod.spec.as_ref().unwrap().node_name.as_ref().unwrap());
    }
    for (claim, trace) in claims.iter().zip(&of_claims) {
        let (root, parts) = taken_apart(&traces[trace]);
        assert_eq!((root.name.as_str(), parts), ("node start", vec!["launch", "registration", "initialization"]));
        assert_eq!(text(&root.attributes, "karpenter.sh/nodeclaim"), claim.name_any());
        assert_eq!(text(&root.attributes, "karpenter.sh/nodepool"), "general");
        assert!(!text(&root.attributes, "host.type").is_empty());
    }
}
