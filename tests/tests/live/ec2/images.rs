//! SSM's public parameters and the images that they name.

use aws_sdk_ec2::types::Filter;

use crate::ec2::sdk::{Fixture, client};

#[tokio::test]
async fn every_family_has_images_that_ec2_describes() {
    let world = Fixture::start().await;
    let ssm = client!(aws_sdk_ssm, world.ec2, world.ec2.credentials("controller"));
    let al2023 = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023";
    for (name, architecture) in [
        (format!("{al2023}/x86_64/standard/recommended/image_id"), "x86_64"),
        (format!("{al2023}/x86_64/nvidia/recommended/image_id"), "x86_64"),
        (format!("{al2023}/arm64/standard/recommended/image_id"), "arm64"),
        ("/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id".to_owned(), "x86_64"),
        ("/aws/service/bottlerocket/aws-k8s-1.35/arm64/latest/image_id".to_owned(), "arm64"),
        ("/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/1.58.0/image_id".to_owned(), "x86_64"),
        (
            "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.35/image_id".to_owned(),
            "x86_64",
        ),
    ] {
        let found = ssm.get_parameter().name(&name).send().await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let id = found.parameter().unwrap().value().unwrap();
        let images = world.client.describe_images().image_ids(id).send().await.unwrap();
        assert_eq!(images.images()[0].architecture().unwrap().as_str(), architecture, "{name}");
    }
}

#[tokio::test]
async fn a_parameter_that_is_not_published_is_not_found() {
    let world = Fixture::start().await;
    let ssm = client!(aws_sdk_ssm, world.ec2, world.ec2.credentials("controller"));
    let name = "/aws/service/eks/optimized-ami/1.20/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let error = ssm.get_parameter().name(name).send().await.unwrap_err().into_service_error();
    assert!(error.is_parameter_not_found(), "{error:?}");
    let both = ssm.get_parameters().names(name).send().await.unwrap();
    assert_eq!(both.invalid_parameters(), [name]);
    let pages = ssm
        .get_parameters_by_path()
        .path("/aws/service/bottlerocket/aws-k8s-1.35")
        .recursive(true)
        .into_paginator()
        .send()
        .collect::<Result<Vec<_>, _>>()
        .await
        .unwrap();
    let found = pages.iter().map(|page| page.parameters().len()).sum::<usize>();
    // Two architectures, `latest` and the release itself, image and version.
    assert_eq!(found, 8, "{pages:?}");
}

#[tokio::test]
async fn own_parameters_are_motos() {
    let world = Fixture::start().await;
    let ssm = client!(aws_sdk_ssm, world.ec2, world.ec2.credentials("controller"));
    let put = ssm.put_parameter().name("/team/ami").value("ami-1").r#type(aws_sdk_ssm::types::ParameterType::String);
    put.send().await.unwrap();
    let got = ssm.get_parameter().name("/team/ami").send().await.unwrap();
    assert_eq!(got.parameter().unwrap().value(), Some("ami-1"));
}

#[tokio::test]
async fn a_new_release_is_seen_when_it_is_published() {
    let world = Fixture::start().await;
    let before = world.image("x86_64").await;
    let named = |name: &str| {
        let filter = Filter::builder().name("name").values(name).build();
        world.client.describe_images().filters(filter).send()
    };
    let newer = "amazon-eks-node-al2023-x86_64-standard-1.35-v20260801";
    assert!(named(newer).await.unwrap().images().is_empty());
    world.ec2.publish_images("al2023");
    let after = world.image("x86_64").await;
    assert_ne!(before, after);
    assert_eq!(named(newer).await.unwrap().images()[0].image_id(), Some(after.as_str()));
}
