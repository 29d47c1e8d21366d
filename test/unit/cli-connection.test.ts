import { expect } from "chai";
import { connectionOf, isLoopback } from "../../cli/connection.ts";
import type { Environment } from "../../cli/environments.ts";

const KIND: Environment = { kubeContext: "kind-platform", namespace: "default" };
const PROD: Environment = {
  kubeContext: "prod",
  namespace: "agents",
  agentsHost: "https://agents.example.com",
  token: "prod-token",
};
const NOTHING = { environment: undefined, agentsHost: undefined, token: undefined };

function connect(environment: Environment | undefined, wishes: Partial<typeof WISHES> = {}) {
  const all = new Map(environment === undefined ? [] : [["it", environment]]);
  const current = environment === undefined ? undefined : "it";
  const { agentsHost, token } = connectionOf({ ...NOTHING, ...wishes }, { current, all });
  return { host: agentsHost.origin, token };
}
const WISHES: Parameters<typeof connectionOf>[0] = NOTHING;

describe("where agentctl sends a call, and with which token", () => {
  it("is the local door with the development token for a kind cluster", () => {
    expect(connect(KIND)).to.deep.equal({
      host: "http://localhost:8088",
      token: "local-dev-token",
    });
  });

  it("is the environment's own door with its own token", () => {
    expect(connect(PROD)).to.deep.equal({
      host: "https://agents.example.com",
      token: "prod-token",
    });
  });

  it("is AGENTCTL_TOKEN before any other", () => {
    expect(connect(PROD, { token: "mine" }).token).to.equal("mine");
    expect(connect(KIND, { token: "mine" }).token).to.equal("mine");
  });

  it("is never an environment's token for another door", () => {
    expect(() => connect(PROD, { agentsHost: "https://evil.example.com" })).to.throw(
      "There is no token for https://evil.example.com.",
    );
    expect(() => connect(PROD, { agentsHost: "http://agents.example.com" })).to.throw("no token");
    expect(connect(PROD, { agentsHost: "http://localhost:1" }).token).to.equal("local-dev-token");
  });

  it("is never the development token beyond this machine", () => {
    const { token: _, ...open } = PROD;
    expect(() => connect(open)).to.throw("There is no token for https://agents.example.com.");
  });

  it("needs no environment where a door is named", () => {
    const agentsHost = "http://127.0.0.1:8088";
    expect(connect(undefined, { agentsHost }).host).to.equal(agentsHost);
    expect(() => connect(undefined)).to.throw("No environment is selected.");
    expect(() => connect(KIND, { environment: "other" })).to.throw(
      "There is no environment other.",
    );
  });

  it("must be told for a context that is not kind's", () => {
    expect(() => connect({ kubeContext: "prod", namespace: "x" })).to.throw(
      "The address of the agents is not known for context prod.",
    );
  });

  it("takes only real loopback names for this machine", () => {
    const local = ["localhost", "agents.localhost", "127.0.0.1", "127.8.8.8", "[::1]"];
    const remote = ["localhost.example.com", "127.0.0.1.nip.io", "notlocalhost", "10.0.0.1"];
    const check = (host: string) => isLoopback(new URL(`http://${host}:8088`));
    expect(local.filter(check)).to.deep.equal(local);
    expect(remote.filter(check)).to.deep.equal([]);
  });
});
