-- Up Migration

-- Who acts: whoever holds a lock on this table. An advisory lock would not do, since any role that
-- may connect, so every agent, can take any of those.
CREATE TABLE leader ();

-- An agent is one Deployment by namespace and name. The row outlives the Deployment, as its data do.
CREATE TABLE agent (
  namespace       text        NOT NULL,
  release         text        NOT NULL,
  name            text        NOT NULL UNIQUE,
  graph_id        text        NOT NULL,
  tenant          text        NOT NULL,
  redis_prefix    text        NOT NULL,
  deployment_uid  text        NOT NULL,
  grace_ms        integer     NOT NULL,
  generation      integer     NOT NULL DEFAULT 0,
  rollout         text,
  created_at      timestamptz NOT NULL DEFAULT now(),
  removed_at      timestamptz,
  PRIMARY KEY (namespace, release)
);

-- A graph id and a prefix are held until their agent's credentials are all revoked.
CREATE UNIQUE INDEX agent_of_graph ON agent (graph_id) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX agent_of_prefix ON agent (redis_prefix) WHERE removed_at IS NULL;

COMMENT ON COLUMN agent.name IS 'its database role, schema and Redis user';
COMMENT ON COLUMN agent.grace_ms IS 'how long its pods may go on after they were asked to end';
COMMENT ON COLUMN agent.generation IS 'number of the credentials issued last';
COMMENT ON COLUMN agent.rollout IS 'annotation value that the pod template has to carry and its pods to be made of; null: nothing to roll';

-- One generation of an agent's credentials: hashes only. Gone once it is revoked.
CREATE TABLE credential (
  namespace         text        NOT NULL,
  release           text        NOT NULL,
  generation        integer     NOT NULL,
  login             text        NOT NULL UNIQUE,
  database_verifier text        NOT NULL,
  database_hash     text        NOT NULL,
  redis_hash        text        NOT NULL,
  token_hash        text        NOT NULL UNIQUE,
  deployment_uid    text        NOT NULL,
  rotation          text,
  published_at      timestamptz,
  revoke_at         timestamptz,
  created_at        timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (namespace, release, generation),
  FOREIGN KEY (namespace, release) REFERENCES agent
);

COMMENT ON COLUMN credential.rotation IS 'value of the rotation annotation that these were issued for';
COMMENT ON COLUMN credential.published_at IS 'when they stood in the Secret; null: no pod can know them';

-- Who used a prefix of the cache last, so that the next one does not find its keys.
CREATE TABLE redis_prefix (
  prefix    text PRIMARY KEY,
  namespace text NOT NULL,
  release   text NOT NULL
);
