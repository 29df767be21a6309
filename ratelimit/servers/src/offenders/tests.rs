//! Who is banned for what, and who never is.

use std::{net::Ipv4Addr, num::NonZeroU32, ops::Range, thread};

use super::{queue::MOST_WAITING, *};
use crate::{
    application::{Service, ServicePolicy},
    limiter::Nanos,
    policy::BanLength,
    policy::application::{Domain, Quantity, RequestLimit, RequestRate, TimeUnit},
};

/// A rule that denies all, and bans.
struct Lab {
    service: Service,
    offenders: Offenders,
}

fn lab(after: u32, source_entry: Option<&str>) -> Lab {
    let terms = BanTerms {
        after: NonZeroU32::new(after).unwrap(),
        within: Nanos::from_secs(3600),
        length: BanLength::For(Nanos::from_secs(60)),
        longer: None,
    };
    let ban = RequestBan { terms, ipv4: 32, ipv6: 64, source_entry: source_entry.map(str::to_owned) };
    let rate = RequestRate::window(0, TimeUnit::Day.length()).unwrap();
    let limit =
        RequestLimit { name: None, replaces: Vec::new(), quantity: Quantity::Limited(rate), ban: Some(ban) };
    let rule = DescriptorRule { limit: Some(limit), ..DescriptorRule::new("client", None) };
    let mut rules = RuleSet::default();
    rules.add(Domain::new("d", vec![rule]), false).unwrap();
    let offenders = Offenders::default();
    offenders.reload(&rules);
    offenders.queue.open();
    Lab { service: Service::new(&ServicePolicy::of_rules(rules)).unwrap(), offenders }
}

impl Lab {
    /// Denies a request with these entries, each in a descriptor of its own.
    fn deny(&self, entries: &[(&str, &str)], sender: Sender) {
        let descriptors = entries.iter().map(|entry| Descriptor::of([*entry])).collect();
        self.deny_request(&Request { domain: "d".to_owned(), descriptors, hits_addend: 1 }, sender);
    }

    fn deny_request(&self, request: &Request, sender: Sender) {
        let response = self.service.decide(request).unwrap();
        assert!(!response.allowed());
        self.offenders.note(request, &response, sender);
    }

    fn banned(&self) -> Vec<String> {
        // It has some already, or would wait.
        self.offenders.queue.push(order(1));
        let mut orders = self.offenders.queue.take().unwrap();
        orders.retain(|order| order.prefix != mark());
        let mut shown: Vec<_> =
            orders.iter().map(|order| format!("{} {}", order.prefix, order.rule)).collect();
        shown.sort();
        shown
    }
}

fn mark() -> Prefix {
    "192.0.2.255/32".parse().unwrap()
}

/// A ban of it.
fn order(nanos: u64) -> BanOrder {
    let length = BanLength::For(Nanos(nanos));
    let terms = BanTerms { after: NonZeroU32::MIN, within: Nanos(1), length, longer: None };
    BanOrder { prefix: mark(), terms, rule: String::new() }
}

fn client(text: &str) -> Sender {
    Sender::Client(text.parse().unwrap())
}

#[test]
fn the_denial_that_completes_the_count_bans_the_client() {
    let lab = lab(3, None);
    for _ in 0..2 {
        lab.deny(&[("client", "a")], client("192.0.2.1"));
        lab.deny(&[("client", "a")], client("192.0.2.2"));
    }
    assert!(lab.banned().is_empty());
    lab.deny(&[("client", "a")], client("192.0.2.1"));
    assert_eq!(lab.banned(), ["192.0.2.1/32 d.client"]);
    // From then on it is counted anew.
    lab.deny(&[("client", "a")], client("192.0.2.1"));
    lab.deny(&[("client", "a")], client("192.0.2.1"));
    assert!(lab.banned().is_empty());
    lab.deny(&[("client", "a")], client("192.0.2.1"));
    assert_eq!(lab.banned(), ["192.0.2.1/32 d.client"]);
    // One that two descriptors deny is one.
    lab.deny(&[("client", "b"), ("client", "c")], client("192.0.2.3"));
    lab.deny(&[("client", "b"), ("client", "c")], client("192.0.2.3"));
    assert!(lab.banned().is_empty());
    let asked_by = Vec::from_iter(lab.offenders.counts().asked_by());
    assert_eq!(asked_by, [(Label { domain: "d".to_owned(), key: "client".to_owned() }, 2)]);
}

#[test]
fn the_labels_of_bans_are_bounded() {
    let lab = lab(1, None);
    let label = |number: usize| Label { domain: number.to_string(), key: String::new() };
    let fill = |numbers: Range<usize>| {
        let mut asked_by = lab.offenders.counts.asked_by.lock().unwrap();
        asked_by.extend(numbers.map(|number| (label(number), 1)));
    };
    let offend = || lab.deny(&[("client", "a")], client("192.0.2.1"));
    offend();
    fill(1..MOST_LABELS);
    offend();
    let asked_by = lab.offenders.counts().asked_by();
    assert_eq!((asked_by.len(), asked_by.values().max()), (MOST_LABELS, Some(&2)));
    lab.offenders.counts.asked_by.lock().unwrap().clear();
    fill(0..MOST_LABELS);
    offend();
    assert_eq!(lab.offenders.counts().asked_by().len(), 1, "from nothing");
}

