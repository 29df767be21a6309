//! A transport over one connection, and one whose server has a clock of the test's own.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use ratelimit_limiter::store::remote::RemoteHealth;
use ratelimit_redis::transport::{Applied, Call, Failure, FailureKind, Script, Transport};
use ratelimit_redis_testing::Server;
use redis::{AsyncConnectionConfig, Value, aio::MultiplexedConnection};

/// One connection to one server.
pub struct Direct {
    connection: MultiplexedConnection,
    clock: Option<Clock>,
    /// By the hashes of what is asked. To hash them for each call took half of a test's time.
    scripts: Mutex<HashMap<String, Arc<redis::Script>>>,
    again: AtomicBool,
}

/// The microseconds that a server's clock is taken to say.
pub type Clock = Arc<AtomicU64>;

/// In front of a script: the time comes from its last argument, and nothing is forgotten.
const PROLOGUE: &str = "
local redis = (function(real, now)
  local function call(command, ...)
    if command == 'TIME' then return { math.floor(now / 1000000), now % 1000000 } end
    if command == 'PEXPIRE' then return 1 end
    if command == 'SET' then
      local key, value = ...
      return real.call('SET', key, value)
    end
    return real.call(command, ...)
  end
  return { call = call, pcall = real.pcall }
end)(redis, tonumber(table.remove(ARGV)))
";

impl Direct {
    pub async fn to(server: &Server) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        Self { connection, clock: None, scripts: Mutex::default(), again: AtomicBool::new(false) }
    }

    /// Whether the script would not judge a request since this was asked last, so that it was tried again after others.
    pub fn tried_again(&self) -> bool {
        self.again.swap(false, SeqCst)
    }

    /// With a clock that says what the test wants.
    pub async fn with_clock(server: &Server, clock: &Clock) -> Self {
        Self { clock: Some(Arc::clone(clock)), ..Self::to(server).await }
    }

    /// The clock of the test, if there is one and the script asks for the time.
    fn clock_for(&self, script: &Script) -> Option<&Clock> {
        self.clock.as_ref().filter(|_| script.text.contains("'TIME'"))
    }

    fn script(&self, script: &Script) -> Arc<redis::Script> {
        let mut known = self.scripts.lock().unwrap();
        let made = known.entry(script.sha1.clone()).or_insert_with(|| {
            let prologue = if self.clock_for(script).is_some() { PROLOGUE } else { "" };
            Arc::new(redis::Script::new(&format!("{prologue}{}", script.text)))
        });
        Arc::clone(made)
    }
}

impl Transport for Direct {
    async fn call(&self, call: Call) -> Result<Value, Failure> {
        let script = self.script(call.script);
        let mut args = call.args;
        if let Some(clock) = self.clock_for(call.script) {
            args.push(clock.load(SeqCst).to_string().into_bytes());
        }
        let mut invocation = script.prepare_invoke();
        for key in &call.keys {
            invocation.key(key);
        }
        for arg in &args {
            invocation.arg(arg);
        }
        let answer = invocation.invoke_async::<Value>(&mut self.connection.clone()).await;
        if let Ok(Value::Array(values)) = &answer
            && let Some(Value::BulkString(letters)) = values.get(1)
            && letters.iter().any(|letter| b"LW".contains(letter))
        {
            self.again.store(true, SeqCst);
        }
        answer.map_err(|error| Failure {
            applied: Applied::Maybe,
            kind: FailureKind::Unavailable(error.to_string()),
        })
    }

    fn health(&self) -> RemoteHealth {
        RemoteHealth { name: "direct".to_owned(), ..RemoteHealth::default() }
    }
}
