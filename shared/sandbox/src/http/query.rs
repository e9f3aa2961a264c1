use std::{collections::BTreeMap, time::Duration};

use axum::http::Uri;

use crate::{
    error::{ApiError, ApiResult},
    kinds::ResourceType,
    selectors::{FieldSelector, LabelSelector},
    server::{UnknownFields, WriteOptions},
};

/// Query parameters; of a repeated parameter the last one counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    values: BTreeMap<String, String>,
}

/// Selectors, page, resource version and time limit of a list or watch request.
#[derive(Clone, Debug)]
pub(super) struct ListQuery {
    pub(super) labels: LabelSelector,
    pub(super) fields: FieldSelector,
    pub(super) limit: Option<usize>,
    pub(super) continue_token: Option<String>,
    /// Requested resource version. `None` is the newest state, 0 any state.
    pub(super) revision: Option<u64>,
    pub(super) revision_match: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) bookmarks: bool,
    pub(super) initial_events: bool,
}

impl Query {
    pub(super) fn of(uri: &Uri) -> ApiResult<Self> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| ApiError::bad_request(format!("unreadable query: {error}")))?;
        Ok(Self {
            values: pairs.0.into_iter().collect(),
        })
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.text(name), "true" | "1")
    }

    pub(super) fn number(&self, name: &str) -> ApiResult<Option<u64>> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            ApiError::bad_request(format!(
                "{name}: Invalid value: \"{text}\": expected a number"
            ))
        })
    }

    /// Single object name that the field selector of a list or watch selects: RBAC rules with `resourceNames` may allow
    /// it.
    pub(super) fn name(&self, verb: &str) -> Option<&str> {
        if !["list", "watch", "deletecollection"].contains(&verb) {
            return None;
        }
        let mut conditions = self.text("fieldSelector").split(',');
        let name = conditions.find_map(|condition| condition.strip_prefix("metadata.name="))?;
        Some(name.trim_start_matches('='))
    }

    pub(super) fn list(&self, kind: &ResourceType) -> ApiResult<ListQuery> {
        let limit = self
            .number("limit")?
            .and_then(|limit| usize::try_from(limit).ok());
        Ok(ListQuery {
            labels: LabelSelector::parse(self.text("labelSelector"))?,
            fields: FieldSelector::parse(self.text("fieldSelector"), kind)?,
            limit: limit.filter(|limit| *limit > 0),
            continue_token: Some(self.text("continue"))
                .filter(|token| !token.is_empty())
                .map(str::to_owned),
            revision: self.number("resourceVersion")?,
            revision_match: Some(self.text("resourceVersionMatch"))
                .filter(|word| !word.is_empty())
                .map(str::to_owned),
            timeout: self.number("timeoutSeconds")?.map(Duration::from_secs),
            bookmarks: self.flag("allowWatchBookmarks"),
            initial_events: self.flag("sendInitialEvents"),
        })
    }

    /// Options of a write; the field manager defaults to the program's name in the user agent.
    pub(super) fn write_options(&self, user_agent: &str) -> WriteOptions {
        let named = self.text("fieldManager");
        let program = user_agent.split(['/', ' ']).next().unwrap_or_default();
        let manager = [named, program, "unknown"]
            .into_iter()
            .find(|name| !name.is_empty());
        WriteOptions {
            manager: manager.map(str::to_owned),
            dry_run: self.text("dryRun") == "All",
            unknown_fields: match self.text("fieldValidation") {
                "Strict" => UnknownFields::Refuse,
                "Ignore" => UnknownFields::Ignore,
                _ => UnknownFields::Warn,
            },
            ..WriteOptions::default()
        }
    }
}
