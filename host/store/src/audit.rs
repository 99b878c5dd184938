//! The audit: one line for whatever counts, each chained to the one before by its hash.

use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use toolcell_agent::{AuditEntry, AuditHead, RunStore, StoreError, Tenant};

use crate::error::damaged;
use crate::lists::at_most;
use crate::tenants;
use crate::tx::{Tx, TxError, json, values};

/// The SHA-256 of something that is not to stand in the audit itself.
pub(crate) fn sha256(of: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(of.as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of a line. Lengths stand before what could be of any length, so that no two lines read the same.
fn chain(before: &str, seq: i64, at: i64, kind: &str, body: &str) -> String {
    let mut hash = Sha256::new();
    for part in [before, &seq.to_string(), &at.to_string(), kind, body] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// Writes a line, in the transaction of what it tells.
pub(crate) async fn note(tx: &mut Tx<'_>, tenant: &Tenant, kind: &str, body: Json) -> Result<(), TxError> {
    let Some(row) = tenants::row(tx, tenant).await? else { return Err(StoreError::NotFound("tenant").into()) };
    let (at, body) = (row.locked_at, json(&body)?);
    let seq = row.counts.audit_seq + 1;
    let hash = chain(&row.counts.audit_hash, seq, at, kind, &body);
    (row.counts.audit_seq, row.counts.audit_hash) = (seq, hash.clone());
    let insert = "insert into audit (tenant, seq, at, kind, body, hash) values ($1, $2, $3, $4, $5, $6)";
    tx.run(insert, values![tenant, seq, at, kind, &body, &hash]).await.map(drop)
}

pub(crate) async fn list(tx: &mut Tx<'_>, tenant: Tenant, after: u64, limit: u32) -> Result<Vec<AuditEntry>, TxError> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let rows = "select seq, at, kind, body, hash from audit where tenant = $1 and seq > $2 order by seq limit $3";
    let rows = tx.rows(rows, values![&tenant, after, at_most(limit)]).await?;
    let entry = |row: &crate::tx::Columns| -> Result<AuditEntry, StoreError> {
        Ok(AuditEntry {
            seq: u64::try_from(row.int("seq")?).map_err(|_| damaged("a line of the audit has no number"))?,
            at: row.time("at")?,
            kind: row.text("kind")?,
            body: row.json("body")?,
            hash: row.text("hash")?,
        })
    };
    Ok(rows.iter().map(entry).collect::<Result<_, _>>()?)
}

/// How many lines there are, and the hash of the last.
pub(crate) async fn head(tx: &mut Tx<'_>, tenant: Tenant) -> Result<AuditHead, TxError> {
    let row = tx.row("select audit_seq, audit_hash from tenant where id = $1", values![&tenant]).await?;
    let Some(row) = row else { return Ok(AuditHead::default()) };
    let seq = u64::try_from(row.int("audit_seq")?).map_err(|_| damaged("an audit has no length"))?;
    Ok(AuditHead { seq, hash: row.text("audit_hash")? })
}

/// Where an audit is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit is broken at line {seq}: this line, or one before it, was changed or removed")]
pub struct AuditBreak {
    /// The first line that does not follow from the one before.
    pub seq: u64,
}

/// Checks the whole audit of a tenant.
///
/// # Errors
/// [`StoreError`]. The inner result says where the chain breaks, or how many lines it has.
pub async fn verify_audit(store: &dyn RunStore, tenant: &Tenant) -> Result<Result<u64, AuditBreak>, StoreError> {
    const PAGE: u32 = 1_000;
    // First: what is written meanwhile comes after it.
    let end = store.audit_head(tenant).await?;
    let (mut seq, mut hash) = (0_u64, String::new());
    loop {
        let page = store.audit(tenant, seq, PAGE).await?;
        if page.is_empty() {
            return Ok(if seq < end.seq { Err(AuditBreak { seq: seq + 1 }) } else { Ok(seq) });
        }
        for entry in page {
            let body = json(&entry.body)?;
            let number = i64::try_from(entry.seq).unwrap_or(i64::MAX);
            let at = crate::tx::micros(entry.at);
            if entry.seq != seq + 1 || entry.hash != chain(&hash, number, at, &entry.kind, &body) {
                return Ok(Err(AuditBreak { seq: seq + 1 }));
            }
            (seq, hash) = (entry.seq, entry.hash);
            if seq == end.seq && hash != end.hash {
                return Ok(Err(AuditBreak { seq }));
            }
        }
    }
}
