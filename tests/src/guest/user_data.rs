//! User data and its parts.

use std::borrow::Cow;

use mail_parser::{MessageParser, MimeHeaders};

/// One part with its media type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// As `text/x-shellscript`. A document without parts has the type that its first line says, as cloud-init sees it.
    pub(crate) media_type: String,
    pub(crate) body: String,
}

/// The parts of user data, in their order.
pub(crate) fn parts(data: &[u8]) -> Vec<Part> {
    let text = String::from_utf8_lossy(data);
    let is_mime = ["mime-version:", "content-type: multipart"]
        .iter()
        .any(|start| text.trim_start().get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)));
    let message = if is_mime { MessageParser::default().parse(data) } else { None };
    let Some(message) = message else {
        return vec![Part { media_type: kind(&text).to_owned(), body: text.into_owned() }];
    };
    let leaves = message.parts.iter().filter(|part| !part.is_multipart());
    leaves
        .map(|part| {
            let kind = part.content_type();
            let media_type = kind.map_or_else(
                || "text/plain".to_owned(),
                |kind| format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or("plain")),
            );
            let body = part.text_contents().map_or_else(|| String::from_utf8_lossy(part.contents()), Cow::Borrowed);
            Part { media_type: media_type.to_ascii_lowercase(), body: body.into_owned() }
        })
        .collect()
}

fn kind(text: &str) -> &'static str {
    match text.trim_start() {
        start if start.starts_with("#!") => "text/x-shellscript",
        start if start.starts_with("#cloud-config") => "text/cloud-config",
        start if start.starts_with("#cloud-boothook") => "text/cloud-boothook",
        start if start.starts_with("apiVersion: node.eks.aws") => "application/node.eks.aws",
        _ => "text/x-not-multipart",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIME: &str = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"//\"\r\n\r\n--//\r\n\
        Content-Type: text/x-shellscript; charset=\"us-ascii\"\r\n\r\n#!/bin/sh\necho one\n\r\n--//\r\n\
        Content-Type: application/node.eks.aws\r\n\r\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n\r\n--//--\r\n";

    #[test]
    fn mime_is_split_into_its_parts() {
        let parts = parts(MIME.as_bytes());
        let types: Vec<_> = parts.iter().map(|part| part.media_type.as_str()).collect();
        assert_eq!(types, ["text/x-shellscript", "application/node.eks.aws"]);
        assert!(parts[0].body.starts_with("#!/bin/sh\necho one"), "{:?}", parts[0].body);
        assert!(parts[1].body.contains("kind: NodeConfig"));
    }

    #[test]
    fn a_document_without_parts_is_what_its_first_line_says() {
        assert_eq!(parts(b"#!/bin/bash\ntrue\n")[0].media_type, "text/x-shellscript");
        assert_eq!(parts(b"#cloud-config\nruncmd: []\n")[0].media_type, "text/cloud-config");
        assert_eq!(parts(b"apiVersion: node.eks.aws/v1alpha1\n")[0].media_type, "application/node.eks.aws");
        assert_eq!(parts(b"hello")[0].media_type, "text/x-not-multipart");
    }
}