#[test]
fn addresses_of_one_network_are_banned_together() {
    let lab = lab(2, None);
    for address in ["2001:db8::1", "2001:db8::2", "::ffff:192.0.2.1", "192.0.2.1"] {
        lab.deny(&[("client", "a")], client(address));
    }
    assert_eq!(lab.banned(), ["192.0.2.1/32 d.client", "2001:db8::/64 d.client"]);
}

#[test]
fn an_entry_counts_from_a_gateway_on_this_host_alone() {
    for (sender, value, expected) in [
        (Sender::Gateway, "192.0.2.1", Some("192.0.2.1/32 d.client")),
        (Sender::Gateway, "::ffff:192.0.2.1", Some("192.0.2.1/32 d.client")),
        (Sender::Gateway, "2001:db8::/64", Some("2001:db8::/64 d.client")),
        (Sender::Gateway, "2001:db8::/56", None),
        (Sender::Gateway, "192.0.2.0/24", None),
        (Sender::Gateway, "unknown", None),
        (Sender::Gateway, "127.0.0.1", None),
        (Sender::Gateway, "0.0.0.0", None),
        (Sender::Unknown, "192.0.2.1", None),
        (client("198.51.100.1"), "192.0.2.1", None),
    ] {
        let lab = lab(1, Some("client"));
        lab.deny(&[("client", value)], sender);
        assert_eq!(lab.banned(), Vec::from_iter(expected), "{sender:?} {value}");
    }
    let lab = lab(1, None);
    lab.deny(&[("client", "192.0.2.1")], Sender::Gateway);
    assert!(lab.banned().is_empty(), "nobody is named");
    assert_eq!(lab.offenders.counts.nameless.load(Relaxed), 1);
}

#[test]
fn an_entry_that_is_there_twice_names_nobody() {
    let lab = lab(1, Some("client"));
    let entries = [("client", "192.0.2.1"), ("client", "192.0.2.2")];
    let request =
        Request { domain: "d".to_owned(), descriptors: vec![Descriptor::of(entries)], hits_addend: 1 };
    let response =
        lab.service.decide(&Request { descriptors: vec![Descriptor::of([entries[0]])], ..request.clone() });
    lab.offenders.note(&request, &response.unwrap(), Sender::Gateway);
    assert!(lab.banned().is_empty());
}

#[test]
fn who_is_on_the_allow_list_is_never_banned_nor_is_their_network() {
    let lab = lab(1, None);
    lab.offenders
        .spare(PrefixList::new(vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::7/128".parse().unwrap()]));
    for address in ["10.1.2.3", "2001:db8::1", "127.0.0.1", "::1"] {
        lab.deny(&[("client", "a")], client(address));
    }
    assert!(lab.banned().is_empty());
    assert_eq!(lab.offenders.counts.spared.load(Relaxed), 4);
}

#[test]
fn questions_from_elsewhere_name_nobody() {
    let of = |peer: Option<&str>| Sender::of_question(peer.map(|peer| peer.parse().unwrap()));
    assert_eq!([of(None), of(Some("127.0.0.1")), of(Some("::ffff:127.0.0.1"))], [Sender::Gateway; 3]);
    assert_eq!([of(Some("10.0.0.1")), of(Some("fe80::1"))], [Sender::Unknown; 2]);
}

#[test]
fn a_flood_of_offenders_fills_no_memory_and_stalls_nobody() {
    let lab = lab(1, None);
    let most = u32::try_from(MOST_WAITING).unwrap();
    for index in 0..2 * most {
        lab.deny(&[("client", "a")], Sender::Client(Ipv4Addr::from_bits(0x0a00_0000 + index).into()));
        lab.deny(&[("client", "a")], Sender::Client(Ipv4Addr::from_bits(0x0a00_0000).into()));
    }
    assert_eq!(lab.offenders.counts.lost.load(Relaxed), u64::from(most));
    assert_eq!(lab.offenders.queue.take().unwrap().len(), MOST_WAITING);
}

#[test]
fn nothing_waits_when_nobody_takes_it() {
    let queue = BanQueue::default();
    assert!(!queue.push(order(1)));
    assert_eq!(queue.take(), None);
    queue.open();
    assert!(queue.push(order(1)) && queue.push(order(9)) && queue.push(order(1)));
    assert_eq!(queue.take().unwrap(), [order(9)]);
    thread::scope(|scope| {
        let taking = scope.spawn(|| queue.take());
        queue.close();
        assert_eq!(taking.join().unwrap(), None);
    });
}
