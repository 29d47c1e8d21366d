import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { reachFrom, signInFrom } from "../support/agent-pod.ts";
import {
  CANARY,
  disposeInstallation,
  type Installation,
  NODE,
  theInstallation,
} from "../support/installation.ts";

after(disposeInstallation);

const PLATFORM = "platform.svc";
/** The one object that may hold a provider's key. */
const KEY_HOLDER = "platform-model-gateway-environment";

describe("an agent's pod", () => {
  let installation: Installation;
  before(async () => {
    installation = await theInstallation();
  });

  const inPod = (...command: string[]) =>
    installation.kubectl("exec", "deployment/assistant", "--", ...command);

  it("runs on gVisor's kernel", async () => {
    expect(await inPod("dmesg")).to.include("Starting gVisor");
  });

  it("has no token of a service account", async () => {
    const mounts = await inPod("cat", "/proc/mounts");

    expect(mounts).not.to.include("serviceaccount");
  });

  it("reaches its database, its cache and the model gateway", async () => {
    const targets = [
      `platform-postgres.${PLATFORM}:5432`,
      `platform-valkey.${PLATFORM}:6379`,
      `platform-model-gateway.${PLATFORM}:8000`,
    ];

    const reached = await reachFrom(installation, "assistant", targets);

    expect(reached).to.deep.equal(Object.fromEntries(targets.map((name) => [name, "connected"])));
  });

  it("reaches nothing else: internet, API server, metadata, kubelet, tracing, the other programs", async () => {
    const node = await installation.kubectl(
      ...[
        "get",
        "node",
        NODE,
        "-o",
        "jsonpath={.status.addresses[?(@.type=='InternalIP')].address}",
      ],
    );
    const targets = [
      "1.1.1.1:443",
      "10.96.0.1:443",
      `${node}:6443`,
      `${node}:10250`,
      `${node}:30088`,
      "169.254.169.254:80",
      `platform-phoenix.${PLATFORM}:6006`,
      `platform-gateway.${PLATFORM}:8080`,
      `platform-provisioner.${PLATFORM}:8000`,
    ];

    const reached = await reachFrom(installation, "assistant", targets);

    expect(Object.keys(reached)).to.have.members(targets);
    expect(Object.values(reached)).not.to.include("connected");
    // A name that does not resolve would prove nothing.
    expect(Object.values(reached)).not.to.include("ENOTFOUND");
  });

  it("signs in to PostgreSQL as itself and as nobody else", async () => {
    const others = ["itself in postgres", "itself in template1"];
    const roles = ["itself", "postgres", "provisioner", "model_gateway", ...others];

    const outcomes = await signInFrom(installation, "assistant", roles);

    expect(outcomes).to.deep.equal({
      itself: "signed in",
      postgres: "28P01",
      provisioner: "28P01",
      model_gateway: "28P01",
      // What it made there would keep its role from being dropped.
      "itself in postgres": "42501",
      "itself in template1": "42501",
    });
  });
});

describe("a provider's key", () => {
  let installation: Installation;
  before(async () => {
    installation = await theInstallation();
  });

  it("is in the model gateway's Secret and in no other object of the cluster", async () => {
    const kinds = await installation.kubectl("api-resources", "--verbs=list", "-o", "name");
    const listable = kinds.trim().split("\n").join(",");
    const names = await installation.kubectl(
      ...["get", listable, "--all-namespaces", "--ignore-not-found", "-o", "json"],
    );
    const holders = (JSON.parse(names).items as { kind: string; metadata: { name: string } }[])
      .filter((item) =>
        [CANARY, base64(CANARY)].some((form) => JSON.stringify(item).includes(form)),
      )
      .map(({ kind, metadata }) => `${kind} ${metadata.name}`);

    expect(holders).to.deep.equal([`Secret ${KEY_HOLDER}`]);
  });

  it("is in no environment of an agent and in no log", async () => {
    const environment = await installation.kubectl("exec", "deployment/assistant", "--", "env");
    const names = await installation.kubectl(
      ...["get", "pods", "--all-namespaces"],
      ...["-o", 'jsonpath={range .items[*]}{.metadata.namespace}{" "}{.metadata.name}{"\\n"}{end}'],
    );
    let logs = "";
    for (const line of names.trim().split("\n")) {
      const [namespace = "", pod = ""] = line.split(" ");
      logs += await installation.kubectl("logs", "--namespace", namespace, pod, "--all-containers");
    }

    expect(environment).to.include("OPENAI_API_KEY=").and.not.include(CANARY);
    expect(logs).to.have.length.greaterThan(1_000);
    expect(logs).not.to.include(CANARY);
  });

  it("is not in clear in anything that the installer keeps", async () => {
    const kept = join(installation.directory, ".platform");
    const entries = await readdir(kept, { recursive: true, withFileTypes: true });
    const files = entries.filter(
      (entry) => entry.isFile() && !entry.parentPath.includes("artifacts"),
    );
    const holders: string[] = [];
    for (const { parentPath, name } of files) {
      const text = await readFile(join(parentPath, name), "latin1");
      if (text.includes(CANARY) || text.includes(base64(CANARY))) holders.push(name);
    }

    const stackFile = await readFile(join(installation.directory, "Pulumi.local.yaml"), "utf8");

    expect(files.map(({ name }) => name)).to.include("local.json");
    expect(stackFile).to.include("platform:providers").and.not.include(CANARY);
    expect(holders).to.deep.equal([]);
  });
});

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
