-- Runs that workers have taken in vain. The status of one that is set aside until retry_at is `stalled`.
alter table run add column stalls bigint not null default 0;
alter table run add column retry_at bigint;
create index run_stalled on run (retry_at) where status = 'stalled';
drop index run_over;
create index run_over on run (tenant, updated_at)
    where status not in ('new', 'ready', 'running', 'pending', 'stalled');

-- The grant that has decided a question, as it was then: asking for one again finds the same.
alter table suspension add column used_grant text;
