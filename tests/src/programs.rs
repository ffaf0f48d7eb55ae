//! Where the programs of a world are: what `tests/setup` made, or what the environment names instead.
//!
//! ```text
//!  tests/cluster/programs ──► setup ──► CACHE/kube-1.37.1/etcd
//!          │                            CACHE/moto-5.2.5/bin/moto_server
//!          └───────────────► path("etcd") ──┘
//! ```

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Replaces the built etcd, API server and kubectl by those in the folder that it names, as in Kubernetes' own envtest.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// Replaces the per-user cache.
pub const CACHE: &str = "MUSTER_WORLD_CACHE";

/// The table that set-up reads too.
const TABLE: &str = include_str!("../cluster/programs");

/// What [`ASSETS`] may replace: the programs that envtest ships.
const OF_ASSETS: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// As `kube`.
    pub name: &'static str,
    /// As `1.37.1`.
    pub version: &'static str,
    /// How it is made: `make`, `go`, `deb` or `pip`.
    kind: &'static str,
    /// The programs that it holds.
    programs: &'static str,
}

impl Package {
    /// The programs that it holds.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.programs.split_ascii_whitespace()
    }

    /// The folder of its programs below `cache`.
    pub fn folder(&self, cache: &Path) -> PathBuf {
        let folder = cache.join(format!("{}-{}", self.name, self.version));
        if self.kind == "pip" { folder.join("bin") } else { folder }
    }
}

/// All that set-up makes, in its order.
pub fn packages() -> impl Iterator<Item = Package> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, rest) = line.split_once(char::is_whitespace)?;
        let (version, rest) = rest.trim_start().split_once(char::is_whitespace)?;
        let (kind, rest) = rest.trim_start().split_once(char::is_whitespace)?;
        let (_source, programs) = rest.trim_start().split_once(char::is_whitespace)?;
        Some(Package { name, version, kind, programs: programs.trim() })
    })
}

/// The per-user cache that set-up fills.
///
/// # Errors
/// [`Error::Missing`] when no variable says where the user's files are.
pub fn cache() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable(CACHE)
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("muster/world")))
        .or_else(|| Some(variable("HOME")?.join(".cache/muster/world")))
        .ok_or_else(|| Error::Missing {
            what: format!("there is no place for the programs of a world: neither `{CACHE}` nor `HOME` is set"),
            hint: format!("set `{CACHE}` to a folder, then run `tests/setup`"),
        })
}

/// The program `name`, as `etcd` or `moto_server`.
///
/// # Errors
/// [`Error::Missing`] when it was not made yet, with the command that makes it.
pub fn path(name: &str) -> Result<PathBuf> {
    let assets = std::env::var_os(ASSETS).filter(|value| !value.is_empty()).map(PathBuf::from);
    locate(name, assets.as_deref(), &cache()?)
}

fn locate(name: &str, assets: Option<&Path>, cache: &Path) -> Result<PathBuf> {
    if let Some(assets) = assets.filter(|_| OF_ASSETS.contains(&name)) {
        let path = assets.join(name);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Error::Missing {
                what: format!("`{ASSETS}` names `{}`, and there is no `{name}` in it", assets.display()),
                hint: format!("unset `{ASSETS}` to use what `tests/setup` builds"),
            })
        };
    }
    let Some(package) = packages().find(|package| package.programs().any(|program| program == name)) else {
        return Err(Error::Missing {
            what: format!("no program `{name}` belongs to a world"),
            hint: "add it to `tests/cluster/programs`".to_owned(),
        });
    };
    let path = package.folder(cache).join(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::Missing {
        what: format!("`{name}` {} is not set up: there is no `{}`", package.version, path.display()),
        hint: "run `tests/setup`".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_as_set_up_reads_it() {
        let kube = packages().next().unwrap();
        assert_eq!((kube.name, kube.kind), ("kube", "make"));
        assert!(kube.programs().any(|program| program == "kubelet"));
        assert_eq!(packages().count(), TABLE.lines().filter(|line| !line.starts_with('#')).count());
    }

    #[test]
    fn a_program_is_in_the_cache_or_the_hint_says_how_it_gets_there() {
        let cache = tempfile::tempdir().unwrap();
        let missing = locate("kwok", None, cache.path()).unwrap_err().to_string();
        let missing = missing.replace(cache.path().to_str().unwrap(), "CACHE");
        insta::assert_snapshot!(missing);
    }

    #[test]
    fn assets_replace_the_api_server_and_nothing_that_envtest_has_not() {
        let assets = tempfile::tempdir().unwrap();
        fs_err::write(assets.path().join("kube-apiserver"), "").unwrap();
        let cache = Path::new("/nowhere");
        assert!(locate("kube-apiserver", Some(assets.path()), cache).unwrap().starts_with(assets.path()));
        assert!(locate("etcd", Some(assets.path()), cache).unwrap_err().to_string().contains(ASSETS));
        assert!(locate("kwok", Some(assets.path()), cache).unwrap_err().to_string().contains("tests/setup"));
    }
}
