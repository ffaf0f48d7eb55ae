//! The part of cloud-init that decides whether a node joins: which of the user data runs, when, and what its failure does.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use fs_err as fs;
use serde_json::{Value, json};

use crate::metadata::Metadata;
use crate::say;
use crate::user_data::{Part, parts};

const INSTANCE: &str = "/var/lib/cloud/instance";
const OUTPUT: &str = "/var/log/cloud-init-output.log";
const RESULT: &str = "/run/cloud-init/result.json";

/// `cloud-init init`: fetches the user data, runs its boot hooks, writes its files, keeps its scripts for later.
pub(crate) fn init() -> Result<()> {
    let metadata = Metadata::connect()?;
    let data = metadata.find("user-data")?.unwrap_or_default();
    let scripts = Path::new(INSTANCE).join("scripts");
    fs::create_dir_all(&scripts)?;
    fs::write(Path::new(INSTANCE).join("user-data.txt"), &data)?;
    if data.is_empty() {
        return Ok(());
    }
    for (index, part) in parts(&data).iter().enumerate() {
        let number = index + 1;
        match part.media_type.as_str() {
            "text/x-shellscript" => keep_script(&scripts, &format!("part-{number:03}"), &part.body)?,
            "text/cloud-boothook" => {
                let hook = part.body.trim_start().strip_prefix("#cloud-boothook").unwrap_or(&part.body);
                let path = Path::new(INSTANCE).join(format!("boothook-{number:03}"));
                write_executable(&path, hook.trim_start())?;
                if !run(&path)? {
                    say(&format!("cloud-init: boot hook {} failed", path.display()));
                }
            }
            "text/cloud-config" => take_config(&scripts, part)?,
            // As cloud-init: what it has no handler for it leaves to others, nodeadm for one.
            other => say(&format!("cloud-init: no handler for part {number} of type {other}")),
        }
    }
    Ok(())
}

/// `cloud-init final`: runs the scripts. One that fails does not stop the next, but the unit has failed.
pub(crate) fn last() -> Result<()> {
    let mut scripts: Vec<_> = fs::read_dir(Path::new(INSTANCE).join("scripts"))?.collect::<Result<Vec<_>, _>>()?;
    scripts.sort_by_key(fs::DirEntry::file_name);
    let mut failed = Vec::new();
    for script in scripts {
        if !run(&script.path())? {
            failed.push(script.file_name().to_string_lossy().into_owned());
        }
    }
    let errors: Vec<_> = failed.iter().map(|name| format!("Failed to run {name}")).collect();
    fs::create_dir_all("/run/cloud-init")?;
    fs::write(RESULT, json!({"v1": {"datasource": "DataSourceEc2", "errors": errors}}).to_string())?;
    if !failed.is_empty() {
        bail!("Failed to run module scripts-user ({})", failed.join(", "));
    }
    Ok(())
}

fn keep_script(folder: &Path, name: &str, body: &str) -> Result<()> {
    // Mail has line ends of two characters; a script with them would look for an interpreter `sh\r`.
    write_executable(&folder.join(name), &body.replace("\r\n", "\n"))
}

fn write_executable(path: &Path, body: &str) -> Result<()> {
    fs::write(path, body)?;
    Ok(fs::set_permissions(path, PermissionsExt::from_mode(0o700))?)
}

/// `write_files` at once, `runcmd` as one script before the others.
fn take_config(scripts: &Path, part: &Part) -> Result<()> {
    let config: Value = serde_saphyr::from_str(&part.body).context("the cloud-config is no YAML")?;
    for (key, value) in config.as_object().into_iter().flatten() {
        match key.as_str() {
            "write_files" => value.as_array().into_iter().flatten().try_for_each(write_file)?,
            "runcmd" => keep_script(scripts, "000-runcmd", &runcmd(value))?,
            other => say(&format!("cloud-init: `{other}` is not carried out in a world's machine")),
        }
    }
    Ok(())
}

fn write_file(file: &Value) -> Result<()> {
    let path = file.get("path").and_then(Value::as_str).context("`write_files` without `path`")?;
    if let Some(folder) = Path::new(path).parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, file.get("content").and_then(Value::as_str).unwrap_or_default())?;
    if let Some(mode) = file.get("permissions").and_then(Value::as_str) {
        let mode = u32::from_str_radix(mode, 8).with_context(|| format!("`{mode}` is no mode"))?;
        fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
    }
    Ok(())
}

fn runcmd(commands: &Value) -> String {
    let quoted = |word: &Value| {
        format!("'{}'", word.as_str().map_or_else(|| word.to_string(), |word| word.replace('\'', r"'\''")))
    };
    let mut script = "#!/bin/sh\n".to_owned();
    for command in commands.as_array().into_iter().flatten() {
        match command {
            Value::Array(words) => script += &words.iter().map(quoted).collect::<Vec<_>>().join(" "),
            Value::String(line) => script += line,
            other => script += &other.to_string(),
        }
        script.push('\n');
    }
    script
}

/// Runs a script with its output in the log and on the console.
fn run(path: &Path) -> Result<bool> {
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            say(&format!("cloud-init: {}: {error}", path.display()));
            return Ok(false);
        }
    };
    let mut log = fs::OpenOptions::new().create(true).append(true).open(OUTPUT)?;
    for text in [&output.stdout, &output.stderr] {
        log.write_all(text)?;
        String::from_utf8_lossy(text).lines().for_each(say);
    }
    Ok(output.status.success())
}
