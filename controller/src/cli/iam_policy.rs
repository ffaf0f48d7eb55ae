//! `muster iam-policy`: the minimal AWS permissions of the controller.

use std::io::Write;

use muster_aws::permissions::{Permission, needed};
use muster_aws::policy::policy;

use super::failure::Failure;
use super::grid::{Grid, Side};
use super::output::{Format, write_document};
use super::palette::Palette;
use super::settings::IamPolicySettings;

/// Prints the policy as JSON or YAML for IAM, or as a table of its actions and their purposes.
pub(crate) fn print(out: &mut dyn Write, settings: &IamPolicySettings, palette: Palette) -> Result<(), Failure> {
    let IamPolicySettings { grantee, features, only_reads, format } = settings;
    let permissions = needed(features, *only_reads);
    match format {
        Format::Data(format) => write_document(out, &policy(grantee, permissions), *format),
        Format::Table => Ok(out.write_all(table(permissions, palette).as_bytes())?),
    }
}

fn table(permissions: impl Iterator<Item = &'static Permission>, palette: Palette) -> String {
    let mut grid =
        Grid::new([("ACTION", Side::Left), ("FEATURE", Side::Left), ("ON", Side::Left), ("WHAT FOR", Side::Left)]);
    for one in permissions {
        let (feature, scope) = (one.feature.name().to_owned(), format!("{:?}", one.scope));
        grid.push([one.action.to_owned(), feature, scope, one.purpose.to_owned()]);
    }
    grid.render(palette)
}
