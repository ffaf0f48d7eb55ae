//! Reading of an order.

use muster_api::validation::check;
use muster_aws::quantity;
use muster_scheduling::model::{Operator, Requirement, Requirements, Resource, Resources};
use serde_json::json;

use super::{Kind, Order, Refusal, WrittenOrder, WrittenRequirement};

/// Path of the requirements in the NodeClaim that is used for validation.
const CHECKED_AT: &str = "spec.requirements";

/// Parses an order. Its requirements are validated with the rules of the NodeClaim CRD.
pub fn read(order: WrittenOrder) -> Result<Order, Refusal> {
    let WrittenOrder { node_pool: pool, count, requests, requirements } = order;
    let mut amounts = Resources::new();
    for (name, text) in &requests {
        let resource = Resource::new(name);
        let amount = quantity::parse(&resource, text)
            .map_err(|error| invalid(&format!("order.requests[{name}]"), &format!("`{text}` {error}")))?;
        amounts.set(resource, amount);
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Order { pool, count, requests: amounts, requirements: required(&requirements)? })
}

fn required(all: &[WrittenRequirement]) -> Result<Requirements, Refusal> {
    let entries = all.iter().map(|one| json!({"key": one.key, "operator": one.operator, "values": one.values}));
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "order"},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": entries.collect::<Vec<_>>(),
        },
    });
    if let Some(error) = check(&claim).errors.first() {
        let rest = error.path.strip_prefix(CHECKED_AT).unwrap_or_default();
        return Err(invalid(&format!("order.requirements{rest}"), &error.message));
    }
    let mut requirements = Requirements::new();
    for (number, one) in all.iter().enumerate() {
        // Every operator that passes validation is known here.
        let Some(operator) = operator(&one.operator) else {
            return Err(invalid(&format!("order.requirements[{number}].operator"), "this is not an operator"));
        };
        let values = one.values.iter().map(String::as_str);
        requirements.add(one.key.as_str(), Requirement::new(operator, values));
    }
    Ok(requirements)
}

fn operator(name: &str) -> Option<Operator> {
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
    [In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte].into_iter().find(|operator| operator.name() == name)
}

fn invalid(field: &str, what: &str) -> Refusal {
    Refusal::new(Kind::Invalid, format!("{field}: {what}"))
}
