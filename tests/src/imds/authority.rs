//! Who signs identity documents here: a key and a certificate made for one world, in the place of a region's of AWS.
//!
//! The signatures are made by `openssl`, not by a Rust library, so that code of ours that verifies them is tested against
//! an independent writer. As AWS's, the PKCS #7 is BER of indefinite length with the document inside and no certificate:
//! a reader that knows only DER cannot take it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fs_err as fs;

use crate::error::{Error, Result};

/// The name that AWS's own certificates carry.
const SUBJECT: &str = "/C=US/ST=Washington State/L=Seattle/O=Amazon Web Services LLC";

/// A signing key and its certificate, both as files.
#[derive(Debug, Clone)]
pub struct Authority {
    folder: PathBuf,
}

/// A document's three signatures as the metadata service gives them: base64 in lines, without `BEGIN` and `END`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signatures {
    /// `signature`: RSA, SHA-256, of the document alone.
    pub(super) plain: String,
    /// `rsa2048`: PKCS #7, RSA-2048, SHA-256.
    pub(super) rsa2048: String,
}

impl Authority {
    /// Makes a key and a certificate in `folder`.
    ///
    /// # Errors
    /// [`Error::Missing`] without `openssl`.
    pub fn create(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        let authority = Self { folder };
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "rsa:2048", "-sha256", "-nodes", "-days", "3650", "-subj", SUBJECT]);
        command.arg("-keyout").arg(authority.key()).arg("-out").arg(authority.certificate());
        run(command, b"")?;
        Ok(authority)
    }

    /// The certificate (PEM): what a verifier pins for the region, as AWS publishes one for each.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("identity.crt")
    }

    pub(super) fn key(&self) -> PathBuf {
        self.folder.join("identity.key")
    }

    pub(super) fn sign(&self, document: &str) -> Result<Signatures> {
        let mut plain = Command::new("openssl");
        plain.args(["dgst", "-sha256", "-sign"]).arg(self.key());
        Ok(Signatures { plain: in_lines(&run(plain, document.as_bytes())?, 76), rsa2048: self.enclose(document)? })
    }

    /// PKCS #7 with the document inside.
    fn enclose(&self, document: &str) -> Result<String> {
        Ok(in_lines(&self.pkcs7(document)?, 76))
    }

    pub(super) fn pkcs7(&self, document: &str) -> Result<Vec<u8>> {
        let mut pkcs7 = Command::new("openssl");
        pkcs7.args(["cms", "-sign", "-binary", "-nodetach", "-stream", "-nocerts", "-md", "sha256", "-outform", "DER"]);
        pkcs7.arg("-signer").arg(self.certificate()).arg("-inkey").arg(self.key());
        run(pkcs7, document.as_bytes())
    }
}

pub(super) fn in_lines(bytes: &[u8], width: usize) -> String {
    let text = STANDARD.encode(bytes);
    let lines: Vec<String> =
        text.as_bytes().chunks(width).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    lines.join("\n")
}

fn run(mut command: Command, input: &[u8]) -> Result<Vec<u8>> {
    let words = format!("{command:?}");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| {
            Error::Missing {
                what: format!("`openssl` cannot be started: {error}"),
                hint: "run `tests/setup`".to_owned(),
            }
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Error::Command { command: words, answer: String::from_utf8_lossy(&output.stderr).into_owned() })
}

/// Whether `pkcs7` (as served) verifies against `certificate`; gives the document inside. For tests of the format.
///
/// # Errors
/// What `openssl` says against it.
pub fn verify(pkcs7: &str, certificate: &Path) -> Result<String> {
    let pem = format!("-----BEGIN PKCS7-----\n{}\n-----END PKCS7-----\n", pkcs7.trim());
    let mut command = Command::new("openssl");
    command.args(["smime", "-verify", "-inform", "PEM", "-noverify", "-binary", "-certfile"]).arg(certificate);
    Ok(String::from_utf8_lossy(&run(command, pem.as_bytes())?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_verified_as_the_manual_of_aws_says() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(folder.path()).unwrap();
        let document = "{\n  \"instanceId\" : \"i-0123456789abcdef0\"\n}";
        let signatures = authority.sign(document).unwrap();
        assert!(
            signatures.rsa2048.starts_with("MIAGCSqGSIb3DQEHAqCAMIACAQEx"),
            "indefinite length: {}",
            signatures.rsa2048
        );
        assert_eq!(verify(&signatures.rsa2048, &authority.certificate()).unwrap(), document);
        let other = Authority::create(folder.path().join("other")).unwrap();
        assert!(verify(&signatures.rsa2048, &other.certificate()).is_err(), "another key is refused");
    }
}
