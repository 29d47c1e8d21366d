-- Whoever enters the agents' tokens from outside (the provisioner) is a member of this role, which is
-- made with the database. The embedded way has none: there, nobody but the model gateway is here.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'token_issuer') THEN
    GRANT SELECT, INSERT, UPDATE ON consumer_token TO token_issuer;
  END IF;
END
$$;
