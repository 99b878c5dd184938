-- Where a tenant stands in the order, when nobody else waits.
create index tenant_vtime on tenant (vtime);

-- The lease under which a call was last executed: telling it again under the same one is no other execution.
alter table call add column exec_epoch bigint;

-- What is kept only for as long as somebody could need it.
create index component_kept on component (kept_at);
create index grant_ends on standing_grant (expires_at);
