//! Reading of files and folders into texts.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use super::error::InputError;

/// Text of the input.
#[derive(Debug)]
pub struct Source {
    /// File as named by the user, or `stdin` for `-`.
    pub name: String,
    /// Whole text.
    pub text: String,
    /// True if the file's name ends in `.json`, so only JSON is accepted.
    pub only_json: bool,
}

/// Maximum depth of folders, above any sensible use.
const DEEPEST: usize = 32;

/// Passes each text under `path` (`-` is `stdin`) to `use_source`, and drops it before reading the next.
pub(crate) fn each_source(
    path: &Path,
    stdin: &mut dyn Read,
    use_source: &mut dyn FnMut(&Source) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let name = path.display().to_string();
    if path.as_os_str() != "-" && std::fs::metadata(path).map_err(|reason| unreadable(&name, &reason))?.is_dir() {
        return each_in_folder(path, &mut Vec::new(), use_source);
    }
    use_source(&read_one(path, stdin)?)
}

/// Reads one file, or `stdin` for `-`.
pub fn read_one(path: &Path, stdin: &mut dyn Read) -> Result<Source, InputError> {
    if path.as_os_str() != "-" {
        return read_file(path);
    }
    let mut bytes = Vec::new();
    stdin.read_to_end(&mut bytes).map_err(|reason| unreadable("stdin", &reason))?;
    decoded("stdin".to_owned(), bytes, false)
}

fn each_in_folder(
    folder: &Path,
    above: &mut Vec<PathBuf>,
    use_source: &mut dyn FnMut(&Source) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let failed = |reason: io::Error| unreadable(&folder.display().to_string(), &reason);
    // A symbolic link may lead back to its own folder, under ever longer names.
    let itself = folder.canonicalize().map_err(failed)?;
    if above.contains(&itself) {
        return Err(failed(io::Error::other("it is a link to a folder that it is in")));
    }
    if above.len() == DEEPEST {
        return Err(failed(io::Error::other("folders are nested too deep")));
    }
    above.push(itself);
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).map_err(failed)?.collect();
    let mut paths: Vec<PathBuf> = entries.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        // Mounted ConfigMaps have a second copy of their files in hidden folders.
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        if path.is_dir() {
            each_in_folder(&path, above, use_source)?;
        } else if matches!(extension(&path).as_deref(), Some("yaml" | "yml" | "json")) {
            use_source(&read_file(&path)?)?;
        }
    }
    above.pop();
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
        let (reason, hint) = not_text(&name, &error);
        InputError::File { reason, hint, file: name.clone() }
    })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(Source { name, text, only_json })
}

/// Returns the reason why bytes are not text, and a hint.
fn not_text(name: &str, error: &FromUtf8Error) -> (String, String) {
    let bytes = error.as_bytes();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return ("it is compressed with gzip".to_owned(), format!("give it as `<(gunzip -c {name})`"));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return ("it is UTF-16, not UTF-8".to_owned(), format!("give it as `<(iconv -f UTF-16 -t UTF-8 {name})`"));
    }
    let line = 1 + bytes[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
    (format!("line {line} is not UTF-8"), format!("save `{name}` as UTF-8"))
}

fn unreadable(file: &str, reason: &io::Error) -> InputError {
    let hint = match reason.kind() {
        io::ErrorKind::NotFound => "check the path; it starts at the current folder unless it begins with `/`",
        io::ErrorKind::PermissionDenied => "check who may read it: `ls -l` shows that",
        io::ErrorKind::IsADirectory => "name a file",
        _ => "name a file, a folder of manifests, or `-` for stdin",
    };
    InputError::File { file: file.to_owned(), reason: reason.to_string(), hint: hint.to_owned() }
}
