import { expect } from "chai";
import { z } from "zod";
import { createBackoff } from "../../runtime/common/kubernetes/backoff.ts";
import {
  createKubernetesClient,
  type KubernetesClient,
} from "../../runtime/common/kubernetes/client.ts";
import { readLines } from "../../runtime/common/kubernetes/lines.ts";
import { watchCollection } from "../../runtime/common/kubernetes/watched-collection.ts";
import { collect } from "../support/collect.ts";
import { eventually } from "../support/eventually.ts";
import { failureOf } from "../support/failure.ts";
import { recordingLogger } from "../support/gateway.ts";
import { KubernetesApi } from "../support/kubernetes-api.ts";

const SERVICES = "/api/v1/services";
const schema = z.object({ metadata: z.object({ name: z.string(), namespace: z.string() }) });
const { logger } = recordingLogger();

describe("a watched collection", () => {
  let api: KubernetesApi;
  let client: KubernetesClient;

  beforeEach(async () => {
    api = new KubernetesApi();
    const server = await api.start();
    client = await createKubernetesClient({ server, tokenFile: undefined, caFile: undefined });
  });
  afterEach(async () => {
    await client.close();
    await api.stop();
  });

  const add = (name: string) =>
    api.store.apply("/api/v1/namespaces/a/services", { metadata: { name } });
  const watch = () =>
    watchCollection({
      client,
      path: SERVICES,
      schema,
      logger,
      onChange: () => {},
      backoff: createBackoff(1, 5),
    });

  it("of many objects is read page by page", async () => {
    const names = ["one", "two", "three"];
    for (const name of names) add(name);
    const all = api.store.list(api.store.pathOf(SERVICES));
    api.intercept = ({ query }, outgoing) => {
      if (query.get("watch") === "true") return false;
      const at = Number(query.get("continue") ?? 0);
      const next = at + 1 < all.items.length ? String(at + 1) : "";
      const metadata = { ...all.metadata, continue: next };
      outgoing.end(JSON.stringify({ metadata, items: [all.items[at]] }));
      return true;
    };
    const services = watch();
    await eventually("all are known", () => services.state === "current");
    expect([...services.objects.keys()]).to.deep.equal(names.map((name) => `a/${name}`));
    services.stop();
  });

  it("goes on from where a watch has ended in order, without a new list", async () => {
    const services = watch();
    await eventually("it watches", () => api.watchers() === 1);
    add("one");
    await eventually("it is known", () => services.objects.has("a/one"));
    const lists = api.requests.filter(({ query }) => !query.has("watch")).length;
    api.endWatches();
    add("two");
    await eventually("it is known", () => services.objects.has("a/two"));
    expect(api.requests.filter(({ query }) => !query.has("watch"))).to.have.length(lists);
    expect(services.state).to.equal("current");
    services.stop();
  });

  it("is not asked for in a tight loop by a server that ends every watch at once", async () => {
    const pauses: number[] = [];
    const backoff = createBackoff(1, 4, () => 1);
    api.intercept = ({ query }, outgoing) => {
      if (query.get("watch") !== "true") return false;
      outgoing.end();
      return true;
    };
    const services = watchCollection({
      client,
      path: SERVICES,
      schema,
      logger,
      onChange: () => {},
      backoff: {
        next: () => {
          const ms = backoff.next();
          pauses.push(ms);
          return ms;
        },
        reset: () => backoff.reset(),
      },
    });
    await eventually("it has waited", () => pauses.length >= 4);
    expect(pauses.slice(0, 4)).to.deep.equal([1, 2, 4, 4]);
    services.stop();
  });

  it("says what the server refused", async () => {
    const error = await failureOf(
      client.get("/api/v1/namespaces/a/services/no", {}, AbortSignal.timeout(5_000)),
    );
    expect(error).to.include({ name: "KubernetesError", status: 404, reason: "NotFound" });
  });

  it("needs the server's certificate to be readable", async () => {
    const server = new URL("https://127.0.0.1:1");
    const error = await failureOf(
      createKubernetesClient({ server, tokenFile: undefined, caFile: "/nowhere/ca.crt" }),
    );
    expect(error.name).to.equal("UserError");
    expect(error.hint).to.contain("KUBERNETES_CA_FILE");
  });
});

describe("the lines of a watch", () => {
  it("are whole, however the bytes come", async () => {
    const bytes = new TextEncoder().encode('{"a":"ä€"}\n{"b":1}\n{"half');
    async function* oneByOne() {
      for (const byte of bytes) yield Uint8Array.of(byte);
    }
    expect(await collect(readLines(oneByOne()))).to.deep.equal(['{"a":"ä€"}', '{"b":1}']);
  });
});
