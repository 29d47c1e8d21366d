import { expect } from "chai";
import { parse } from "yaml";
import { GATEWAY_NODE_PORT, kindConfig } from "../../components/kind-cluster.ts";
import { nodeReference } from "../../components/node-reference.ts";

describe("the configuration of a kind cluster", () => {
  const { yaml, hash } = kindConfig({ hostPort: 8088 });
  const config = parse(yaml);

  it("leads the host port to the gateway's node port, on loopback only", () => {
    expect(config.nodes[0].extraPortMappings).to.deep.equal([
      {
        containerPort: GATEWAY_NODE_PORT,
        hostPort: 8088,
        listenAddress: "127.0.0.1",
        protocol: "TCP",
      },
    ]);
  });

  it("tells containerd of gVisor by the names of its version 2, and of no other version", () => {
    const [patch, ...more] = config.containerdConfigPatches;
    expect(more).to.deep.equal([]);
    expect(patch).to.include(
      '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc]\n  runtime_type = "io.containerd.runsc.v1"',
    );
    expect(patch).to.include('TypeUrl = "io.containerd.runsc.v1.options"');
    expect(patch).to.include('ConfigPath = "/etc/containerd/runsc.toml"');
    expect(patch).not.to.include("io.containerd.cri.v1.runtime");
  });

  it("labels the node with its hash, which fits into a label", () => {
    expect(config.nodes[0].labels).to.deep.equal({ "platform.dev/config-hash": hash });
    expect(hash).to.match(/^[0-9a-f]{40}$/);
  });

  it("has the same hash from run to run: else every update would replace the cluster", () => {
    expect(kindConfig({ hostPort: 8088 }).hash).to.equal(hash);
    expect(hash).to.equal("78e1a171324a239debe3da7cbe99649731498e62");
  });

  it("has another hash with another port", () => {
    expect(kindConfig({ hostPort: 8089 }).hash).not.to.equal(hash);
  });
});

describe("the reference of an image in a kind node", () => {
  const digest = `sha256:${"ab".repeat(32)}`;
  const cases: [string, string, string][] = [
    [
      "stays as it is by tag",
      "platform.local/gateway:2.3.1-abc",
      "platform.local/gateway:2.3.1-abc",
    ],
    [
      "gets the digest into its tag",
      `postgres:17@${digest}`,
      "platform.local/postgres:17-abababababab",
    ],
    [
      "gets a tag where it has only a digest",
      `example.com:5000/team/app@${digest}`,
      "platform.local/example.com:5000/team/app:latest-abababababab",
    ],
  ];
  for (const [what, image, expected] of cases) {
    it(what, () => {
      expect(nodeReference(image)).to.equal(expected);
    });
  }
});
