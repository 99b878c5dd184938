//! `toolcell tenant`: what a tenant may do, what is done for it, and its removal.

use anyhow::Context as _;
use toolcell::{RunStore, StoreError, Tenant, TenantSettings, Webhook, check_webhook_secret};

use crate::args::{TenantArgs, TenantCommand, TenantSet};
use crate::exit::Exit;
use crate::output::{self, note};
use crate::printable::printable;
use crate::store::{Stores, blame_store};

/// Where the key of the webhook's signature is.
const SECRET: &str = "TOOLCELL_WEBHOOK_SECRET";

pub(crate) async fn run(args: TenantArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let store = stores.open_existing(&args.store).await?;
    let tenant = &args.store.tenant;
    match args.command.unwrap_or(TenantCommand::Show) {
        TenantCommand::Show => show(tenant, &store.settings(tenant).await.map_err(blame_store)?, args.json)?,
        TenantCommand::Set(set) => {
            let settings = changed(store.settings(tenant).await.map_err(blame_store)?, set)?;
            store.set_settings(tenant, settings.clone()).await.map_err(blame_store)?;
            show(tenant, &settings, args.json)?;
        }
        TenantCommand::Delete { name } if name != *tenant => {
            anyhow::bail!(
                "say which tenant twice, so that no other goes: toolcell tenant delete {name} --tenant {name}"
            )
        }
        TenantCommand::Delete { name } => delete(store.as_ref(), &name).await?,
    }
    Ok(Exit::Done)
}

fn changed(settings: TenantSettings, set: TenantSet) -> anyhow::Result<TenantSettings> {
    let TenantSet { weight, open_max, retention_days, webhook: url, no_webhook } = set;
    Ok(TenantSettings {
        weight: weight.unwrap_or(settings.weight),
        open_max: open_max.unwrap_or(settings.open_max),
        retention_days: retention_days.unwrap_or(settings.retention_days),
        webhook: match url {
            Some(url) => Some(webhook(url)?),
            None => settings.webhook.filter(|_| !no_webhook),
        },
    })
}

/// A webhook with the key of the environment.
pub(crate) fn webhook(url: String) -> anyhow::Result<Webhook> {
    let Some(secret) = std::env::var(SECRET).ok().filter(|secret| !secret.is_empty()) else {
        anyhow::bail!(
            "a webhook is signed: put the key into {SECRET}, for example \"whsec_$(openssl rand -base64 32)\""
        );
    };
    check_webhook_secret(&secret).with_context(|| format!("the key in {SECRET} cannot be used"))?;
    Ok(Webhook::new(url, secret)?)
}

/// The key of the webhook is never shown.
fn show(tenant: &Tenant, settings: &TenantSettings, json: bool) -> anyhow::Result<()> {
    let TenantSettings { weight, open_max, retention_days, webhook } = settings;
    let url = webhook.as_ref().map(Webhook::url);
    if json {
        return output::json(&serde_json::json!({
            "tenant": tenant.as_str(),
            "weight": weight,
            "openMax": open_max,
            "retentionDays": retention_days,
            "webhook": url,
        }));
    }
    output::line(&format!("tenant          {tenant}"));
    output::line(&format!("weight          {weight}"));
    output::line(&format!("open questions  at most {open_max}"));
    output::line(&format!("runs are kept   {retention_days} days after they have ended"));
    output::line(&format!("webhook         {}", url.map_or_else(|| "none".to_owned(), printable)));
    Ok(())
}

async fn delete(store: &dyn RunStore, name: &Tenant) -> anyhow::Result<()> {
    match store.delete_tenant(name).await {
        Ok(()) => note!("{name} is removed, with its runs, open questions, grants and audit"),
        Err(StoreError::NotFound(_)) => anyhow::bail!("there is no tenant \"{name}\" in this store"),
        Err(error) => return Err(blame_store(error)),
    }
    Ok(())
}
