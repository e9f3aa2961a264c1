use crate::{Bug, Event, Failure, Script, play};

/// Upper bound on the scripts that are played to find a shorter one, so that a failure is reported within minutes.
const TRIES_MAX: usize = 300;

/// Reduces a failing script to events that suffice to break the same law, removing larger pieces first (ddmin).
pub fn shrink(failure: Box<Failure>, bug: Option<Bug>) -> Box<Failure> {
    let mut best = failure;
    let mut piece = best.script.events.len().div_ceil(2);
    let mut tries = 0;
    while piece > 0 && tries < TRIES_MAX {
        let mut at = 0;
        let mut cut = false;
        while at < best.script.events.len() && tries < TRIES_MAX {
            tries += 1;
            let events = without(&best.script.events, at, piece);
            let script = Script {
                events,
                ..best.script.clone()
            };
            match play(&script, bug) {
                Err(shorter) if shorter.broken.law == best.broken.law => {
                    best = shorter;
                    cut = true;
                }
                Ok(_) | Err(_) => at += piece,
            }
        }
        if !cut || piece > 1 {
            piece /= 2;
        }
    }
    best
}

fn without(events: &[Event], at: usize, piece: usize) -> Vec<Event> {
    let kept = events.iter().enumerate();
    let kept = kept.filter(|(index, _)| *index < at || *index >= at + piece);
    kept.map(|(_, event)| event.clone()).collect()
}
