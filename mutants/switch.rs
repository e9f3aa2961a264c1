//! Which mutant is on, put into the clone that `make mutants` makes: `MUTANT` has its number. With `MUTANT_REACHED`, a file, none is on, and the
//! number of each that is come by is added to the file.

use std::{
    env,
    fs::OpenOptions,
    io::Write as _,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

const UNREAD: u32 = u32::MAX;
const RECORDS: u32 = u32::MAX - 1;

static ON: AtomicU32 = AtomicU32::new(UNREAD);
static RECORDED: [AtomicBool; 1 << 14] = [const { AtomicBool::new(false) }; 1 << 14];

#[inline]
pub fn on(number: u32) -> bool {
    let on = ON.load(Relaxed);
    on == number || (on >= RECORDS && first(number))
}

/// Rare path, kept out of line of the code that runs often.
#[cold]
fn first(number: u32) -> bool {
    if RECORDED[number as usize].load(Relaxed) {
        return false;
    }
    let reached = env::var("MUTANT_REACHED");
    if ON.load(Relaxed) == UNREAD {
        let chosen = env::var("MUTANT").map_or(0, |number| number.parse().unwrap());
        ON.store(if reached.is_ok() { RECORDS } else { chosen }, Relaxed);
    }
    if let Ok(file) = reached
        && !RECORDED[number as usize].swap(true, Relaxed)
    {
        let mut file = OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(format!("{number}\n").as_bytes()).unwrap();
    }
    ON.load(Relaxed) == number
}
