//! The log file of the Windows service.

use std::io::Write as _;
use std::path::PathBuf;

use fs_err as fs;
use jiff::Timestamp;

/// Size in bytes at which the file is rotated. One old file is kept.
const LONGEST: u64 = 1 << 20;

/// Writes the lines to the file at `path`, and to stderr.
pub(crate) fn install(path: PathBuf) {
    super::write_with(move |_, line| {
        let now = Timestamp::now();
        if fs::metadata(&path).is_ok_and(|about| about.len() > LONGEST) {
            let _lost_at_worst = fs::rename(&path, path.with_extension("log.1"));
        }
        if let Some(folder) = path.parent() {
            let _shows_below = fs::create_dir_all(folder);
        }
        let file = fs::OpenOptions::new().create(true).append(true).open(&path);
        // A log that cannot be written must not stop the agent.
        let _lost = file.and_then(|mut file| writeln!(file, "{now:.3} {line}"));
        let _not_read = writeln!(std::io::stderr(), "{line}");
    });
}
