//! The types of Envoy's rate limit protocol, made of the files in `proto/` at the top of the crate:
//! `tests/generated.rs` makes them, and checks that they are fresh.
#![expect(missing_docs, unused_qualifications, clippy::all, reason = "generated")]

/// The files' descriptors, as reflection serves them.
pub const DESCRIPTORS: &[u8] = include_bytes!("proto/generated/ratelimit-protos.bin");

/// Requests as they come: what is text in the public messages is bytes here, since a string of protobuf's that is no
/// text would make the whole message unreadable.
pub(super) mod wire {
    pub use super::envoy::r#type::v3 as units;

    pub mod envoy {
        pub mod extensions {
            pub mod common {
                pub mod ratelimit {
                    pub mod v3 {
                        include!("proto/generated/wire/envoy.extensions.common.ratelimit.v3.rs");
                    }
                }
            }
        }
        pub mod service {
            pub mod ratelimit {
                pub mod v3 {
                    include!("proto/generated/wire/envoy.service.ratelimit.v3.rs");
                }
            }
        }
    }
}

pub mod envoy {
    pub mod config {
        pub mod core {
            pub mod v3 {
                include!("proto/generated/envoy.config.core.v3.rs");
            }
        }
    }
    pub mod extensions {
        pub mod common {
            pub mod ratelimit {
                pub mod v3 {
                    include!("proto/generated/envoy.extensions.common.ratelimit.v3.rs");
                }
            }
        }
    }
    pub mod service {
        pub mod ratelimit {
            pub mod v3 {
                include!("proto/generated/envoy.service.ratelimit.v3.rs");
            }
        }
    }
    pub mod r#type {
        pub mod v3 {
            include!("proto/generated/envoy.r#type.v3.rs");
        }
    }
}
