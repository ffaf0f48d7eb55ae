//! Lookup of the objects that the selectors of a class match.

use std::collections::BTreeMap;
use std::future::Future;

use aws_sdk_ec2::types::{
    CapacityReservation, CapacityReservationState, CapacityReservationType, Filter, InstanceMatchCriteria,
};
use muster_api::Ec2NodeClass;
use muster_api::nodeclass::{Ami, AmiRequirement, Ec2NodeClassSpec, SecurityGroup};
use muster_cloud::{CloudError, Refusal};

use super::caller::Caller;
use super::connection::Connection;
use super::templates::moment;
use crate::class::PlacementGroup;
use crate::discovery::images::FoundImage;
use crate::discovery::selectors::{self, Query};
use crate::discovery::{Found, FoundReservation, FoundSubnet, ImageError, Selected, images};
use crate::error_codes::Meaning;
use crate::facts::PlacementStrategy;
use crate::launch::Cluster;
use crate::rate_limits::Family;

/// Looks up all objects concurrently, beside the instance profile.
pub(super) async fn look_up(
    aws: &Connection,
    caller: &Caller,
    cluster: &Cluster,
    class: &Ec2NodeClass,
    profile: impl Future<Output = Result<String, CloudError>>,
) -> Found {
    let spec = &class.spec;
    let (subnets, security_groups, images, reservations, placement_group, instance_profile) = futures::join!(
        subnets(aws, caller, selectors::subnets(spec)),
        security_groups(aws, caller, selectors::security_groups(spec)),
        images(aws, caller, cluster, class),
        reservations(aws, caller, selectors::capacity_reservations(spec)),
        placement_group(aws, caller, spec),
        profile,
    );
    Found { subnets, security_groups, images, reservations, placement_group, instance_profile, trial: None }
}

fn filters(query: &Query) -> Vec<Filter> {
    let filter =
        |(name, values): &(String, Vec<String>)| Filter::builder().name(name).set_values(Some(values.clone())).build();
    query.filters.iter().map(filter).collect()
}

/// Fetches all pages. `$ask` makes the call for one page, `$items` are the items of a response.
macro_rules! pages {
    ($caller:expr, $operation:literal, $about:literal, |$token:ident| $ask:expr, |$page:ident| $items:expr) => {{
        let mut all = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let $page = $caller
                .call(Family::DescribeEc2, $operation, || {
                    let $token = token.clone();
                    $ask
                })
                .await
                .map_err(|failure| failure.into_error($about))?;
            all.extend_from_slice($items);
            token = $page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
            if token.is_none() {
                break all;
            }
        }
    }};
}

async fn subnets(aws: &Connection, caller: &Caller, queries: Vec<Query>) -> Result<Vec<FoundSubnet>, CloudError> {
    let mut found = BTreeMap::new();
    for query in queries {
        let filters = filters(&query);
        let page = pages!(
            caller,
            "ec2:DescribeSubnets",
            "subnets",
            |token| aws
                .ec2
                .describe_subnets()
                .set_filters(Some(filters.clone()))
                .max_results(500)
                .set_next_token(token)
                .send(),
            |page| page.subnets()
        );
        for subnet in page {
            let (Some(id), Some(zone)) = (subnet.subnet_id(), subnet.availability_zone()) else { continue };
            let one = FoundSubnet {
                id: id.to_owned(),
                zone: zone.to_owned(),
                zone_id: subnet.availability_zone_id().map(str::to_owned),
                free: subnet.available_ip_address_count().unwrap_or(0).into(),
            };
            found.insert(one.id.clone(), one);
        }
    }
    Ok(found.into_values().collect())
}

async fn security_groups(
    aws: &Connection,
    caller: &Caller,
    queries: Vec<Query>,
) -> Result<Vec<SecurityGroup>, CloudError> {
    let mut found = BTreeMap::new();
    for query in queries {
        let filters = filters(&query);
        let page = pages!(
            caller,
            "ec2:DescribeSecurityGroups",
            "security groups",
            |token| aws
                .ec2
                .describe_security_groups()
                .set_filters(Some(filters.clone()))
                .max_results(500)
                .set_next_token(token)
                .send(),
            |page| page.security_groups()
        );
        for group in page {
            let Some(id) = group.group_id() else { continue };
            let one = SecurityGroup { id: id.to_owned(), name: group.group_name().map(str::to_owned) };
            found.insert(one.id.clone(), one);
        }
    }
    Ok(found.into_values().collect())
}

pub(super) async fn reservations(
    aws: &Connection,
    caller: &Caller,
    queries: Vec<Query>,
) -> Result<Vec<FoundReservation>, CloudError> {
    let mut found = BTreeMap::new();
    for query in queries {
        for one in described_reservations(aws, caller, &query).await? {
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            let one = FoundReservation {
                id: text(one.capacity_reservation_id()),
                owner: text(one.owner_id()),
                instance_type: text(one.instance_type()),
                zone: text(one.availability_zone()),
                is_targeted: one.instance_match_criteria() == Some(&InstanceMatchCriteria::Targeted),
                is_block: one.reservation_type() == Some(&CapacityReservationType::CapacityBlock),
                is_interruptible: one.interruptible() == Some(true),
                ends: one.end_date().map(moment),
                free: free(&one),
            };
            found.insert(one.id.clone(), one);
        }
    }
    Ok(found.into_values().collect())
}

