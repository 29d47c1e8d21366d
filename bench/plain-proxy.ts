import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

/*
 * The peer of our gateway: the least a reverse proxy in Node can be. Pipes both ways, checks
 * nothing. Usage: plain-proxy.ts <upstream origin>
 */

const upstream = new URL(process.argv[2] ?? "");
const agent = new Agent({ keepAlive: true });

const server = createServer((incoming, outgoing) => {
  const proxied = request(
    {
      agent,
      host: upstream.hostname,
      port: upstream.port,
      method: incoming.method,
      path: incoming.url,
      headers: incoming.headers,
    },
    (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    },
  );
  proxied.on("error", () => outgoing.destroy());
  incoming.pipe(proxied);
});

server.listen(0, "127.0.0.1", () => {
  process.send?.({ listening: (server.address() as AddressInfo).port });
});
process.on("disconnect", () => process.exit(0));
