//! Thread-specific data: values by key, with destructors that run when a thread ends.

/// Maximum number of keys at a time, at least POSIX's PTHREAD_KEYS_MAX.
pub const MOST_KEYS: usize = 128;

/// Maximum rounds of destructors, for values that destructors have set again.
pub const ROUNDS: usize = 4;

/// A destructor.
pub type Destructor = unsafe extern "C" fn(*mut libc::c_void);

/// The keys of a runtime.
#[derive(Debug)]
pub struct Keys {
    used: [bool; MOST_KEYS],
    destructors: [Option<Destructor>; MOST_KEYS],
    /// Distinguishes a key from a previous one with the same number.
    generations: [u32; MOST_KEYS],
}

impl Default for Keys {
    fn default() -> Keys {
        Keys { used: [false; MOST_KEYS], destructors: [None; MOST_KEYS], generations: [0; MOST_KEYS] }
    }
}

/// The values of a thread: (generation of the key, value).
#[derive(Debug, Default)]
pub struct Values(Vec<(u32, usize)>);

impl Keys {
    /// A new key; every thread's value is null. `None`: all are in use.
    pub fn create(&mut self, destructor: Option<Destructor>) -> Option<u32> {
        let key = self.used.iter().position(|used| !used)?;
        self.used[key] = true;
        self.destructors[key] = destructor;
        self.generations[key] = self.generations[key].wrapping_add(1);
        Some(key as u32)
    }

    /// Deletes a key; no destructor runs for it any more. False: there is none.
    pub fn delete(&mut self, key: u32) -> bool {
        self.used.get_mut(key as usize).is_some_and(std::mem::take)
    }

    fn generation(&self, key: u32) -> Option<u32> {
        let key = key as usize;
        self.used.get(key).copied().unwrap_or(false).then(|| self.generations[key])
    }
}

impl Values {
    /// The value; null if none was set.
    #[must_use]
    pub fn get(&self, keys: &Keys, key: u32) -> usize {
        match (self.0.get(key as usize), keys.generation(key)) {
            (Some(&(generation, value)), Some(now)) if generation == now => value,
            _ => 0,
        }
    }

    /// Sets a value. False: no such key.
    pub fn set(&mut self, keys: &Keys, key: u32, value: usize) -> bool {
        let Some(generation) = keys.generation(key) else { return false };
        if self.0.len() <= key as usize {
            self.0.resize(key as usize + 1, (0, 0));
        }
        self.0[key as usize] = (generation, value);
        true
    }

    /// Removes and returns a value whose destructor is due; `None` if there is none left.
    pub fn take_next(&mut self, keys: &Keys) -> Option<(Destructor, usize)> {
        for key in 0..self.0.len() {
            let (generation, value) = self.0[key];
            if value == 0 || keys.generation(key as u32) != Some(generation) {
                continue;
            }
            if let Some(destructor) = keys.destructors[key] {
                self.0[key].1 = 0;
                return Some((destructor, value));
            }
        }
        None
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }
}
