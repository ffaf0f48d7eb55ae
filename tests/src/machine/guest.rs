//! Where `muster-guest` is: the program of this package that runs inside machines and namespaces.

use std::path::PathBuf;

use crate::error::{Error, Result};

/// Its path. cargo builds it beside the other program of the package, one folder above the tests.
pub(super) fn path() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("muster-guest")).find(|path| path.is_file());
    found.ok_or_else(|| Error::Missing {
        what: format!("there is no `muster-guest` beside `{}`", own.display()),
        hint: "run `cargo build -p muster-tests --bins`".to_owned(),
    })
}
