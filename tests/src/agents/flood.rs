//! A crowd that means no good: connections that say nothing, or nonsense, from many addresses, as pods of a cluster could open.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Addresses that they come from.
const ADDRESSES: u8 = 250;
/// What every second one says: the beginning of HTTP/2 without TLS, and more of it than a handshake may be long.
const NONSENSE: &[u8] = &[b'x'; 32 * 1024];

/// A flood. It ends with the value.
pub struct Flood {
    counted: Arc<Counted>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Counted {
    opened: AtomicUsize,
    refused: AtomicUsize,
    hung_up: AtomicUsize,
}

impl Flood {
    /// Opens so many connections a second to `to`, and holds each for as long as the other side does.
    pub fn start(to: SocketAddr, rate: u32) -> Self {
        let counted = Arc::<Counted>::default();
        let own = Arc::clone(&counted);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / rate);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut held = JoinSet::new();
            for number in 0_usize.. {
                ticks.tick().await;
                let counted = Arc::clone(&own);
                held.spawn(async move {
                    let result = match hold(to, number, &counted).await {
                        Ok(()) => &counted.hung_up,
                        Err(_) => &counted.refused,
                    };
                    result.fetch_add(1, Ordering::Relaxed);
                });
                while held.try_join_next().is_some() {}
            }
        });
        Self { counted, _tasks: tasks }
    }

    /// How many connections there were, how many of them were reset, and on how many the other side has hung up.
    pub fn counted(&self) -> (usize, usize, usize) {
        let Counted { opened, refused, hung_up } = &*self.counted;
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (of(opened), of(refused), of(hung_up))
    }
}

async fn hold(to: SocketAddr, number: usize, counted: &Counted) -> io::Result<()> {
    let last = u8::try_from(number % usize::from(ADDRESSES)).unwrap_or_default() + 1;
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 201, 0, last), 0).into())?;
    let mut stream = socket.connect(to).await?;
    counted.opened.fetch_add(1, Ordering::Relaxed);
    if number.is_multiple_of(2) {
        stream.write_all(NONSENSE).await?;
    }
    stream.read_to_end(&mut Vec::new()).await.map(drop)
}
