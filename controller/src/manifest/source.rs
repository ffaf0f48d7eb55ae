//! From paths to texts.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::InputError;

/// A text of the input.
pub(crate) struct Source {
    /// The file as it was named, `stdin` for `-`.
    pub(crate) name: String,
    /// All of it.
    pub(crate) text: String,
    /// The file ends in `.json`, so nothing but JSON is expected.
    pub(crate) only_json: bool,
}

/// Deeper than any sensible tree of manifests, so that a link to a parent ends.
const DEEPEST: usize = 32;

/// Hands over each text under `paths` (`-` is `stdin`), and drops it before reading the next.
pub(crate) fn each_source(
    paths: &[PathBuf],
    stdin: &mut dyn Read,
    use_source: &mut dyn FnMut(&Source) -> Result<(), InputError>,
) -> Result<(), InputError> {
    for path in paths {
        if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            stdin.read_to_end(&mut bytes).map_err(|reason| unreadable("stdin", &reason))?;
            use_source(&decoded("stdin".to_owned(), bytes, false)?)?;
        } else if std::fs::metadata(path).map_err(|reason| unreadable(&path.display().to_string(), &reason))?.is_dir() {
            each_in_folder(path, DEEPEST, use_source)?;
        } else {
            use_source(&read_file(path)?)?;
        }
    }
    Ok(())
}

fn each_in_folder(
    folder: &Path,
    deeper: usize,
    use_source: &mut dyn FnMut(&Source) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let failed = |reason: io::Error| unreadable(&folder.display().to_string(), &reason);
    if deeper == 0 {
        return Err(failed(io::Error::other("folders are nested too deep")));
    }
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).map_err(failed)?.collect();
    let mut paths: Vec<PathBuf> = entries.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        // Mounted ConfigMaps keep their files a second time in hidden folders.
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        if path.is_dir() {
            each_in_folder(&path, deeper - 1, use_source)?;
        } else if matches!(extension(&path).as_deref(), Some("yaml" | "yml" | "json")) {
            use_source(&read_file(&path)?)?;
        }
    }
    Ok(())
}

/// Reads one file.
pub(crate) fn read_file(path: &Path) -> Result<Source, InputError> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|reason| unreadable(&name, &reason))?;
    decoded(name, bytes, extension(path).as_deref() == Some("json"))
}

fn extension(path: &Path) -> Option<String> {
    path.extension().map(|extension| extension.to_string_lossy().to_lowercase())
}

fn decoded(name: String, bytes: Vec<u8>, only_json: bool) -> Result<Source, InputError> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        InputError::File {
            reason: format!("line {line} is not UTF-8"),
            hint: format!("save `{name}` as UTF-8"),
            file: name.clone(),
        }
    })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(Source { name, text, only_json })
}

fn unreadable(file: &str, reason: &io::Error) -> InputError {
    let hint = match reason.kind() {
        io::ErrorKind::NotFound => "check the path given with `-f`",
        io::ErrorKind::PermissionDenied => "check the permissions of the path given with `-f`",
        _ => "name a file, a folder, or `-` for stdin with `-f`",
    };
    InputError::File { file: file.to_owned(), reason: reason.to_string(), hint: hint.to_owned() }
}
