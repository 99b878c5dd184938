//! What a worker says while it works: a line for people on standard error, or a line of JSON on standard output.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use toolcell::{Change, NotDelivered, RunKey, StoredStatus, WorkerEvent};

use crate::causes::causes_of;
use crate::commands::runs::word;
use crate::output::{self, note};
use crate::printable::{one_line, printable};

/// Characters of a reason in a line.
const LINE_CHARS: usize = 300;

/// Kinds of failed webhooks that are remembered as said. With more of them, they are said again.
const KINDS_MAX: usize = 1_000;

/// One thing that a worker says. `type` tells which.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(crate) enum News<'a> {
    /// It begins.
    Started { worker: &'a str, store: &'a str, tools: usize, directory: &'a str, runs_at_once: usize },
    /// It has taken a run.
    Taken { run: &'a str, tenant: &'a str },
    /// It has put a run down.
    PutDown {
        run: &'a str,
        tenant: &'a str,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Other tools are in use, or other files are refused.
    Tools { tools: usize, refused: Vec<Refused> },
    /// The directory cannot be read; what was in use stays in use.
    ToolsUnreadable { error: String },
    /// Another policy is in use.
    Policy,
    /// The policy is broken; the last good one stays in use.
    PolicyBroken { error: String },
    /// Nothing that changes is noticed.
    NotWatched { error: String },
    /// A webhook cannot be delivered.
    WebhookFailed {
        tenant: &'a str,
        host: &'a str,
        error: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_try_seconds: Option<u64>,
    },
    /// It ends.
    Stopped { worker: &'a str },
}

/// A file that is not offered, and why.
#[derive(Debug, Serialize)]
pub(crate) struct Refused {
    file: String,
    code: &'static str,
    reason: String,
}

impl News<'_> {
    /// The lines for people.
    fn lines(&self) -> Vec<String> {
        let line = match self {
            Self::Started { worker, store, tools, directory, runs_at_once } => format!(
                "{worker} works on the runs in {store}, with {tools} tools of {}, up to {runs_at_once} at once; Ctrl-C \
                 stops it",
                printable(directory)
            ),
            Self::Taken { run, tenant } => format!("{run} of {tenant} is taken"),
            Self::PutDown { run, tenant, status, error: None } => format!("{run} of {tenant}: {status}"),
            Self::PutDown { run, tenant, status, error: Some(error) } => {
                format!("{run} of {tenant}: {status}: {error}")
            }
            Self::Tools { tools, refused } => {
                let refused =
                    refused.iter().map(|Refused { file, code, reason }| format!("refused {file} [{code}]: {reason}"));
                return std::iter::once(format!(
                    "the directory of tools has changed: {tools} tools for calls from now on"
                ))
                .chain(refused)
                .collect();
            }
            Self::ToolsUnreadable { error } => format!("the tools stay as they were: {error}"),
            Self::Policy => "the policy has changed, and holds for calls from now on".to_owned(),
            Self::PolicyBroken { error } => format!("the last good policy stays in use: {error}"),
            Self::NotWatched { error } => format!("warning: changes of tools and policy need a restart: {error}"),
            Self::WebhookFailed { tenant, host, error, next_try_seconds } => {
                let next = match next_try_seconds {
                    Some(seconds) => format!("next try in {seconds} s, then later and later for about a day"),
                    None => "it is given up".to_owned(),
                };
                format!("the webhook of {tenant} cannot be delivered to {host}: {error}; {next}")
            }
            Self::Stopped { worker } => format!("{worker} has stopped"),
        };
        vec![line]
    }
}

/// Says what happens.
pub(crate) struct Reporter {
    json: bool,
    /// Which webhooks were said to fail, and how.
    failed: Mutex<HashSet<(String, String, String)>>,
}

impl Reporter {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, failed: Mutex::default() }
    }

    pub(crate) fn tell(&self, news: &News<'_>) {
        if self.json {
            // Plain types always have a JSON form.
            let _ = output::json(news);
            return;
        }
        for line in news.lines() {
            note!("{}", one_line(&line, LINE_CHARS));
        }
    }

    pub(crate) fn run(&self, event: &WorkerEvent) {
        let put_down = |key: &RunKey, status, error| {
            self.tell(&News::PutDown { run: &key.run, tenant: key.tenant.as_str(), status, error });
        };
        match event {
            WorkerEvent::Taken { key } => self.tell(&News::Taken { run: &key.run, tenant: key.tenant.as_str() }),
            WorkerEvent::Rests { key, status } => put_down(key, word(StoredStatus::Ended(*status)), None),
            WorkerEvent::GivenBack { key } => put_down(key, "given back", None),
            WorkerEvent::Lost { key, error } => put_down(key, "lost", Some(causes_of(error))),
            _ => {}
        }
    }

    /// `tools`: how many are offered now.
    pub(crate) fn changed(&self, change: Change, tools: usize) {
        self.tell(&match change {
            Change::Tools(report) => {
                let refused = report.rejected.into_iter();
                let refused = refused.map(|file| Refused { file: file.file, code: file.code, reason: file.reason });
                News::Tools { tools, refused: refused.collect() }
            }
            Change::ToolsUnreadable(error) => News::ToolsUnreadable { error: causes_of(&error) },
            Change::Policy => News::Policy,
            Change::PolicyBroken(error) => News::PolicyBroken { error },
            _ => return,
        });
    }

    /// Says it once for each tenant, host and problem.
    pub(crate) fn not_delivered(&self, not_delivered: NotDelivered) {
        let NotDelivered { tenant, host, problem, next_try, .. } = not_delivered;
        let error = causes_of(&problem);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() >= KINDS_MAX {
            failed.clear();
        }
        if !failed.insert((tenant.to_string(), host.clone(), error.clone())) {
            return;
        }
        drop(failed);
        let next_try_seconds = next_try.map(|pause| pause.as_secs());
        self.tell(&News::WebhookFailed { tenant: tenant.as_str(), host: &host, error, next_try_seconds });
    }
}
