-- The same for SQLite and PostgreSQL. Times are microseconds since 1970 (UTC) of the database's clock. Bodies are JSON
-- as text: JSON escapes what a text column cannot hold. {blob} is the dialect's word for bytes.

create table tenant (
    id text primary key,
    settings text not null,
    -- How long its runs are kept after they have ended, in microseconds: out of its settings.
    retention bigint not null,
    -- Virtual time: grows with each run that is enqueued, slower for a tenant of more weight.
    vtime bigint not null default 0,
    -- Open questions.
    open bigint not null default 0,
    audit_seq bigint not null default 0,
    audit_hash text not null default ''
);

create table run (
    tenant text not null references tenant (id) on delete cascade,
    id text not null,
    status text not null,
    model text not null,
    turns bigint not null default 0,
    open bigint not null default 0,
    checkpoint text,
    ended text,
    is_cancelled bigint not null default 0,
    epoch bigint not null default 0,
    worker text,
    lease_until bigint,
    prio bigint not null default 0,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (tenant, id)
);
create index run_ready on run (prio, created_at) where status = 'ready';
create index run_leased on run (lease_until) where status = 'running';
create index run_list on run (tenant, created_at, id);
create index run_over on run (tenant, updated_at) where status not in ('new', 'ready', 'running', 'pending');

-- What was said, in its order; never changed.
create table event (
    tenant text not null,
    run text not null,
    seq bigint not null,
    kind text not null,
    body text not null,
    at bigint not null,
    primary key (tenant, run, seq),
    foreign key (tenant, run) references run (tenant, id) on delete cascade
);

create table call (
    tenant text not null,
    run text not null,
    turn bigint not null,
    place bigint not null,
    state text not null,
    attempts bigint not null default 0,
    -- The question that it waits for, or had waited for last.
    suspension text,
    record text,
    primary key (tenant, run, turn, place),
    foreign key (tenant, run) references run (tenant, id) on delete cascade
);

create table suspension (
    id text primary key,
    tenant text not null,
    run text not null,
    turn bigint not null,
    place bigint not null,
    -- open, answered, expired or cancelled.
    state text not null,
    -- Whether the call has gone on since.
    is_consumed bigint not null default 0,
    body text not null,
    decision text,
    asked_at bigint not null,
    expires_at bigint not null,
    foreign key (tenant, run) references run (tenant, id) on delete cascade
);
create index suspension_due on suspension (expires_at) where state = 'open';
create index suspension_inbox on suspension (tenant, asked_at, id) where state = 'open';
create index suspension_of_run on suspension (tenant, run);

create table standing_grant (
    tenant text not null references tenant (id) on delete cascade,
    id text not null,
    tool text not null,
    body text not null,
    uses_left bigint,
    expires_at bigint not null,
    primary key (tenant, id)
);

-- Never changed; each hash is over the one before.
create table audit (
    tenant text not null references tenant (id) on delete cascade,
    seq bigint not null,
    at bigint not null,
    kind text not null,
    body text not null,
    hash text not null,
    primary key (tenant, seq)
);

create table outbox (
    id text primary key,
    tenant text not null references tenant (id) on delete cascade,
    topic text not null,
    body text not null,
    attempts bigint not null default 0,
    due_at bigint not null
);
create index outbox_due on outbox (due_at);

-- Components that calls wait with, by their SHA-256.
create table component (
    digest text primary key,
    bytes {blob} not null,
    kept_at bigint not null
);
