//! What can't change while the daemon runs: a reload leaves it as it is, says so, and puts all else in force.

use crate::policy::{
    Application, Network, Policy,
    application::{ListenerSettings, ProxyListener, ProxyProtocol},
};

/// Puts back into a policy what is as the old one has it until the daemon starts again. Returns the keys that have
/// changed.
pub fn keep(policy: &mut Policy, old: &Policy) -> Vec<&'static str> {
    let mut keys = FixedKeys::default();
    keys.keep("instance", &mut policy.instance, &old.instance);
    keys.keep("control", &mut policy.control, &old.control);
    keys.keep("metrics.listen", &mut policy.metrics, &old.metrics);
    match (&mut policy.network, &old.network) {
        (Some(network), Some(Network { table, .. })) => {
            keys.keep("network.table_size", &mut network.table, table);
        }
        (network, old) => keys.keep("network", network, old),
    }
    match (&mut policy.application, &old.application) {
        (Some(application), Some(Application { store, redis, listen, proxy, .. })) => {
            let stores = (application.store.clone(), application.redis.clone());
            keys.compare("application.store", &stores, &(store.clone(), redis.clone()));
            application.store.clone_from(store);
            application.redis.clone_from(redis);
            keys.compare("application.listen", &application.listen, listen);
            if !sockets(&application.proxy).eq(sockets(proxy)) {
                keys.keep("application.proxy", &mut application.proxy, proxy);
            }
        }
        (application, old) => keys.keep("application", application, old),
    }
    keys.changed
}

/// What of a proxy's listeners is made once.
fn sockets(proxy: &[ProxyListener]) -> impl Iterator<Item = (&ListenerSettings, &ProxyProtocol)> {
    proxy.iter().map(|proxy| (&proxy.listener, &proxy.proxy_protocol))
}

/// Puts back where to listen, which [`keep`] only looks at: until the policy is in force, its own word counts for the
/// certificates that are still used.
pub fn keep_listen(policy: &mut Policy, old: &Policy) {
    if let Some((application, old)) = policy.application.as_mut().zip(old.application.as_ref()) {
        application.listen.clone_from(&old.listen);
    }
}

#[derive(Default)]
struct FixedKeys {
    changed: Vec<&'static str>,
}

impl FixedKeys {
    fn keep<T: Clone + PartialEq>(&mut self, key: &'static str, value: &mut T, old: &T) {
        self.compare(key, value, old);
        value.clone_from(old);
    }

    fn compare<T: PartialEq>(&mut self, key: &'static str, value: &T, old: &T) {
        if value != old {
            self.changed.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config;

    fn policy(text: &str) -> Policy {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("r.yaml"), "domain: d\n").unwrap();
        let file = directory.path().join("ratelimit.yaml");
        fs::write(&file, text).unwrap();
        config::load(&file).unwrap()
    }

    const NETWORK: &str = "network: {interfaces: [lo], rules: [{name: r, rate: 1/s}]}\n";
    const APPLICATION: &str = "application: {rules: [r.yaml], listen: {http: '127.0.0.1:1'}}\n";

    #[test]
    fn what_takes_a_new_start_stays_and_is_named_and_all_else_is_new() {
        let both = format!("{NETWORK}{APPLICATION}");
        let more = |line: &str| format!("{line}\n{both}");
        let cases = [
            ("instance", more("instance: other")),
            ("control", more("control: /tmp/other")),
            ("metrics.listen", more("metrics: {listen: '127.0.0.1:2'}")),
            ("network.table_size", both.replace("network: {", "network: {table_size: 4M, ")),
            ("network", APPLICATION.to_owned()),
            (
                "application.store",
                both.replace("application: {", "application: {store: {memory: {max_keys: 4M}}, "),
            ),
            (
                "application.store",
                both.replace("application: {", "application: {store: {redis: {url: 'redis://a'}}, "),
            ),
            ("application.listen", both.replace("127.0.0.1:1", "127.0.0.1:2")),
            ("application", NETWORK.to_owned()),
        ];
        for (key, text) in cases {
            let old = policy(&both);
            let mut new = policy(&text);
            assert_eq!(keep(&mut new, &old), [key]);
            keep_listen(&mut new, &old);
            let (old, mut new) = (format!("{old:?}"), format!("{new:?}"));
            // Each is of a directory of its own.
            let place =
                |text: &str| text.split("/r.yaml").next().unwrap().rsplit('"').next().unwrap().to_owned();
            new = new.replace(&place(&new), &place(&old));
            assert_eq!(new, old, "{key}");
        }
        let old = policy(&both);
        let mut new =
            policy(&both.replace("1/s", "2/s").replace("{rules: [r", "{shadow_mode: true, rules: [r"));
        assert_eq!(keep(&mut new, &old), [""; 0]);
        assert!(new.network != old.network && new.application.unwrap().shadow_mode);
    }

    #[test]
    fn a_layer_that_does_not_run_is_not_begun() {
        let old = policy(APPLICATION);
        let mut new =
            policy(&format!("{NETWORK}{APPLICATION}").replace("r.yaml]", "r.yaml], shadow_mode: true"));
        assert_eq!(keep(&mut new, &old), ["network"]);
        assert!(new.network.is_none() && new.application.unwrap().shadow_mode);
    }
}
