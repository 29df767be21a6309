//! A call of gRPC with one message each way, without tonic: what can't be read gets an answer as well.

use axum::{body::Body, response::Response};
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use prost::Message;

use super::{
    limits,
    serving::Metered,
    unjudged::{self, Unjudged},
};

/// What comes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The message of a call. What comes after it does not count.
pub async fn read<M: Message + Default>(body: Metered) -> Result<M, Unjudged> {
    let body = unjudged::read(body, PREFIX + limits::BODY).await?;
    M::decode(message(&body)?).map_err(|_| Unjudged::Unreadable)
}

fn message(body: &Bytes) -> Result<Bytes, Unjudged> {
    let Some(&[compressed, ref length @ ..]) = body.first_chunk::<PREFIX>() else {
        return Err(Unjudged::Unreadable);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > limits::BODY {
        return Err(Unjudged::TooLarge);
    }
    let is_whole = length <= body.len() - PREFIX;
    if compressed == 0 && is_whole {
        Ok(body.slice(PREFIX..PREFIX + length))
    } else {
        Err(Unjudged::Unreadable)
    }
}

/// An answer of one message.
pub fn answer(message: &impl Message) -> Response {
    let length = message.encoded_len();
    let mut framed = Vec::with_capacity(PREFIX + length);
    framed.push(0);
    // No answer is as long as four gigabytes.
    framed.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    // It takes what room it needs.
    let _ = message.encode(&mut framed);
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))]);
    let frames = [Frame::data(Bytes::from(framed)), Frame::trailers(trailers)];
    let frames = frames.map(Ok::<_, std::convert::Infallible>);
    let mut response = Response::new(Body::new(StreamBody::new(stream::iter(frames))));
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}
