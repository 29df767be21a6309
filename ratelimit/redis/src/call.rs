//! One call of the script: requests as owned values, as the script reads them, and what it says about them.

pub(crate) mod batch;
pub(crate) mod number;
pub(crate) mod reading;
pub(crate) mod request;
pub(crate) mod row;
