//! What a Node of the largest kind costs the agent: etcd takes objects of 1.5 MiB, and JSON is longer than what etcd has.
//! A process of its own, for it is about the process's memory.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use muster_agent::preflight::credentials::{CredentialCheck, OwnNode};
use muster_agent::probes::api::{self, ApiServer, NodeEvent};
use muster_agent::probes::kubeconfig::{Kubeconfig, User};

/// What stands in the Node beside what the agent looks at.
const BALLAST: usize = 2_500_000;
/// In kB. The object is in memory once, as it came, beside what a connection takes; all of it as a tree was 60,000.
const MOST: u64 = 8_000;
const NAME: &str = "ip-10-0-0-1.ec2.internal";

/// The Node's JSON in pieces, so that this side has none of it in memory.
fn node(mut put: impl FnMut(&str)) {
    put(&format!(r#"{{"kind":"Node","metadata":{{"name":"{NAME}","labels":{{"a":"b"}},"managedFields":["#));
    let field = r#"{"manager":"kubelet","operation":"Update","apiVersion":"v1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}},"#;
    let fields = field.repeat(100);
    for _ in 0..BALLAST / fields.len() {
        put(&fields);
    }
    put(
        r#"{}]},"spec":{"providerID":"aws:///us-west-2a/i-1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#,
    );
}

fn length() -> usize {
    let mut length = 0;
    node(|piece| length += piece.len());
    length
}

/// Answers the agent's questions on one connection.
fn answer(stream: &TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (BufReader::new(stream), BufWriter::new(stream));
    loop {
        let (mut first, mut body) = (String::new(), 0);
        if from.read_line(&mut first)? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                body = length.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        from.read_exact(&mut vec![0; body])?;
        let path = first.split(' ').nth(1).unwrap();
        if path.contains("watch=true") {
            write!(to, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            let mut chunk = |piece: &str| write!(to, "{:x}\r\n{piece}\r\n", piece.len()).unwrap();
            for kind in ["ADDED", "MODIFIED"] {
                chunk(&format!(r#"{{"type":"{kind}","object":"#));
                node(&mut chunk);
                chunk("}\n");
            }
        } else if path.starts_with("/api/v1/nodes/") {
            write!(to, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", length())?;
            node(|piece| to.write_all(piece.as_bytes()).unwrap());
        } else {
            let text = match path {
                "/version" => r#"{"gitVersion":"v1.37.1"}"#.to_owned(),
                _ => format!(
                    r#"{{"status":{{"userInfo":{{"username":"system:node:{NAME}","groups":["system:nodes"]}}}}}}"#
                ),
            };
            write!(to, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())?;
        }
        to.flush()?;
    }
}

fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // It ends when the other side closes.
            std::thread::spawn(move || drop(answer(&stream)));
        }
    });
    address
}

/// A figure of this process in kB, as `VmRSS`, or `VmHWM` for the most that it ever was, which `sysinfo` does not say.
fn memory(figure: &str) -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_large_node_is_in_memory_once() {
    let issuer = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let server = format!("http://{}", server());
    let authority = issuer.cert.pem().into_bytes();
    let config = Kubeconfig { server, authority, user: User::Token("t".to_owned()), environment: BTreeMap::new() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let before = memory("VmRSS");
        match api::standing(&config, Some(NAME), &mut None).await {
            Some(CredentialCheck::Known { node: OwnNode::Present(node), .. }) => {
                assert_eq!(node.instance_id(), Some("i-1"))
            }
            other => panic!("{other:?}"),
        }
        let asked = memory("VmHWM").saturating_sub(before);
        let Ok(server) = ApiServer::connect(&config, &mut None).await else { panic!("no connection") };
        let mut watch = server.watch_node(NAME).await.unwrap();
        for _ in 0..2 {
            match watch.next().await {
                NodeEvent::Is(node) => assert!(node.is("Ready", "True") && node.labels["a"] == "b"),
                other => panic!("{other:?}"),
            }
        }
        let watched = memory("VmHWM").saturating_sub(before);
        let kept = memory("VmRSS").saturating_sub(before);
        println!("a Node of {} bytes: {asked} kB to ask for it, {watched} kB to watch it, {kept} kB kept", length());
        assert!(asked < MOST && watched < MOST && kept < MOST, "{asked} kB, {watched} kB, {kept} kB");
    });
}
