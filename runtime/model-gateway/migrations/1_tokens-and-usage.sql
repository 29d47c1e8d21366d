CREATE TABLE consumer_token (
  token_hash text PRIMARY KEY CHECK (token_hash ~ '^[0-9a-f]{64}$'),
  tenant text NOT NULL,
  agent text,
  created_at timestamptz NOT NULL DEFAULT now(),
  disabled_at timestamptz
);

COMMENT ON COLUMN consumer_token.token_hash IS 'SHA-256 of the token, hexadecimal; the token itself is nowhere stored';
COMMENT ON COLUMN consumer_token.agent IS 'graph id that the token is for; null: a token for any agent of the tenant';

CREATE TABLE usage (
  id uuid PRIMARY KEY,
  tenant text NOT NULL,
  agent text,
  provider text NOT NULL,
  model text NOT NULL,
  input_tokens integer NOT NULL,
  output_tokens integer NOT NULL,
  estimated boolean NOT NULL,
  status smallint NOT NULL,
  streamed boolean NOT NULL,
  duration_ms integer NOT NULL,
  request_id text NOT NULL,
  trace_id text,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX usage_by_tenant ON usage (tenant, created_at);

COMMENT ON COLUMN usage.estimated IS 'the provider reported nothing: counted from the bytes that were sent and streamed';
COMMENT ON COLUMN usage.status IS 'HTTP status of the answer; 499: the client left, 502 with streamed: it broke off after the first byte';
