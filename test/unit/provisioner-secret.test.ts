import { expect } from "chai";
import type { AgentRequest } from "../../runtime/provisioner/agent-request.ts";
import { generateCredentials } from "../../runtime/provisioner/credentials.ts";
import {
  checksumOf,
  credentialsIn,
  isMarked,
  isOurs,
  secret,
  secretData,
  secretManifest,
} from "../../runtime/provisioner/credentials-secret.ts";

const agent: AgentRequest = {
  namespace: "default",
  release: "assistant",
  name: "agent_default_assistant",
  uid: "uid-1",
  graphId: "assistant",
  tenant: "acme",
  redisPrefix: "aegra:assistant",
  rotation: undefined,
  graceMs: 30_000,
};
const credentials = generateCredentials();
const data = secretData(agent, "agent_default_assistant_1", credentials, {
  databaseUrl: new URL("postgres://db:5432/platform?sslmode=require"),
  redisUrl: new URL("redis://cache:6379"),
  otlpEndpoint: undefined,
  variables: { OPENAI_BASE_URL: "http://model-gateway/v1" },
});

function readBack(manifest: object) {
  const found = { ...manifest };
  return secret.parse({
    ...found,
    metadata: { resourceVersion: "1", ...("metadata" in found && Object(found.metadata)) },
  });
}

describe("the Secret of an agent", () => {
  it("says how to reach everything, each with the agent's own credentials", () => {
    expect(data).to.deep.equal({
      OPENAI_BASE_URL: "http://model-gateway/v1",
      DATABASE_URL: `postgres://agent_default_assistant_1:${credentials.databasePassword}@db:5432/platform?sslmode=require`,
      DATABASE_SCHEMA: "agent_default_assistant",
      REDIS_URL: `redis://agent_default_assistant:${credentials.redisPassword}@cache:6379`,
      REDIS_PREFIX: "aegra:assistant",
      OPENAI_API_KEY: credentials.consumerToken,
    });
  });

  it("is read back as it was written", () => {
    const found = readBack(secretManifest(agent, data, undefined));
    expect(credentialsIn(found)).to.deep.equal(credentials);
    expect(checksumOf(found.data)).to.equal(checksumOf(data));
    expect(isOurs(found, agent)).to.equal(true);
    expect(isMarked(found, agent)).to.equal(true);
  });

  it("counts as changed where a credential is missing or has lost its shape", () => {
    const found = readBack(secretManifest(agent, data, undefined));
    for (const name of ["DATABASE_URL", "REDIS_URL", "OPENAI_API_KEY"]) {
      const { [name]: _, ...rest } = found.data;
      expect(credentialsIn({ ...found, data: rest })).to.equal(undefined);
    }
    expect(credentialsIn({ ...found, data: { ...found.data, REDIS_URL: "?" } })).to.equal(
      undefined,
    );
  });

  it("keeps what others noted on it, and belongs to the Deployment that is there now", () => {
    const before = readBack(secretManifest({ ...agent, uid: "uid-0" }, data, undefined));
    before.metadata.labels.team = "blue";
    before.metadata.annotations.note = "theirs";
    expect(isMarked(before, agent)).to.equal(false);
    const after = readBack(secretManifest(agent, data, before));
    expect(after.metadata.labels).to.include({
      team: "blue",
      "platform.dev/graph-id": "assistant",
    });
    expect(after.metadata.annotations).to.deep.equal({ note: "theirs" });
    expect(after.metadata.ownerReferences.map(({ uid }) => uid)).to.deep.equal(["uid-1"]);
  });

  it("is somebody else's where neither label nor owner is ours", () => {
    const foreign = secret.parse({ metadata: { resourceVersion: "1" }, data: {} });
    expect(isOurs(foreign, agent)).to.equal(false);
  });

  it("has a checksum that does not depend on the order of its entries", () => {
    expect(checksumOf({ a: "1", b: "2" })).to.equal(checksumOf({ b: "2", a: "1" }));
    expect(checksumOf({ a: "1" })).not.to.equal(checksumOf({ a: "2" }));
  });
});
