//! Looking at the clock.

use std::time::Duration;

use toolcell_agent::{RunKey, StoreError, Swept};

use crate::answers::{Close, Late, decide, lock};
use crate::tenants;
use crate::tx::{Tx, TxError, span, values};

/// Questions that lapse, and runs that are removed, in one look; the next look takes more.
const DUE_MAX: i64 = 1_000;

/// A run that is ready for so long was not heard of: microseconds.
const UNHEARD: i64 = 5_000_000;

/// How long a component is kept after the last question of it. A question is open for at most a week; after its answer there
/// are three more for a worker to take the run, which would end as `tool-changed` later.
const COMPONENT_KEPT: Duration = Duration::from_secs(28 * 24 * 60 * 60);

/// Questions whose time is over.
pub(crate) async fn due(tx: &mut Tx<'_>) -> Result<Vec<(RunKey, String)>, TxError> {
    let due = "select tenant, run, id from suspension where state = 'open' and expires_at <= {now} \
               order by expires_at limit $1";
    let rows = tx.rows(due, values![DUE_MAX]).await?;
    Ok(rows.iter().map(|row| Ok((row.key()?, row.text("id")?))).collect::<Result<_, StoreError>>()?)
}

/// Lets a question lapse, unless somebody was faster.
pub(crate) async fn expire(tx: &mut Tx<'_>, key: RunKey, id: String) -> Result<u64, TxError> {
    let run = match lock(tx, &key).await {
        Err(TxError::Store(StoreError::NotFound(_))) => return Ok(0),
        locked => locked?,
    };
    let still = "select id from suspension where tenant = $1 and id = $2 and state = 'open' and expires_at <= {now}";
    if tx.row(still, values![&key.tenant, &id]).await?.is_none() {
        return Ok(0);
    }
    decide(tx, &run, &id, Close::Expired, Late::Fine, &Close::Expired.decision(&id)).await?;
    Ok(1)
}

/// What else the clock says.
pub(crate) async fn rest(tx: &mut Tx<'_>) -> Result<Swept, TxError> {
    let mut swept = Swept::default();
    let lost = "select tenant, id as run from run where status = 'running' and lease_until < {now} \
                order by lease_until limit $1";
    for row in tx.rows(lost, values![DUE_MAX]).await? {
        tx.wake(&row.key()?).await?;
        swept.relapsed += 1;
    }
    let unheard = "select tenant, id as run from run where status = 'ready' and updated_at < {now} - $1 limit $2";
    for row in tx.rows(unheard, values![UNHEARD, DUE_MAX]).await? {
        tx.wake(&row.key()?).await?;
        swept.woken += 1;
    }
    let again = "select tenant, id as run from run where status = 'stalled' and retry_at <= {now} \
                 order by retry_at limit $1{skip_locked}";
    for row in tx.rows(again, values![DUE_MAX]).await? {
        tenants::bring_back(tx, &row.key()?).await?;
        swept.woken += 1;
    }
    let kept_long_enough = "delete from run where (tenant, id) in (select r.tenant, r.id from tenant t join run r \
                            on r.tenant = t.id and r.updated_at < {now} - t.retention \
                            where r.status not in ('new', 'ready', 'running', 'pending', 'stalled') limit $1)";
    swept.purged = tx.run(kept_long_enough, values![DUE_MAX]).await?;
    tx.run("delete from component where kept_at < {now} - $1", values![span(COMPONENT_KEPT)]).await?;
    tx.run("delete from standing_grant where expires_at <= {now}", values![]).await?;
    Ok(swept)
}
