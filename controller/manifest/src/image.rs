//! Platforms that are implied by the name of an image.

use std::sync::Arc;

/// Image whose name implies an operating system or an architecture.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TellingImage {
    /// Name, as written.
    pub name: Arc<str>,
    /// True if it is for Windows.
    pub windows: bool,
    /// Architecture in the form of node labels (`amd64`, `arm64`).
    pub architecture: Option<&'static str>,
}

/// Name parts that only Windows images have.
const WINDOWS: [&str; 5] = ["windows", "nanoserver", "servercore", "windowsservercore", "winserver"];

/// Repositories of Windows images whose names do not say so.
const WINDOWS_REPOSITORIES: [&str; 1] = ["mcr.microsoft.com/dotnet/framework/"];

/// Name parts that imply an architecture.
const ARCHITECTURES: [(&str, &str); 7] = [
    ("amd64", "amd64"),
    ("x86", "amd64"),
    ("x64", "amd64"),
    ("arm64", "arm64"),
    ("arm64v8", "arm64"),
    ("aarch64", "arm64"),
    ("graviton", "arm64"),
];

/// Returns what the name of `image` implies, if anything. It is not proof, so it is used for advice and not for
/// decisions.
pub(super) fn telling(image: &str) -> Option<TellingImage> {
    let name = image.split('@').next().unwrap_or(image).to_ascii_lowercase();
    // The registry does not count.
    let path = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
        _ => name.as_str(),
    };
    let parts = || path.split(|letter: char| !letter.is_ascii_alphanumeric());
    let windows = WINDOWS_REPOSITORIES.iter().any(|repository| name.starts_with(repository))
        || parts().any(|part| WINDOWS.contains(&part) || part.starts_with("ltsc20"));
    let mut architectures = parts().filter_map(|part| ARCHITECTURES.iter().find(|(other, _)| *other == part));
    let first = architectures.next().map(|(_, architecture)| *architecture);
    let one = architectures.all(|(_, architecture)| Some(*architecture) == first);
    let architecture = first.filter(|_| one);
    (windows || architecture.is_some()).then(|| TellingImage { name: image.into(), windows, architecture })
}

#[cfg(test)]
mod tests {
    use super::telling;

    #[test]
    fn names_tell_windows_and_architectures() {
        for (image, windows, architecture) in [
            ("mcr.microsoft.com/windows/servercore/iis", true, None),
            ("mcr.microsoft.com/windows/nanoserver:ltsc2022", true, None),
            ("mcr.microsoft.com/dotnet/framework/aspnet:4.8", true, None),
            ("mcr.microsoft.com/dotnet/aspnet:8.0-nanoserver-1809", true, None),
            ("registry:5000/shop/legacy:2.1-windows-amd64", true, Some("amd64")),
            ("arm64v8/nginx:1.27", false, Some("arm64")),
            ("shop/web:1.0-aarch64@sha256:amd64", false, Some("arm64")),
            ("gcr.io/distroless/static-debian12:latest-x86_64", false, Some("amd64")),
        ] {
            let told = telling(image).unwrap_or_else(|| panic!("{image}"));
            assert_eq!((told.windows, told.architecture), (windows, architecture), "{image}");
        }
        for image in ["nginx", "windows.example.com/app:1", "arm64.example.com:443/app", "shop/amd64-and-arm64:1", ""] {
            assert_eq!(telling(image), None, "{image}");
        }
    }
}
