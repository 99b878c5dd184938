//! Chaos: several workers share a store and are killed, frozen for longer than their lease and cut off between any two
//! steps, while two people race for every answer. Afterwards nothing may be lost, stuck, repeated or decided twice.

mod host;
mod mortal;
mod people;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand};
use rustix::process::{Pid, Signal, kill_process};
use toolcell_agent::{Desk, Message, Tenant};
use toolcell_tests::postgres;

/// How long a worker's run is its own. Short, so that much is taken over in little time.
pub const LEASE: Duration = Duration::from_secs(2);

/// A worker is frozen for so long: its runs are others' when it comes back.
const FREEZE: Duration = Duration::from_millis(3_500);

/// Between two faults, at least.
const CALM_MIN: u64 = 60;

/// Between two faults, at most this much more. Milliseconds.
const CALM_SPREAD: u64 = 300;

/// When no more faults come, all that is left has to end within this time.
const REST_MAX: Duration = Duration::from_secs(60);

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Makes chaos and judges what came of it.
    Run(Plan),
    /// Works on runs until it is killed.
    Worker(host::WorkerArgs),
}

/// How much chaos.
#[derive(Args)]
struct Plan {
    /// The kind of store: sqlite or postgres
    #[arg(long, default_value = "sqlite")]
    store: String,
    /// Runs
    #[arg(long, default_value = "120")]
    runs: usize,
    /// Worker processes
    #[arg(long, default_value = "3")]
    workers: usize,
    /// Faults come for at most so many seconds
    #[arg(long, default_value = "60")]
    seconds: u64,
    /// A worker ends itself at one of so many writes
    #[arg(long, default_value = "400")]
    abort_one_in: u32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Role::Worker(args) => host::work(args).await,
        Role::Run(plan) => make(plan).await,
    }
}

/// A number below `end`.
pub fn random(end: u64) -> u64 {
    getrandom::u64().map_or(0, |number| number % end.max(1))
}

/// What faults there were.
#[derive(Debug, Default)]
struct Faults {
    kills: u32,
    freezes: u32,
    /// Workers that ended themselves between two steps.
    aborts: u32,
}

async fn make(plan: Plan) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let store = match plan.store.as_str() {
        "sqlite" => dir.path().join("runs.db").display().to_string(),
        "postgres" => postgres::shared().context("there is no PostgreSQL")?.database(),
        other => bail!("there is no kind of store \"{other}\": sqlite or postgres"),
    };
    let effects = dir.path().join("effects");
    std::fs::write(&effects, "")?;
    let opened = toolcell_store::open(&store).await?;
    let mut keys = Vec::new();
    for number in 0..plan.runs {
        // Several tenants, of which one has most of the runs.
        let name = if number % 4 == 0 { format!("quiet-{}", number % 12) } else { "noisy".to_owned() };
        let desk = Desk::new(opened.clone(), name.parse::<Tenant>()?);
        keys.push(desk.start(None, vec![Message::user("go")], "chaos").await?);
    }
    let people = people::race(&store, &keys).await?;
    let began = Instant::now();
    let fleet = Fleet { store: &store, effects: &effects, abort_one_in: plan.abort_one_in };
    let faults = fleet.suffer(plan.workers, Duration::from_secs(plan.seconds), &people).await?;
    let took = began.elapsed();
    let verdict = verdict::judge(opened.as_ref(), &keys, &people, &effects).await?;
    println!(
        "{}: {} runs in {:.1} s, {} kills, {} freezes, {} aborts; {verdict}",
        plan.store,
        plan.runs,
        took.as_secs_f64(),
        faults.kills,
        faults.freezes,
        faults.aborts
    );
    Ok(())
}

/// The workers.
struct Fleet<'a> {
    store: &'a str,
    effects: &'a Path,
    abort_one_in: u32,
}

/// Processes that do not outlive this one.
struct Workers(Vec<Child>);

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Fleet<'_> {
    fn spawn(&self, abort_one_in: u32) -> anyhow::Result<Child> {
        let program: PathBuf = std::env::current_exe()?;
        let child = Command::new(program)
            .args(["worker", "--store", self.store, "--abort-one-in", &abort_one_in.to_string(), "--effects"])
            .arg(self.effects)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(child)
    }

    /// Lets the workers suffer until all runs have ended.
    async fn suffer(&self, count: usize, time: Duration, people: &people::People) -> anyhow::Result<Faults> {
        let mut faults = Faults::default();
        let workers = (0..count).map(|_| self.spawn(self.abort_one_in)).collect::<Result<_, _>>();
        let mut workers = Workers(workers?);
        let began = Instant::now();
        while !people.have_seen_all_end() && began.elapsed() < time {
            tokio::time::sleep(Duration::from_millis(CALM_MIN + random(CALM_SPREAD))).await;
            for child in &mut workers.0 {
                if child.try_wait()?.is_some() {
                    faults.aborts += 1;
                    *child = self.spawn(self.abort_one_in)?;
                }
            }
            let victim = usize::try_from(random(u64::try_from(count)?))?;
            let child = &mut workers.0[victim];
            let Some(pid) = Pid::from_raw(i32::try_from(child.id())?) else { continue };
            match random(4) {
                0 => {
                    faults.kills += 1;
                    child.kill()?;
                    child.wait()?;
                    *child = self.spawn(self.abort_one_in)?;
                }
                1 => {
                    faults.freezes += 1;
                    kill_process(pid, Signal::STOP)?;
                    tokio::spawn(async move {
                        tokio::time::sleep(FREEZE).await;
                        // It may have been killed in the meantime.
                        let _ = kill_process(pid, Signal::CONT);
                    });
                }
                _ => {}
            }
        }
        // No more faults: what is left has to end now.
        drop(workers);
        let _workers = Workers((0..count).map(|_| self.spawn(0)).collect::<Result<_, _>>()?);
        let rest = Instant::now();
        while !people.have_seen_all_end() {
            if rest.elapsed() > REST_MAX {
                bail!("{} runs are stuck: {:?}", people.left(), people.some_left());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(faults)
    }
}
