-- All tables of Merkat on MySQL and MariaDB, as its migrations create them. The daemon creates
-- missing tables itself. Written by `python -m merkatd.database.migrations`.

CREATE TABLE accounts (
	id BIGINT NOT NULL AUTO_INCREMENT,
	kind VARCHAR(16) NOT NULL,
	owner INTEGER NOT NULL,
	name VARCHAR(128) NOT NULL,
	balance BIGINT NOT NULL,
	reserved BIGINT NOT NULL DEFAULT '0',
	debt BIGINT NOT NULL DEFAULT '0',
	CONSTRAINT pk_accounts PRIMARY KEY (id),
	CONSTRAINT uq_accounts_kind UNIQUE (kind, owner, name),
	CONSTRAINT ck_accounts_only_issuance_owes CHECK (kind = 'issuance' OR balance >= 0)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_accounts_debt ON accounts (debt);

CREATE INDEX ix_accounts_owner ON accounts (owner);

CREATE TABLE arrears (
	owner INTEGER NOT NULL,
	periods DOUBLE NOT NULL,
	CONSTRAINT pk_arrears PRIMARY KEY (owner)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE bid_words (
	id BIGINT NOT NULL AUTO_INCREMENT,
	vm INTEGER NOT NULL,
	bid MEDIUMTEXT NOT NULL,
	source VARCHAR(16) NOT NULL,
	at_s DOUBLE NOT NULL,
	CONSTRAINT pk_bid_words PRIMARY KEY (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_bid_words_at_s ON bid_words (at_s);

CREATE INDEX ix_bid_words_vm_at_s ON bid_words (vm, at_s);

CREATE TABLE bids (
	vm INTEGER NOT NULL,
	bid MEDIUMTEXT NOT NULL,
	source VARCHAR(16) NOT NULL,
	at_s DOUBLE NOT NULL,
	template_hash VARCHAR(64),
	CONSTRAINT pk_bids PRIMARY KEY (vm)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE comparisons (
	id BIGINT NOT NULL AUTO_INCREMENT,
	period INTEGER NOT NULL,
	at_s DOUBLE NOT NULL,
	vm INTEGER NOT NULL,
	name VARCHAR(128) NOT NULL,
	theirs VARCHAR(128) NOT NULL,
	ours VARCHAR(128),
	why MEDIUMTEXT NOT NULL,
	source VARCHAR(128),
	CONSTRAINT pk_comparisons PRIMARY KEY (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_comparisons_period ON comparisons (period);

CREATE TABLE decision_seeds (
	seed BIGINT NOT NULL,
	CONSTRAINT pk_decision_seeds PRIMARY KEY (seed)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE leases (
	name VARCHAR(32) NOT NULL,
	holder VARCHAR(128) NOT NULL,
	token BIGINT NOT NULL,
	beat BIGINT NOT NULL,
	CONSTRAINT pk_leases PRIMARY KEY (name)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE limit_orders (
	id BIGINT NOT NULL AUTO_INCREMENT,
	owner INTEGER NOT NULL,
	limit_credits DOUBLE NOT NULL,
	least_run_s DOUBLE NOT NULL,
	factor DOUBLE NOT NULL,
	stated_s DOUBLE NOT NULL,
	runs BOOL NOT NULL,
	since_s DOUBLE,
	cost DOUBLE,
	why MEDIUMTEXT NOT NULL,
	platform BIGINT,
	CONSTRAINT pk_limit_orders PRIMARY KEY (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_limit_orders_owner ON limit_orders (owner);

CREATE UNIQUE INDEX ix_limit_orders_platform ON limit_orders (platform);

CREATE TABLE notes (
	id BIGINT NOT NULL AUTO_INCREMENT,
	at_s DOUBLE NOT NULL,
	kind VARCHAR(16) NOT NULL,
	who VARCHAR(128) NOT NULL,
	owner INTEGER,
	text MEDIUMTEXT NOT NULL,
	CONSTRAINT pk_notes PRIMARY KEY (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_notes_kind_at_s ON notes (kind, at_s);

CREATE INDEX ix_notes_owner ON notes (owner);

CREATE TABLE orders (
	id BIGINT NOT NULL AUTO_INCREMENT,
	at_s DOUBLE NOT NULL,
	what VARCHAR(16) NOT NULL,
	host INTEGER NOT NULL,
	who VARCHAR(64) NOT NULL,
	origin VARCHAR(64) NOT NULL DEFAULT '',
	CONSTRAINT pk_orders PRIMARY KEY (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_orders_host ON orders (host);

CREATE TABLE periods (
	number INTEGER NOT NULL,
	state VARCHAR(16) NOT NULL,
	started_s DOUBLE NOT NULL,
	observed_s DOUBLE NOT NULL,
	decided_s DOUBLE,
	acted_s DOUBLE,
	charged_s DOUBLE,
	failed_s DOUBLE,
	hosts INTEGER NOT NULL,
	vms INTEGER NOT NULL,
	strategy VARCHAR(64),
	failure MEDIUMTEXT,
	CONSTRAINT pk_periods PRIMARY KEY (number)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_periods_started_s ON periods (started_s);

CREATE INDEX ix_periods_state ON periods (state);

CREATE TABLE plans (
	id BIGINT NOT NULL AUTO_INCREMENT,
	period INTEGER NOT NULL,
	made_s DOUBLE NOT NULL,
	state VARCHAR(16) NOT NULL,
	steps MEDIUMTEXT NOT NULL,
	who VARCHAR(64),
	approved_s DOUBLE,
	ended_s DOUBLE,
	drawn INTEGER,
	shortfalls MEDIUMTEXT,
	reverses INTEGER,
	CONSTRAINT pk_plans PRIMARY KEY (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_plans_state ON plans (state);

CREATE TABLE rollups (
	period INTEGER NOT NULL,
	at_s DOUBLE NOT NULL,
	CONSTRAINT pk_rollups PRIMARY KEY (period)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE rounds (
	kind VARCHAR(16) NOT NULL,
	number INTEGER NOT NULL,
	at_s DOUBLE NOT NULL,
	CONSTRAINT pk_rounds PRIMARY KEY (kind, number)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE strategy_memories (
	market VARCHAR(64) NOT NULL,
	watches BOOL NOT NULL,
	strategy VARCHAR(64) NOT NULL,
	version INTEGER NOT NULL,
	period INTEGER NOT NULL,
	data MEDIUMBLOB NOT NULL,
	CONSTRAINT pk_strategy_memories PRIMARY KEY (market, watches)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE tenant_groups (
	id INTEGER NOT NULL,
	weight DOUBLE NOT NULL,
	CONSTRAINT pk_tenant_groups PRIMARY KEY (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE tenants (
	owner INTEGER NOT NULL,
	name VARCHAR(128),
	group_id INTEGER,
	weight DOUBLE,
	met_s DOUBLE NOT NULL,
	retired_s DOUBLE,
	CONSTRAINT pk_tenants PRIMARY KEY (owner)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE transactions (
	id BIGINT NOT NULL AUTO_INCREMENT,
	at_s DOUBLE NOT NULL,
	kind VARCHAR(16) NOT NULL,
	reference VARCHAR(128) NOT NULL,
	CONSTRAINT pk_transactions PRIMARY KEY (id),
	CONSTRAINT uq_transactions_reference UNIQUE (reference)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_transactions_at_s ON transactions (at_s);

CREATE TABLE use_samples (
	at_s DOUBLE NOT NULL,
	data MEDIUMBLOB NOT NULL,
	CONSTRAINT pk_use_samples PRIMARY KEY (at_s)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE vm_groups (
	id BIGINT NOT NULL AUTO_INCREMENT,
	token VARCHAR(64) NOT NULL,
	name VARCHAR(128) NOT NULL,
	owner INTEGER NOT NULL,
	user_group INTEGER NOT NULL,
	permissions INTEGER NOT NULL,
	market VARCHAR(64) NOT NULL,
	template MEDIUMTEXT NOT NULL,
	spending_rate DOUBLE NOT NULL,
	nvm INTEGER NOT NULL,
	ending BOOL NOT NULL,
	why MEDIUMTEXT NOT NULL,
	created_s DOUBLE NOT NULL,
	ended_s DOUBLE,
	CONSTRAINT pk_vm_groups PRIMARY KEY (id),
	CONSTRAINT uq_vm_groups_token UNIQUE (token)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_vm_groups_ended_s ON vm_groups (ended_s);

CREATE TABLE vm_histories (
	vm INTEGER NOT NULL,
	moved_s DOUBLE,
	saved BOOL NOT NULL,
	CONSTRAINT pk_vm_histories PRIMARY KEY (vm)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE allocations (
	period INTEGER NOT NULL,
	data MEDIUMBLOB NOT NULL,
	CONSTRAINT pk_allocations PRIMARY KEY (period),
	CONSTRAINT fk_allocations_period FOREIGN KEY(period) REFERENCES periods (number)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE budgets (
	account BIGINT NOT NULL,
	initial BIGINT NOT NULL,
	replenishment BIGINT NOT NULL,
	opened_s DOUBLE NOT NULL,
	ended_s DOUBLE,
	CONSTRAINT pk_budgets PRIMARY KEY (account),
	CONSTRAINT fk_budgets_account FOREIGN KEY(account) REFERENCES accounts (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE details (
	period INTEGER NOT NULL,
	at_s DOUBLE NOT NULL,
	folded BOOL NOT NULL,
	data MEDIUMBLOB NOT NULL,
	CONSTRAINT pk_details PRIMARY KEY (period),
	CONSTRAINT fk_details_period FOREIGN KEY(period) REFERENCES periods (number)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_details_folded_period ON details (folded, period);

CREATE TABLE entries (
	account_id BIGINT NOT NULL,
	transaction_id BIGINT NOT NULL,
	amount BIGINT NOT NULL,
	CONSTRAINT pk_entries PRIMARY KEY (account_id, transaction_id),
	CONSTRAINT fk_entries_account_id FOREIGN KEY(account_id) REFERENCES accounts (id),
	CONSTRAINT fk_entries_transaction_id FOREIGN KEY(transaction_id) REFERENCES transactions (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_entries_transaction_id ON entries (transaction_id);

CREATE TABLE limit_order_vms (
	vm INTEGER NOT NULL,
	limit_order BIGINT,
	saved BOOL NOT NULL,
	CONSTRAINT pk_limit_order_vms PRIMARY KEY (vm),
	CONSTRAINT fk_limit_order_vms_limit_order FOREIGN KEY(limit_order) REFERENCES limit_orders (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_limit_order_vms_limit_order ON limit_order_vms (limit_order);

CREATE TABLE platforms (
	id BIGINT NOT NULL AUTO_INCREMENT,
	token VARCHAR(64) NOT NULL,
	owner INTEGER NOT NULL,
	name VARCHAR(64) NOT NULL,
	account BIGINT,
	template MEDIUMTEXT NOT NULL,
	vm_templates MEDIUMTEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	why MEDIUMTEXT NOT NULL,
	needs MEDIUMTEXT NOT NULL,
	ending VARCHAR(16),
	held BOOL NOT NULL,
	submitted_s DOUBLE NOT NULL,
	since_s DOUBLE NOT NULL,
	started_s DOUBLE,
	deadline_s DOUBLE,
	sizes MEDIUMTEXT NOT NULL,
	report MEDIUMTEXT,
	memory MEDIUMTEXT,
	performance DOUBLE,
	first_ran_s DOUBLE,
	CONSTRAINT pk_platforms PRIMARY KEY (id),
	CONSTRAINT uq_platforms_token UNIQUE (token),
	CONSTRAINT fk_platforms_account FOREIGN KEY(account) REFERENCES accounts (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_platforms_owner ON platforms (owner);

CREATE INDEX ix_platforms_state ON platforms (state);

CREATE TABLE prices (
	period INTEGER NOT NULL,
	market VARCHAR(64) NOT NULL,
	resource VARCHAR(32) NOT NULL,
	price DOUBLE,
	CONSTRAINT pk_prices PRIMARY KEY (period, market, resource),
	CONSTRAINT fk_prices_period FOREIGN KEY(period) REFERENCES periods (number)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_prices_market_period ON prices (market, period);

CREATE TABLE reservations (
	period INTEGER NOT NULL,
	account BIGINT NOT NULL,
	amount BIGINT NOT NULL,
	CONSTRAINT pk_reservations PRIMARY KEY (period, account),
	CONSTRAINT fk_reservations_period FOREIGN KEY(period) REFERENCES periods (number),
	CONSTRAINT fk_reservations_account FOREIGN KEY(account) REFERENCES accounts (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_reservations_account ON reservations (account);

CREATE TABLE room_prices (
	period INTEGER NOT NULL,
	market VARCHAR(64) NOT NULL,
	resource VARCHAR(32) NOT NULL,
	capacity DOUBLE NOT NULL,
	weight DOUBLE NOT NULL,
	reserve DOUBLE NOT NULL,
	prices BLOB NOT NULL,
	CONSTRAINT pk_room_prices PRIMARY KEY (period, market, resource),
	CONSTRAINT fk_room_prices_period FOREIGN KEY(period) REFERENCES periods (number)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_room_prices_market_period ON room_prices (market, period);

CREATE TABLE shortfalls (
	period INTEGER NOT NULL,
	account BIGINT NOT NULL,
	at_s DOUBLE NOT NULL,
	missing BIGINT NOT NULL,
	CONSTRAINT pk_shortfalls PRIMARY KEY (period, account),
	CONSTRAINT fk_shortfalls_period FOREIGN KEY(period) REFERENCES periods (number),
	CONSTRAINT fk_shortfalls_account FOREIGN KEY(account) REFERENCES accounts (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_shortfalls_account_period ON shortfalls (account, period);

CREATE TABLE steps (
	id VARCHAR(32) NOT NULL,
	period INTEGER NOT NULL,
	position INTEGER NOT NULL,
	kind VARCHAR(16) NOT NULL,
	vm INTEGER NOT NULL,
	host INTEGER,
	create_key VARCHAR(64),
	reason MEDIUMTEXT NOT NULL,
	after_steps MEDIUMTEXT NOT NULL,
	detail MEDIUMTEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	planned_s DOUBLE NOT NULL,
	sent_s DOUBLE,
	ended_s DOUBLE,
	reply MEDIUMTEXT,
	outstanding_vm INTEGER,
	live_key VARCHAR(64),
	CONSTRAINT pk_steps PRIMARY KEY (id),
	CONSTRAINT fk_steps_period FOREIGN KEY(period) REFERENCES periods (number),
	CONSTRAINT uq_steps_outstanding_vm UNIQUE (outstanding_vm),
	CONSTRAINT uq_steps_live_key UNIQUE (live_key)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_steps_create_key ON steps (create_key);

CREATE INDEX ix_steps_kind_planned_s ON steps (kind, planned_s);

CREATE INDEX ix_steps_period_position ON steps (period, position);

CREATE INDEX ix_steps_planned_s ON steps (planned_s);

CREATE INDEX ix_steps_state ON steps (state);

CREATE INDEX ix_steps_vm_period ON steps (vm, period);

CREATE TABLE uses (
	account BIGINT NOT NULL,
	day INTEGER NOT NULL,
	vm INTEGER NOT NULL,
	name VARCHAR(128) NOT NULL,
	seconds DOUBLE NOT NULL,
	cpu_s DOUBLE NOT NULL,
	memory_s DOUBLE NOT NULL,
	cpu_cost BIGINT NOT NULL,
	memory_cost BIGINT NOT NULL,
	network_s DOUBLE NOT NULL DEFAULT '0',
	disk_s DOUBLE NOT NULL DEFAULT '0',
	network_cost BIGINT NOT NULL DEFAULT '0',
	disk_cost BIGINT NOT NULL DEFAULT '0',
	CONSTRAINT pk_uses PRIMARY KEY (account, day, vm),
	CONSTRAINT fk_uses_account FOREIGN KEY(account) REFERENCES accounts (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_uses_day ON uses (day);

CREATE TABLE vm_group_vms (
	create_key VARCHAR(64) NOT NULL,
	vm_group BIGINT NOT NULL,
	owner INTEGER NOT NULL,
	number INTEGER NOT NULL,
	vm INTEGER,
	leaving BOOL NOT NULL,
	gone_s DOUBLE,
	CONSTRAINT pk_vm_group_vms PRIMARY KEY (create_key),
	CONSTRAINT fk_vm_group_vms_vm_group FOREIGN KEY(vm_group) REFERENCES vm_groups (id),
	CONSTRAINT uq_vm_group_vms_vm UNIQUE (vm)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_vm_group_vms_gone_s ON vm_group_vms (gone_s);

CREATE INDEX ix_vm_group_vms_vm_group ON vm_group_vms (vm_group);

CREATE TABLE job_runs (
	platform BIGINT NOT NULL,
	owner INTEGER NOT NULL,
	template VARCHAR(64) NOT NULL,
	ended_s DOUBLE,
	ran_s DOUBLE NOT NULL,
	cpu_s DOUBLE NOT NULL,
	memory_mib DOUBLE NOT NULL,
	done DOUBLE,
	samples INTEGER NOT NULL,
	sampled_s DOUBLE NOT NULL,
	every_s DOUBLE NOT NULL,
	finished MEDIUMTEXT NOT NULL,
	stages MEDIUMTEXT NOT NULL,
	profile MEDIUMTEXT NOT NULL,
	from_runs INTEGER NOT NULL,
	CONSTRAINT pk_job_runs PRIMARY KEY (platform),
	CONSTRAINT fk_job_runs_platform FOREIGN KEY(platform) REFERENCES platforms (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_job_runs_ended_s ON job_runs (ended_s);

CREATE INDEX ix_job_runs_owner_template ON job_runs (owner, template);

CREATE TABLE job_samples (
	platform BIGINT NOT NULL,
	ran_s DOUBLE NOT NULL,
	cpu_s DOUBLE NOT NULL,
	memory_mib DOUBLE NOT NULL,
	done DOUBLE,
	CONSTRAINT pk_job_samples PRIMARY KEY (platform, ran_s),
	CONSTRAINT fk_job_samples_platform FOREIGN KEY(platform) REFERENCES platforms (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE platform_doings (
	id BIGINT NOT NULL AUTO_INCREMENT,
	platform BIGINT NOT NULL,
	at_s DOUBLE NOT NULL,
	who VARCHAR(128) NOT NULL,
	what VARCHAR(16) NOT NULL,
	text MEDIUMTEXT NOT NULL,
	action VARCHAR(64),
	refused BOOL NOT NULL,
	CONSTRAINT pk_platform_doings PRIMARY KEY (id),
	CONSTRAINT uq_platform_doings_platform UNIQUE (platform, action),
	CONSTRAINT fk_platform_doings_platform FOREIGN KEY(platform) REFERENCES platforms (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE platform_vms (
	create_key VARCHAR(64) NOT NULL,
	platform BIGINT NOT NULL,
	cluster VARCHAR(64) NOT NULL,
	number INTEGER NOT NULL,
	vm INTEGER,
	leaving BOOL NOT NULL,
	gone_s DOUBLE,
	failed_s DOUBLE,
	CONSTRAINT pk_platform_vms PRIMARY KEY (create_key),
	CONSTRAINT fk_platform_vms_platform FOREIGN KEY(platform) REFERENCES platforms (id),
	CONSTRAINT uq_platform_vms_vm UNIQUE (vm)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_platform_vms_gone_s ON platform_vms (gone_s);

CREATE INDEX ix_platform_vms_platform ON platform_vms (platform);

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO alembic_version VALUES ('0025');

INSERT INTO decision_seeds VALUES (1 + FLOOR(RAND() * 4611686018427387904));
