//! Access rules: one row per RPC. An RPC without a row is refused, and a test compares the rows with the descriptors.

/// Kind of client that may call an RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Any client with a certificate whose key it holds.
    AnyKey,
    /// A node that has enrolled, about itself.
    Node,
    /// An operator with permission for this verb in the API server; never a node.
    Operator(Verb),
}

/// RBAC verb that an operator needs on the RPC's path, a non-resource URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads.
    Get,
    /// Creates.
    Post,
    /// Deletes.
    Delete,
}

impl Verb {
    /// Returns the verb's name in RBAC roles.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Delete => "delete",
        }
    }
}

/// Sorted by path.
const RULES: [(&str, Rule); 18] = [
    ("/grpc.health.v1.Health/Check", Rule::Node),
    ("/grpc.health.v1.Health/List", Rule::Node),
    ("/grpc.health.v1.Health/Watch", Rule::Node),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Rule::Operator(Verb::Get)),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Rule::Operator(Verb::Get)),
    ("/muster.v1.Diagnosis/ExplainNode", Rule::Operator(Verb::Get)),
    ("/muster.v1.Diagnosis/ExplainPod", Rule::Operator(Verb::Get)),
    ("/muster.v1.Diagnosis/Verdicts", Rule::Operator(Verb::Get)),
    ("/muster.v1.Diagnosis/WhatIfRemoved", Rule::Operator(Verb::Get)),
    ("/muster.v1.Enrolment/Challenge", Rule::AnyKey),
    ("/muster.v1.Enrolment/Enrol", Rule::AnyKey),
    ("/muster.v1.Enrolment/Renew", Rule::Node),
    ("/muster.v1.Fleet/Launch", Rule::Operator(Verb::Post)),
    ("/muster.v1.Fleet/List", Rule::Operator(Verb::Get)),
    ("/muster.v1.Fleet/Plan", Rule::Operator(Verb::Get)),
    ("/muster.v1.Fleet/Terminate", Rule::Operator(Verb::Delete)),
    ("/muster.v1.Fleet/Watch", Rule::Operator(Verb::Get)),
    ("/muster.v1.NodeReports/Follow", Rule::Node),
];

/// Returns the rule of an RPC by its path, such as `/muster.v1.Enrolment/Enrol`; `None` if the path is unknown.
#[must_use]
pub fn rule(path: &str) -> Option<Rule> {
    RULES.iter().find(|(of, _)| *of == path).map(|(_, rule)| *rule)
}

/// Returns all rules, sorted by path.
pub fn rules() -> impl Iterator<Item = (&'static str, Rule)> {
    RULES.into_iter()
}

/// Returns the full names of all services, such as `muster.v1.Enrolment`, sorted.
pub fn services() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    let names = RULES.into_iter().filter_map(|(path, _)| path.split('/').nth(1));
    names.filter(move |name| std::mem::replace(&mut last, name) != *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DESCRIPTORS;
    use prost::Message;
    use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

    fn described() -> Vec<FileDescriptorProto> {
        DESCRIPTORS.into_iter().flat_map(|set| FileDescriptorSet::decode(set).unwrap().file).collect()
    }

    #[test]
    fn every_rpc_has_a_rule_and_every_rule_an_rpc() {
        let mut paths = Vec::new();
        for file in &described() {
            for service in &file.service {
                let (package, service_name) = (file.package(), service.name());
                paths.extend(service.method.iter().map(|it| format!("/{package}.{service_name}/{}", it.name())));
            }
        }
        paths.sort_unstable();
        assert_eq!(paths, RULES.map(|(path, _)| path.to_owned()), "give a new RPC its rule");
    }

    #[test]
    fn each_service_is_named_once() {
        let mut names: Vec<String> = Vec::new();
        for file in &described() {
            names.extend(file.service.iter().map(|service| format!("{}.{}", file.package(), service.name())));
        }
        names.sort_unstable();
        assert_eq!(services().collect::<Vec<_>>(), names);
    }

    #[test]
    fn no_message_of_an_agent_names_a_node() {
        /// Exception: `node_name` is the name a node reports for itself. It is shown, and never looked up.
        const SHOWN: [&str; 1] = ["NodeReport.node_name"];
        fn fields(message: &DescriptorProto, found: &mut Vec<String>) {
            found.extend(message.field.iter().map(|field| format!("{}.{}", message.name(), field.name())));
            message.nested_type.iter().for_each(|nested| fields(nested, found));
        }
        let mut found = Vec::new();
        // Requests of operators name their subject: these RPCs are not for nodes.
        let is_of_operators = |file: &&FileDescriptorProto| {
            let package = file.package();
            let paths = file.service.iter().flat_map(|service| {
                service.method.iter().map(move |it| format!("/{package}.{}/{}", service.name(), it.name()))
            });
            let rules: Vec<_> = paths.map(|path| rule(&path)).collect();
            !rules.is_empty() && rules.iter().all(|rule| matches!(rule, Some(Rule::Operator(_))))
        };
        let described = described();
        let of_agents = described.iter().filter(|file| file.package() == "muster.v1" && !is_of_operators(file));
        for file in of_agents {
            file.message_type.iter().for_each(|message| fields(message, &mut found));
        }
        let names_one = |field: &&String| {
            let name = field.split_once('.').map_or("", |(_, name)| name);
            ["instance", "node", "provider", "claim", "address"].iter().any(|word| name.contains(word))
        };
        assert!(found.len() > 40);
        assert_eq!(
            found.iter().filter(names_one).collect::<Vec<_>>(),
            SHOWN.map(str::to_owned).iter().collect::<Vec<_>>()
        );
    }
}
