//! The secret that long texts and shards are hashed with: drawn once, and kept in the store, so that all processes
//! have the same. It is asked for again and again, since a store that was emptied has forgotten it.

use std::{sync::Weak, time::Duration};

use redis::Value;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    keys::{KeyFormat, Secret},
    script,
    transport::{Call, Transport},
};

/// How often it is asked for when it is known: for so long daemons may go by different ones after a store was emptied.
const EVERY: Duration = Duration::from_secs(1);

/// How often it is asked for when it is not.
const SOON: Duration = Duration::from_millis(50);

/// Where it is told.
pub(crate) type Told = watch::Sender<Option<Secret>>;

/// Learns it, as long as somebody uses the transport.
pub(crate) async fn keep<T: Transport>(
    transport: Weak<T>,
    keys: KeyFormat,
    timeout: Duration,
    told: Weak<Told>,
) {
    loop {
        let (Some(transport), Some(told)) = (transport.upgrade(), told.upgrade()) else { return };
        let own = told.borrow().or_else(draw);
        let found = match own {
            Some(own) => ask(&*transport, &keys, own, timeout).await,
            None => None,
        };
        if let Some(secret) = found {
            told.send_if_modified(|known| known.replace(secret) != Some(secret));
        }
        let pause = if told.borrow().is_some() { EVERY } else { SOON };
        drop((transport, told));
        sleep(pause).await;
    }
}

fn draw() -> Option<Secret> {
    let mut secret = Secret::default();
    getrandom::fill(&mut secret).ok().map(|()| secret)
}

async fn ask(transport: &impl Transport, keys: &KeyFormat, own: Secret, timeout: Duration) -> Option<Secret> {
    let call = Call {
        script: &script::SECRET,
        shard: 0,
        keys: vec![keys.of_secret()],
        args: vec![own.to_vec()],
        deadline: Instant::now() + timeout,
    };
    match transport.call(call).await.ok()? {
        Value::BulkString(secret) => Secret::try_from(secret).ok(),
        _ => None,
    }
}
