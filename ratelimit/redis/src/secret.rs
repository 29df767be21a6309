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
    queue::Trouble,
    script,
    transport::{Call, FailureKind, Transport},
};

/// How often it is asked for when it is known: for so long daemons may go by different ones after a store was emptied.
const EVERY: Duration = Duration::from_secs(1);

/// How often it is asked for when it is not.
const SOON: Duration = Duration::from_millis(50);

/// What is known of it: nothing at first, then the secret, or why the store has not told it.
pub(crate) type KnownSecret = Option<Result<Secret, Trouble>>;

/// Where it is told.
pub(crate) type Told = watch::Sender<KnownSecret>;

/// Learns it, as long as somebody uses the transport.
pub(crate) async fn keep<T: Transport>(
    transport: Weak<T>,
    keys: KeyFormat,
    timeout: Duration,
    told: Weak<Told>,
) {
    loop {
        let (Some(transport), Some(told)) = (transport.upgrade(), told.upgrade()) else { return };
        let known = known(&told.borrow());
        let found = match known.or_else(draw) {
            Some(own) => ask(&*transport, &keys, own, timeout).await,
            None => Err(Trouble::Failed(FailureKind::Unavailable("nothing is drawn at random".to_owned()))),
        };
        // One that is known stays so while the store does not answer.
        if known.is_none() || found.as_ref().is_ok_and(|secret| known != Some(*secret)) {
            told.send_replace(Some(found));
        }
        let pause = if self::known(&told.borrow()).is_some() { EVERY } else { SOON };
        drop((transport, told));
        sleep(pause).await;
    }
}

/// The secret, if it is known.
pub(crate) fn known(told: &KnownSecret) -> Option<Secret> {
    told.as_ref()?.as_ref().ok().copied()
}

fn draw() -> Option<Secret> {
    let mut secret = Secret::default();
    getrandom::fill(&mut secret).ok().map(|()| secret)
}

async fn ask(
    transport: &impl Transport,
    keys: &KeyFormat,
    own: Secret,
    timeout: Duration,
) -> Result<Secret, Trouble> {
    let call = Call {
        script: &script::SECRET,
        shard: 0,
        keys: vec![keys.of_secret()],
        args: vec![own.to_vec()],
        deadline: Instant::now() + timeout,
    };
    match transport.call(call).await {
        Ok(Value::BulkString(secret)) => {
            Secret::try_from(secret).map_err(|_| Trouble::Foreign(keys.of_secret()))
        }
        Ok(_) => Err(Trouble::Reply),
        Err(failure) => Err(Trouble::Failed(failure.kind)),
    }
}
