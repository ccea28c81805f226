//! Hash tables on hot paths: small keys that events contain, such as thread ids.
//!
//! The hasher is several times faster than the standard one for keys of a few bytes. Each table has a seed of its own: a
//! crafted trace cannot choose keys that collide.

use foldhash::fast::RandomState;

/// A hash map with that hasher; made by `default()`.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// A hash set with that hasher; made by `default()`.
pub(crate) type HashSet<K> = std::collections::HashSet<K, RandomState>;