/// Returns the number of available instances; none is left of a reservation that is not active.
fn free(reservation: &CapacityReservation) -> u32 {
    let is_active = reservation.state().is_none_or(|state| *state == CapacityReservationState::Active);
    let count = reservation.available_instance_count().filter(|_| is_active);
    count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

async fn described_reservations(
    aws: &Connection,
    caller: &Caller,
    query: &Query,
) -> Result<Vec<CapacityReservation>, CloudError> {
    let mut all = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = caller
            .call(Family::DescribeEc2, "ec2:DescribeCapacityReservations", || {
                let call = aws.ec2.describe_capacity_reservations().set_filters(Some(filters(query)));
                match query.ids.as_slice() {
                    // A list of IDs does not need paging.
                    [] => call.max_results(1000).set_next_token(token.clone()),
                    ids => call.set_capacity_reservation_ids(Some(ids.to_vec())),
                }
                .send()
            })
            .await;
        let page = match page {
            Ok(page) => page,
            Err(failure) if failure.meaning() == Meaning::Refused(Refusal::Reservation) => return Ok(Vec::new()),
            Err(failure) => return Err(failure.into_error("capacity reservations")),
        };
        all.extend_from_slice(page.capacity_reservations());
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(all);
        }
    }
}

async fn placement_group(aws: &Connection, caller: &Caller, spec: &Ec2NodeClassSpec) -> Result<Selected, CloudError> {
    let Some(query) = selectors::placement_group(spec) else {
        // An empty selector asks for a group and names none: launching without one would be something else.
        let is_asked = spec.placement_group_selector.is_some();
        return Ok(if is_asked { Selected::Missing } else { Selected::Nothing });
    };
    let filters = filters(&query);
    let answer = caller
        .call(Family::DescribeEc2, "ec2:DescribePlacementGroups", || {
            aws.ec2.describe_placement_groups().set_filters(Some(filters.clone())).send()
        })
        .await
        .map_err(|failure| failure.into_error("placement groups"))?;
    let Some(group) = answer.placement_groups().first() else { return Ok(Selected::Missing) };
    let strategy = match group.strategy().map(|strategy| strategy.as_str()) {
        Some("partition") => PlacementStrategy::Partition,
        Some("spread") => PlacementStrategy::Spread,
        _ => PlacementStrategy::Cluster,
    };
    Ok(Selected::Group(PlacementGroup {
        id: group.group_id().unwrap_or_default().into(),
        strategy,
        partitions: group.partition_count().and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
    }))
}

async fn images(
    aws: &Connection,
    caller: &Caller,
    cluster: &Cluster,
    class: &Ec2NodeClass,
) -> Result<Vec<Ami>, ImageError> {
    let mut wanted = images::wanted(&class.spec, &cluster.kubernetes)?;
    let mut of_alias: BTreeMap<String, Vec<Vec<AmiRequirement>>> = BTreeMap::new();
    for one in wanted.of_alias {
        // An image that is not published for the version is skipped: for instance, AL2023 has no arm64 image for
        // Neuron.
        if let Some(id) = parameter(aws, caller, &one.name).await? {
            of_alias.entry(id).or_default().push(one.requirements);
        }
    }
    let mut ids: Vec<String> = of_alias.keys().cloned().collect();
    for name in &wanted.of_terms {
        ids.extend(parameter(aws, caller, name).await?);
    }
    wanted.queries.extend(images::by_ids(ids));
    let mut found: BTreeMap<String, FoundImage> = BTreeMap::new();
    for query in wanted.queries {
        for image in described(aws, caller, &query).await? {
            found.insert(image.id.clone(), image);
        }
    }
    let found: Vec<FoundImage> = found.into_values().collect();
    Ok(images::choose(&found, &of_alias, caller.now()))
}

async fn described(aws: &Connection, caller: &Caller, query: &Query) -> Result<Vec<FoundImage>, CloudError> {
    let filters = filters(query);
    let owners = (!query.owners.is_empty()).then(|| query.owners.clone());
    let page = pages!(
        caller,
        "ec2:DescribeImages",
        "images",
        |token| aws
            .ec2
            .describe_images()
            .set_filters(Some(filters.clone()))
            .set_owners(owners.clone())
            .include_deprecated(true)
            .max_results(1000)
            .set_next_token(token)
            .send(),
        |page| page.images()
    );
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let image = |image: &aws_sdk_ec2::types::Image| FoundImage {
        id: text(image.image_id()),
        name: text(image.name()),
        created: text(image.creation_date()),
        deprecated_from: image.deprecation_time().and_then(|time| time.parse().ok()),
        architecture: text(image.architecture().map(|architecture| architecture.as_str())),
    };
    Ok(page.iter().map(image).collect())
}

/// Returns the value of a parameter; `None` if it does not exist.
async fn parameter(aws: &Connection, caller: &Caller, name: &str) -> Result<Option<String>, CloudError> {
    let asked = caller.call(Family::Parameters, "ssm:GetParameter", || aws.ssm.get_parameter().name(name).send()).await;
    match asked {
        Ok(answer) => Ok(answer.parameter().and_then(|parameter| parameter.value()).map(str::to_owned)),
        Err(failure) if failure.meaning() == Meaning::NotFound => Ok(None),
        Err(failure) => Err(failure.into_error(name)),
    }
}
