-- What tools note down between their calls. A space is a component's, for a tenant; whoever writes locks its row.
create table key_value_space (
    tenant text not null references tenant (id) on delete cascade,
    component text not null,
    -- How many keys there are, and the bytes of all keys and values.
    keys bigint not null default 0,
    bytes bigint not null default 0,
    -- The last version that was given: a key that is removed and written again does not begin anew.
    version bigint not null default 0,
    primary key (tenant, component)
);

-- Names are bytes, so that their order is the same in every database.
create table key_value (
    tenant text not null,
    component text not null,
    name {blob} not null,
    value {blob} not null,
    version bigint not null,
    primary key (tenant, component, name),
    foreign key (tenant, component) references key_value_space (tenant, component) on delete cascade
);
