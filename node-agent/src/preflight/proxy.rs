//! Proxy selection of the kubelet for its API server. Pure.
//!
//! Source: golang.org/x/net/http/httpproxy, which Go's HTTP clients use.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use muster_bootstrap::network::Network;
use muster_bootstrap::userdata::to_base64;
use percent_encoding::percent_decode_str;

/// Environment variables of a process.
pub type Environment = BTreeMap<String, String>;

/// Route to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Direct connection.
    Straight,
    /// Through an HTTP proxy with CONNECT.
    By(Proxy),
    /// Through an unsupported kind of proxy: its URL scheme.
    Other(String),
}

/// Proxy that accepts CONNECT over plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Value of the `Proxy-Authorization` header. Secret.
    pub authorization: Option<String>,
}

/// Returns the route of a process with this environment to an HTTPS URL.
#[must_use]
pub fn route(environment: &Environment, url: &str) -> Route {
    let value = |names: [&str; 2]| {
        let mut values = names.iter().filter_map(|name| environment.get(*name));
        values.find(|value| !value.is_empty()).map(String::as_str)
    };
    let Some(proxy) = value(["HTTPS_PROXY", "https_proxy"]) else { return Route::Straight };
    let Some((host, port)) = authority(url, 443) else { return Route::Straight };
    if is_excepted(value(["NO_PROXY", "no_proxy"]).unwrap_or_default(), &host, port) {
        return Route::Straight;
    }
    let (scheme, rest) = proxy.split_once("://").unwrap_or(("http", proxy));
    if !scheme.eq_ignore_ascii_case("http") {
        return Route::Other(scheme.to_ascii_lowercase());
    }
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
    let Some((host, port)) = authority(place, 80) else { return Route::Other("broken".to_owned()) };
    let authorization = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        format!("Basic {}", to_base64(format!("{}:{}", decoded(name), decoded(password)).as_bytes()))
    });
    Route::By(Proxy { host, port, authorization })
}

/// Returns host and port of `[scheme://]host[:port][/…]`.
fn authority(url: &str, default: u16) -> Option<(String, u16)> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next()?;
    let (host, port) = split(place);
    let port = if port.is_empty() { default } else { port.parse().ok()? };
    (!host.is_empty()).then(|| (host.to_ascii_lowercase(), port))
}

/// Splits `host:port`. The host may be an address in brackets; a missing port is empty.
fn split(place: &str) -> (&str, &str) {
    let (host, port) = match place.rsplit_once(':') {
        // Several colons without brackets: an IPv6 address without a port.
        Some((host, _)) if host.contains(':') && !host.ends_with(']') => (place, ""),
        Some((host, port)) => (host, port),
        None => (place, ""),
    };
    (host.trim_matches(['[', ']']), port)
}

/// Decodes percent-encoding: `%41` is `A`.
fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

fn is_excepted(exceptions: &str, host: &str, port: u16) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|it| it.is_loopback()) {
        return true;
    }
    exceptions.split(',').any(|exception| {
        let exception = exception.trim().to_ascii_lowercase();
        if exception == "*" {
            return true;
        }
        if let Some(network) = Network::read(&exception) {
            return address.is_some_and(|address| network.contains(address));
        }
        let (name, its_port) = split(&exception);
        if !its_port.is_empty() && its_port.parse() != Ok(port) {
            return false;
        }
        if let Ok(its_address) = name.parse::<IpAddr>() {
            return address == Some(its_address);
        }
        let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
        match name.strip_prefix('.') {
            Some(_) => host.ends_with(name),
            None => !name.is_empty() && (host == name || host.strip_suffix(name).is_some_and(|it| it.ends_with('.'))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_proxy_is_that_of_https() {
        let by = |variables: &[(&str, &str)]| route(&environment(variables), "https://a.example");
        let proxy = |host: &str, port| Route::By(Proxy { host: host.to_owned(), port, authorization: None });
        assert_eq!(by(&[("HTTP_PROXY", "http://p:3128")]), Route::Straight);
        assert_eq!(by(&[("https_proxy", "http://p:3128/")]), proxy("p", 3128));
        assert_eq!(by(&[("HTTPS_PROXY", ""), ("https_proxy", "p")]), proxy("p", 80));
        assert_eq!(by(&[("HTTPS_PROXY", "[fd00::1]:8080")]), proxy("fd00::1", 8080));
        assert_eq!(by(&[("HTTPS_PROXY", "socks5://p:1080")]), Route::Other("socks5".to_owned()));
        assert_eq!(by(&[("HTTPS_PROXY", "http://p:port")]), Route::Other("broken".to_owned()));
        let Route::By(proxy) = by(&[("HTTPS_PROXY", "http://us%65r:p%40ss@p:3128")]) else { panic!() };
        assert_eq!(proxy.authorization, Some(format!("Basic {}", to_base64(b"user:p@ss"))));
    }

    /// Rows of httpproxy's tests: the `NO_PROXY` value, the target and the expected route.
    #[test]
    fn exceptions_are_those_of_go() {
        let is_straight = |exceptions: &str, url: &str| {
            let variables = environment(&[("HTTPS_PROXY", "http://p:3128"), ("NO_PROXY", exceptions)]);
            route(&variables, url) == Route::Straight
        };
        for (exceptions, url) in [
            ("", "https://localhost"),
            ("", "https://127.0.0.1:6443"),
            ("", "https://[::1]:6443"),
            ("*", "https://a.example"),
            ("example", "https://a.example"),
            ("a.example", "https://A.example"),
            (".example", "https://a.example"),
            ("*.example", "https://a.example"),
            ("x, a.example:443", "https://a.example"),
            ("10.0.0.0/8", "https://10.1.2.3"),
            ("10.1.2.3", "https://10.1.2.3"),
            ("10.1.2.3:6443", "https://10.1.2.3:6443"),
            ("[fd00::1]:443", "https://[fd00::1]"),
            (".eks.amazonaws.com", "https://0A1B.gr7.us-west-2.eks.amazonaws.com"),
        ] {
            assert!(is_straight(exceptions, url), "{exceptions} {url}");
        }
        for (exceptions, url) in [
            ("", "https://a.example"),
            (".a.example", "https://a.example"),
            ("*.a.example", "https://a.example"),
            ("xa.example", "https://a.example"),
            ("ple", "https://a.example"),
            ("a.example:80", "https://a.example"),
            ("10.0.0.0/8", "https://11.1.2.3"),
            ("10.1.2.3:443", "https://10.1.2.3:6443"),
            ("169.254.169.254", "https://a.example"),
        ] {
            assert!(!is_straight(exceptions, url), "{exceptions} {url}");
        }
    }
}
