//! The text of a plan, part by part.

use std::collections::BTreeMap;

use super::super::document::{ExistingNode, PoolVerdict, RemarkDocument, UnschedulablePod};
use super::*;

fn node(name: &str, pool: &str, zone: &str, pods: &[&str]) -> NewNode {
    NewNode {
        name: name.to_owned(),
        node_pool: pool.to_owned(),
        pods: pods.iter().map(ToString::to_string).collect(),
        instance_type: "m7g.large".to_owned(),
        zone: zone.to_owned(),
        capacity_type: "spot".to_owned(),
        price: 0.0816,
        instance_types: ["m7g.large".to_owned()].into_iter().collect(),
        requirements: [].into_iter().collect(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requests: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

fn half_full() -> Fill {
    Fill { cpu: (965, 1930), memory: (6 << 30, 7 << 30) }
}

fn verdict(pool: &str, reason: &'static str, message: &str, hint: Option<&str>) -> PoolVerdict {
    PoolVerdict {
        node_pool: pool.to_owned(),
        reason,
        message: message.to_owned(),
        nearest: None,
        hint: hint.map(str::to_owned),
    }
}

fn plan() -> PlanDocument {
    PlanDocument {
        api_version: "muster.dev/v1",
        kind: "Plan",
        new_nodes: vec![
            node("general-0", "general", "us-east-1a", &["shop/web-0", "shop/web-1", "default/cart-0"]),
            node("general-1", "general", "us-east-1c", &["shop/web-2"]),
            node("gpu-0", "gpu", "us-east-1a", &["shop/train-0"]),
        ],
        existing_nodes: vec![ExistingNode { name: "ip-10-0-0-1".to_owned(), pods: vec!["default/cart-1".to_owned()] }],
        unschedulable: Vec::new(),
        preferences: Vec::new(),
        summary: Summary {
            pods: 6,
            scheduled: 6,
            unschedulable: 0,
            new_nodes: 3,
            hourly_price: 0.2448,
            lower_bound_hourly_price: 0.2401,
            expected_hourly_price: 0.2448,
            price_source: "us-east-1: prices of a.yaml from 2026-11-20T00:00:00Z".to_owned(),
            aged_price_source: "us-east-1: prices of a.yaml from 2026-11-20T00:00:00Z (6d old)".to_owned(),
            solve_seconds: 0.0042,
            bound_seconds: 0.002,
            validate_seconds: 0.001,
        },
    }
}

fn rendered(plan: &PlanDocument) -> String {
    render(plan, &[half_full(); 3], Palette::new(false))
}

#[test]
fn nodes_of_a_kind_share_a_line() {
    insta::assert_snapshot!(rendered(&plan()));
}

#[test]
fn pods_with_one_cause_are_told_once() {
    let mut plan = plan();
    let verdicts = vec![
        verdict("general", "Resources", "no instance type has enough resources", Some("request at most 30 cpu")),
        verdict("gpu", "Taints", "did not tolerate taint (taint=nvidia.com/gpu=true:NoSchedule)", None),
    ];
    plan.unschedulable = (0..3)
        .map(|number| UnschedulablePod {
            pod: format!("shop/huge-{number}"),
            reason: "Resources",
            message: "incompatible with nodepool \"general\", no instance type has enough resources".to_owned(),
            node_pools: verdicts.clone(),
            warnings: Vec::new(),
        })
        .collect();
    plan.summary.unschedulable = 3;
    plan.summary.scheduled = 3;
    plan.summary.expected_hourly_price = 0.3264;
    insta::assert_snapshot!(rendered(&plan));
}

#[test]
fn a_plan_without_new_nodes_has_no_price() {
    let mut plan = plan();
    plan.new_nodes.clear();
    let Summary { new_nodes, hourly_price, lower_bound_hourly_price, expected_hourly_price, .. } = &mut plan.summary;
    *new_nodes = 0;
    (*hourly_price, *lower_bound_hourly_price, *expected_hourly_price) = (0.0, 0.0, 0.0);
    insta::assert_snapshot!(rendered(&plan));
}

#[test]
fn at_most_is_rounded_up() {
    let mut summary = plan().summary;
    summary.hourly_price = 1.0;
    summary.lower_bound_hourly_price = 0.9999;
    assert_eq!(headline(&summary, 0, 0.0), "$1.00/h on 3 new nodes, at most 0.1 % above the proven minimum");
    summary.lower_bound_hourly_price = 1.0;
    assert_eq!(headline(&summary, 0, 0.0), "$1.00/h on 3 new nodes, proven to be the minimum");
}

#[test]
fn nothing_is_a_share_of_a_plan_that_is_paid_for() {
    let mut plan = plan();
    (plan.summary.hourly_price, plan.summary.lower_bound_hourly_price) = (0.0, 0.0);
    plan.summary.expected_hourly_price = 0.5;
    let text = rendered(&plan);
    assert!(text.contains("proven to be the minimum") && text.contains("on nodes for $0.5000/h.\n"), "{text}");
}

#[test]
fn a_reason_is_told_once() {
    let mut plan = plan();
    plan.unschedulable = vec![UnschedulablePod {
        pod: "shop/huge-0".to_owned(),
        reason: "Resources",
        message: "incompatible with nodepool \"general\", no instance type has enough resources".to_owned(),
        node_pools: vec![verdict("general", "Resources", "no instance type has enough resources", None)],
        warnings: Vec::new(),
    }];
    assert_eq!(rendered(&plan).matches("no instance type has enough resources").count(), 1);
}

/// A pod that is too large by its own number, so that each is a cause of its own.
fn too_large(number: usize, pools: usize) -> UnschedulablePod {
    let fault = format!("cpu: {} requested, at most 192 there", 1000 + number);
    let remark = RemarkDocument {
        reason: "MissingRequests",
        message: "the pod requests no memory".to_owned(),
        hint: "set resources.requests".to_owned(),
    };
    UnschedulablePod {
        pod: format!("shop/huge-{number}"),
        reason: "Resources",
        message: format!("incompatible with nodepool \"pool-1\", {fault}; {} other nodepools", pools - 1),
        node_pools: (0..pools)
            .map(|pool| verdict(&format!("pool-{pool}"), "Resources", &format!("{fault} in {pool}"), Some("less")))
            .collect(),
        warnings: if number == 0 { vec![remark] } else { Vec::new() },
    }
}

#[test]
fn thousands_of_pods_are_a_screen() {
    let mut plan = plan();
    let alike = (0..40).map(|number| UnschedulablePod {
        pod: format!("shop/web-{number}"),
        reason: "Taints",
        message: "incompatible with nodepool \"gpu\", did not tolerate taint".to_owned(),
        node_pools: vec![
            verdict("a", "Taints", "did not tolerate taint", None),
            verdict("b", "Taints", "did not tolerate taint", None),
        ],
        warnings: Vec::new(),
    });
    plan.unschedulable = (0..2000).map(|number| too_large(number, 12)).chain(alike).collect();
    let text = rendered(&plan);
    let section = text.split("Unschedulable pods\n").nth(1).unwrap();
    insta::assert_snapshot!(section.split("\n\n").next().unwrap());
}

#[test]
fn colour_adds_no_words() {
    let coloured = render(&plan(), &[half_full(); 3], Palette::new(true));
    assert!(coloured.contains("\u{1b}["));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, escape)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = escape.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, rendered(&plan()));
}
