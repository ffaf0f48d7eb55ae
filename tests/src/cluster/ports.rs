//! Ports on loopback that nobody else takes.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::error::{Error, Result};

/// Below the range that Linux gives to outgoing connections (32768 and up), or one of those could take a port between
/// our asking for it and the server's.
const FIRST: u16 = 12_000;

/// Each world has this many of its own: two worlds that start at once never ask for the same.
const OF_A_WORLD: u16 = 50;

/// Worlds until the ranges begin anew.
const WORLDS: u16 = 400;

/// Returns the first free port of the world's range after the last one that was given.
pub(crate) fn free(world: &str) -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let number: u16 = world.trim_start_matches('w').parse().unwrap_or(0);
    for _ in 0..OF_A_WORLD {
        let port = FIRST + number % WORLDS * OF_A_WORLD + NEXT.fetch_add(1, Ordering::Relaxed) % OF_A_WORLD;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::Missing {
        what: format!("world `{world}` finds no free port among its {OF_A_WORLD}"),
        hint: "`muster-tests status` shows what runs; `ss -ltnp` shows who else listens".to_owned(),
    })
}
