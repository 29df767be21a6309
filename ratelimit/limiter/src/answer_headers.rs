//! Which headers answers have: how limits are told to clients.

/// Which headers answers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHeaders {
    /// `X-RateLimit-Limit`, `-Remaining` and so on.
    pub x_ratelimit: bool,
    /// `Retry-After`
    pub retry_after: bool,
    /// `RateLimit` and `RateLimit-Policy`.
    pub ietf: bool,
    /// Whether answers over gRPC bring them too.
    pub grpc: bool,
}

impl Default for AnswerHeaders {
    fn default() -> Self {
        Self { x_ratelimit: true, retry_after: true, ietf: true, grpc: false }
    }
}
