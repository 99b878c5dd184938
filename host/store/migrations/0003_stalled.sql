-- Runs that workers have taken in vain. The status of one that is set aside until retry_at is `stalled`.
alter table run add column stalls bigint not null default 0;
alter table run add column retry_at bigint;
create index run_stalled on run (retry_at) where status = 'stalled';

-- When a run that is over is removed: no look at the clock asks each tenant for how long it keeps its runs.
alter table run add column purge_at bigint;
update run set purge_at = updated_at + (select retention from tenant where tenant.id = run.tenant)
    where status not in ('new', 'ready', 'running', 'pending', 'stalled');
drop index run_over;
create index run_over on run (tenant, updated_at, id) where purge_at is not null;
create index run_purge on run (purge_at) where purge_at is not null;

-- What is removed with its tenant is found by it.
create index outbox_of_tenant on outbox (tenant);

-- The order in which questions lapse.
drop index suspension_due;
create index suspension_due on suspension (expires_at, id) where state = 'open';

-- The grant that has decided a question, as it was then: asking for one again finds the same.
alter table suspension add column used_grant text;

-- A random text for each lease: the epoch alone is given again by a database that was brought back from a backup.
alter table run add column lease_token text;
