//! The one thread that starts processes.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// A command and where its process goes.
type Order = (Command, Sender<io::Result<Child>>);

/// Starts `command` on the thread that lives until this process ends.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static THREAD: OnceLock<Mutex<Option<Sender<Order>>>> = OnceLock::new();
    let orders_tx = THREAD.get_or_init(|| {
        let (orders_tx, orders_rx) = channel();
        let thread = thread::Builder::new().name("spawning".to_owned()).spawn(move || serve(&orders_rx));
        Mutex::new(thread.ok().map(|_lives_on| orders_tx))
    });
    let stopped = || io::Error::other("the thread that starts processes does not run");
    let orders_tx = orders_tx.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(stopped)?;
    let (child_tx, child_rx) = channel();
    orders_tx.send((command, child_tx)).map_err(|_| stopped())?;
    child_rx.recv().map_err(|_| stopped())?
}

/// Never ends: the sender is kept for ever.
fn serve(orders_rx: &Receiver<Order>) {
    for (mut command, child_tx) in orders_rx {
        // Whoever asked and went away leaves a process that nobody waits for: end it.
        if let Err(unwanted) = child_tx.send(command.spawn())
            && let Ok(mut child) = unwanted.0
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
