//! The types of Envoy's rate limit protocol, made of `proto/` when the crate is built.
#![expect(missing_docs, unused_qualifications, clippy::all, reason = "generated")]

/// The files' descriptors, as reflection serves them.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ratelimit-protos.bin"));

/// Requests as they come: what is text in the public messages is bytes here, since a string of protobuf's that is no
/// text would make the whole message unreadable.
pub(super) mod wire {
    pub use super::envoy::r#type::v3 as units;

    pub mod envoy {
        pub mod extensions {
            pub mod common {
                pub mod ratelimit {
                    pub mod v3 {
                        include!(concat!(env!("OUT_DIR"), "/wire/envoy.extensions.common.ratelimit.v3.rs"));
                    }
                }
            }
        }
        pub mod service {
            pub mod ratelimit {
                pub mod v3 {
                    include!(concat!(env!("OUT_DIR"), "/wire/envoy.service.ratelimit.v3.rs"));
                }
            }
        }
    }
}

pub mod envoy {
    pub mod config {
        pub mod core {
            pub mod v3 {
                tonic::include_proto!("envoy.config.core.v3");
            }
        }
    }
    pub mod extensions {
        pub mod common {
            pub mod ratelimit {
                pub mod v3 {
                    tonic::include_proto!("envoy.extensions.common.ratelimit.v3");
                }
            }
        }
    }
    pub mod service {
        pub mod ratelimit {
            pub mod v3 {
                tonic::include_proto!("envoy.service.ratelimit.v3");
            }
        }
    }
    pub mod r#type {
        pub mod v3 {
            tonic::include_proto!("envoy.r#type.v3");
        }
    }
}
