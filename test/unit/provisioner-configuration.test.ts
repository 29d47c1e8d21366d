import { expect } from "chai";
import { UserError } from "../../runtime/common/errors.ts";
import { readConfiguration } from "../../runtime/provisioner/configuration.ts";

const complete = {
  KUBERNETES_SERVICE_HOST: "10.96.0.1",
  AGENT_NAMESPACES: "default, team-b",
  DATABASE_ADMIN_URL: "postgres://admin:hidden@db.internal:6432/platform?sslmode=require",
  REDIS_ADMIN_URL: "rediss://admin:hidden@cache.internal:6380",
  ASSERTION_PUBLIC_KEY: "pem",
  OPENAI_BASE_URL: "http://model-gateway:8000/v1",
};

function problemOf(changes: Record<string, string | undefined>): string {
  try {
    readConfiguration({ ...complete, ...changes });
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
  return "";
}

describe("the provisioner's configuration", () => {
  it("gives agents the addresses that it uses itself, without its user", () => {
    const { surroundings, AGENT_NAMESPACES, cluster } = readConfiguration(complete);
    expect(surroundings.databaseUrl.href).to.equal(
      "postgres://db.internal:6432/platform?sslmode=require",
    );
    expect(surroundings.redisUrl.href).to.equal("rediss://cache.internal:6380");
    expect(AGENT_NAMESPACES).to.deep.equal(["default", "team-b"]);
    expect(cluster.server.href).to.equal("https://10.96.0.1/");
  });

  it("gives agents other addresses where they are said", () => {
    const { surroundings } = readConfiguration({
      ...complete,
      DATABASE_HOST: "pooler",
      DATABASE_PORT: "5432",
      DATABASE_NAME: "agents",
      REDIS_HOST: "cache",
      REDIS_PORT: "6379",
    });
    expect(surroundings.databaseUrl.href).to.equal("postgres://pooler:5432/agents?sslmode=require");
    expect(surroundings.redisUrl.href).to.equal("rediss://cache:6379");
  });

  it("hands on what is set, and nothing empty", () => {
    const { surroundings } = readConfiguration({ ...complete, MCP_URL: "http://tools:8000/mcp" });
    expect(surroundings.variables).to.deep.equal({
      ASSERTION_PUBLIC_KEY: "pem",
      MCP_URL: "http://tools:8000/mcp",
      OPENAI_BASE_URL: "http://model-gateway:8000/v1",
    });
  });

  it("names everything that is missing", () => {
    const problem = problemOf(Object.fromEntries(Object.keys(complete).map((name) => [name, ""])));
    for (const name of Object.keys(complete).slice(1)) {
      expect(problem).to.include(`${name} is not set`);
    }
  });

  it("names what is wrong, never its value", () => {
    expect(problemOf({ DATABASE_ADMIN_URL: "mysql://x:hidden@y" })).to.match(
      /DATABASE_ADMIN_URL: must be a postgres:\/\/ URL/,
    );
    expect(problemOf({ DATABASE_ADMIN_URL: "mysql://x:hidden@y" })).not.to.include("hidden");
    expect(problemOf({ AGENT_NAMESPACES: "Default" })).to.include("AGENT_NAMESPACES");
  });

  it("says how to run outside of a cluster", () => {
    expect(problemOf({ KUBERNETES_SERVICE_HOST: "" })).to.include("no Kubernetes API server");
    expect(
      problemOf({ KUBERNETES_SERVICE_HOST: "", KUBERNETES_API_URL: "http://127.0.0.1:8001" }),
    ).to.equal("");
  });
});
