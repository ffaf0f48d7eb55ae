//! Stubs of the service commands for platforms without the service.

use std::io::Write;
use std::process::ExitCode;

use super::arguments::{GateArguments, RunArguments, ServiceArguments, StatusArguments};
use super::failure::Failure;
use super::palette::Palette;

const MESSAGE: &str = "the service is not on this platform\n\nhint: `muster-agent validate` is";

pub(super) fn run(_: RunArguments) -> Result<(), Failure> {
    Err(Failure::Outside(MESSAGE.to_owned()))
}

pub(super) fn set_up(_: ServiceArguments) -> Result<(), Failure> {
    Err(Failure::Outside(MESSAGE.to_owned()))
}

pub(super) fn status(_: StatusArguments, _: Palette, _: &mut dyn Write) -> Result<Result<(), Failure>, Failure> {
    Err(Failure::Outside(MESSAGE.to_owned()))
}

pub(super) fn gate(_: GateArguments) -> ExitCode {
    ExitCode::SUCCESS
}
