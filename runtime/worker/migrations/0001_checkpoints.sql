-- Up Migration

-- The tables of @langchain/langgraph-checkpoint-postgres 1.0.5. Its own setup() wants to create
-- schemas, which a worker's role may not, and is not made for replicas that start together.
-- A test compares these with what setup() makes.
CREATE TABLE checkpoints (
  thread_id            text  NOT NULL,
  checkpoint_ns        text  NOT NULL DEFAULT '',
  checkpoint_id        text  NOT NULL,
  parent_checkpoint_id text,
  type                 text,
  checkpoint           jsonb NOT NULL,
  metadata             jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);

CREATE TABLE checkpoint_blobs (
  thread_id     text NOT NULL,
  checkpoint_ns text NOT NULL DEFAULT '',
  channel       text NOT NULL,
  version       text NOT NULL,
  type          text NOT NULL,
  blob          bytea,
  PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
);

CREATE TABLE checkpoint_writes (
  thread_id     text    NOT NULL,
  checkpoint_ns text    NOT NULL DEFAULT '',
  checkpoint_id text    NOT NULL,
  task_id       text    NOT NULL,
  idx           integer NOT NULL,
  channel       text    NOT NULL,
  type          text,
  blob          bytea   NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
