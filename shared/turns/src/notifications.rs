//! Telling people outside the cluster: what is told is put into the ledger with the decision, and sent by the sweep.

mod outbox;
mod render;
mod settings;

use model::NotificationClass as Class;

pub(crate) use self::{
    outbox::{put, send},
    settings::{Destination, destinations},
};
use crate::{Outcome, Report};

/// Something to be told to whoever wants to know of its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// What happens twice under one id is told once.
    pub(crate) id: String,
    pub(crate) class: Class,
    pub(crate) title: String,
    pub(crate) details: Vec<String>,
}

/// So many launches of one turn that fail are worth telling: one or two are everyday life.
const FAILED: usize = 5;

/// What a turn decided that somebody may want to know of.
pub(crate) fn of_report(report: &Report) -> Vec<News> {
    let mut news = Vec::new();
    let mut add = |class: Class, id: String, title: String, details: Vec<String>| {
        news.push(News {
            id: format!("{}/{id}", class.as_str()),
            class,
            title,
            details,
        });
    };
    let turn = report.turn.0.clone();
    // What lasts is told once an hour.
    let hour = (report.at.as_second() / 3600).to_string();
    if !report.disrupted.is_empty() {
        let title = format!("{} disruptions are decided", report.disrupted.len());
        let details = report.disrupted.clone();
        add(Class::Disruption, turn.clone(), title, details);
    }
    if !report.held_back.is_empty() {
        let title = format!(
            "budgets hold back every disruption of {} NodePools",
            report.held_back.len()
        );
        let id = format!("budgets/{hour}");
        add(Class::Limit, id, title, report.held_back.clone());
    }
    if report.failed.len() >= FAILED {
        let title = format!("{} launches failed in one turn", report.failed.len());
        add(
            Class::InsufficientCapacity,
            turn,
            title,
            report.failed.clone(),
        );
    }
    if !report.limited.is_empty() {
        let title = format!(
            "{} pods have no place because of NodePool limits",
            report.limited.len()
        );
        add(Class::Limit, hour.clone(), title, report.limited.clone());
    }
    if let Outcome::Postponed(why) = &report.outcome {
        let id = format!("{}/{hour}", report.lane);
        let title = format!("the {} waits for EC2 calls", report.lane);
        add(Class::Limit, id, title, vec![why.clone()]);
    }
    news
}
