import { expect } from "chai";
import { UserError } from "../../runtime/common/errors.ts";
import { readConfiguration } from "../../runtime/gateway/configuration.ts";

const complete = {
  ROUTES: '[{"graphId":"assistant","url":"http://127.0.0.1:1234"}]',
  MODEL_GATEWAY_URL: "http://127.0.0.1:2345",
  ASSERTION_PRIVATE_KEY: "pem",
  DEV_TOKEN: "dev",
  DEV_TENANT: "local",
  DATABASE_URL: "postgres://gateway@127.0.0.1/platform",
  CONSOLE_EMAIL: "admin@localhost",
  CONSOLE_PASSWORD: "secret-password",
  CONSOLE_SESSION_SECRET: "0123456789abcdef0123456789abcdef",
};
const inCluster = {
  MODEL_GATEWAY_URL: "http://127.0.0.1:2345",
  ASSERTION_PRIVATE_KEY: "pem",
  DEV_TOKEN: "dev",
  DEV_TENANT: "local",
  ROUTES_FROM: "kubernetes",
  GATEWAY_NAME: "platform",
  GATEWAY_NAMESPACE: "platform",
  GATEWAY_CLASS: "platform",
  KUBERNETES_SERVICE_HOST: "10.96.0.1",
};
const jwt = { JWT_JWKS_URL: "https://i.example/jwks", JWT_ISSUER: "i", JWT_AUDIENCE: "a" };

function problemOf(changes: Record<string, string | undefined>): string {
  try {
    readConfiguration({ ...complete, ...changes });
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
  return "";
}

describe("the gateway's configuration", () => {
  it("takes the standard values where nothing is said", () => {
    const configuration = readConfiguration({ ...complete, PORT: "" });
    expect(configuration).to.deep.include({
      port: 8088,
      bindAddresses: ["0.0.0.0"],
      jwt: undefined,
    });
    expect(configuration.hosts.agents).to.equal("agents.localhost");
  });

  it("takes origins of pages as browsers write them, and nothing else", () => {
    const origins = "https://studio.example, http://localhost:3000";
    expect(readConfiguration(complete).corsOrigins).to.deep.equal([]);
    expect(readConfiguration({ ...complete, CORS_ORIGINS: origins }).corsOrigins).to.deep.equal([
      "https://studio.example",
      "http://localhost:3000",
    ]);
    for (const wrong of ["*", "null", "https://studio.example/", "studio.example", "https://a,"]) {
      expect(problemOf({ CORS_ORIGINS: wrong }), wrong).to.contain("CORS_ORIGINS");
    }
  });

  it("takes several addresses, own host names and an issuer", () => {
    const configuration = readConfiguration({
      ...complete,
      ...jwt,
      BIND_ADDRESSES: "127.0.0.1, ::1",
      AGENTS_HOST: "Agents.Example.com",
    });
    expect(configuration.bindAddresses).to.deep.equal(["127.0.0.1", "::1"]);
    expect(configuration.hosts.agents).to.equal("agents.example.com");
    expect(configuration.jwt).to.deep.equal({
      keys: { url: jwt.JWT_JWKS_URL },
      issuer: "i",
      audience: "a",
    });
  });

  it("takes its routes from a cluster, as a pod is told how to reach it", () => {
    const { routes, ...rest } = readConfiguration({
      ...inCluster,
      KUBERNETES_SERVICE_HOST: "fd00::1",
    });
    expect(routes).to.deep.equal({
      from: "kubernetes",
      gateway: { name: "platform", namespace: "platform" },
      gatewayClass: "platform",
      access: {
        server: new URL("https://[fd00::1]:443"),
        tokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token",
        caFile: "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
      },
    });
    expect(rest.console).to.equal(undefined);
  });

  it("takes another API server, without credentials if none are named", () => {
    const { routes } = readConfiguration({
      ...inCluster,
      KUBERNETES_API_URL: "http://127.0.0.1:8001",
    });
    expect(routes).to.deep.include({
      access: {
        server: new URL("http://127.0.0.1:8001"),
        tokenFile: undefined,
        caFile: undefined,
      },
    });
  });

  it("takes the audience of its own tokens from the issuer's, unless told", () => {
    const keys = { TOKEN_SIGNING_PUBLIC_KEYS: "pem" };
    const audience = (changes: Record<string, string>) =>
      readConfiguration({ ...complete, ...keys, ...changes }).platformTokens?.audience;
    expect(audience({})).to.equal("platform");
    expect(audience(jwt)).to.equal("a");
    expect(audience({ ...jwt, TOKEN_AUDIENCE: "own" })).to.equal("own");
  });

  const wrong: [string, Record<string, string | undefined>, string][] = [
    ["a missing variable", { DATABASE_URL: undefined }, "DATABASE_URL is not set"],
    ["routes that are not JSON", { ROUTES: "[" }, "ROUTES: is not JSON"],
    ["a route without a graph id", { ROUTES: '[{"url":"http://a"}]' }, "ROUTES.0.graphId"],
    ["a route to no URL", { ROUTES: '[{"graphId":"a","url":"a"}]' }, "ROUTES.0.url"],
    [
      "a graph id that is there twice",
      { ROUTES: '[{"graphId":"a","url":"http://a"},{"graphId":"a","url":"http://b"}]' },
      "twice",
    ],
    ["a dev token without its tenant", { DEV_TENANT: undefined }, "DEV_TENANT is not set"],
    ["keys without an issuer", { ...jwt, JWT_ISSUER: undefined }, "JWT_ISSUER is not set"],
    ["an issuer without keys", { ...jwt, JWT_JWKS_URL: undefined }, "JWT_JWKS_URL is not set"],
    ["keys from two places", { ...jwt, JWT_JWKS_FILE: "/jwks" }, "JWT_JWKS_FILE"],
    ["nothing that lets a call in", { DEV_TOKEN: undefined }, "JWT_JWKS_URL is not set"],
    ["no routes at all", { ROUTES: undefined }, "ROUTES is not set"],
    [
      "routes from two places",
      { ...inCluster, ROUTES: "[]" },
      "ROUTES: can't be used together with ROUTES_FROM",
    ],
    [
      "a cluster's routes without the Gateway's name",
      { ...inCluster, ROUTES: undefined, GATEWAY_NAME: undefined },
      "GATEWAY_NAME is not set",
    ],
    [
      "a cluster's routes outside of any cluster",
      { ...inCluster, ROUTES: undefined, KUBERNETES_SERVICE_HOST: undefined },
      "KUBERNETES_API_URL is not set",
    ],
    ["half a console", { CONSOLE_EMAIL: undefined }, "CONSOLE_EMAIL is not set"],
    [
      "traces in two places",
      { TRACES_URL: "http://traces" },
      "TRACES_URL: can't be used together with the console's own traces",
    ],
    ["a short session secret", { CONSOLE_SESSION_SECRET: "short" }, "at least 32 characters"],
  ];
  for (const [name, changes, message] of wrong) {
    it(`${name} is named`, () => {
      const problem = problemOf(changes);
      expect(problem).to.contain(message);
      expect(problem).not.to.contain("secret-password");
    });
  }
});
