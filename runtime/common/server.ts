import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import type { Logger } from "./logging.ts";

/** What a program needs to serve and to leave without dropping a call. */
export interface ServeOptions {
  fetch: Parameters<typeof createAdaptorServer>[0]["fetch"];
  /** Addresses to bind, e.g. `["127.0.0.1", "::1"]`. One that the machine lacks is left out. */
  hosts: string[];
  /** TCP port; 0 lets the system choose. */
  port: number;
  logger: Logger;
  /** How long calls in flight may take once a stop was asked for, in ms. */
  drainMs: number;
  /** Called first when stopping: turn readiness off, stop claiming work. */
  beforeDrain?: () => void | Promise<void>;
  /** Called last: close pools, flush spans. */
  afterDrain?: () => void | Promise<void>;
}

/** A server that listens. */
export interface Serving {
  port: number;
  stop(): Promise<void>;
}

/**
 * Listens, tells a parent process that started us with an IPC channel (`{listening: port}`), and
 * stops on SIGTERM, SIGINT or when that parent is gone.
 *
 * @throws the system's error (`EADDRINUSE`…) where the port can't be had.
 */
export async function serve(options: ServeOptions): Promise<Serving> {
  const servers: ReturnType<typeof createAdaptorServer>[] = [];
  let port = options.port;
  for (const host of options.hosts) {
    const server = createAdaptorServer({ fetch: options.fetch });
    try {
      port = await listen(server, host, port);
      servers.push(server);
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      const lacksAddress = code === "EADDRNOTAVAIL" || code === "EAFNOSUPPORT";
      if (!lacksAddress || servers.length === 0) throw error;
    }
  }

  let stopping: Promise<void> | undefined;
  const stop = () => {
    stopping ??= stopServing(servers, options);
    return stopping;
  };
  const stopAndExit = () => void stop().then(() => process.exit(0));
  process.once("SIGTERM", stopAndExit);
  process.once("SIGINT", stopAndExit);
  if (process.send) {
    process.once("disconnect", stopAndExit);
    process.send({ listening: port });
  }
  options.logger.info({ port, hosts: options.hosts }, "listening");
  return { port, stop };
}

function listen(
  server: ReturnType<typeof createAdaptorServer>,
  host: string,
  port: number,
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve((server.address() as AddressInfo).port);
    });
  });
}

async function stopServing(
  servers: ReturnType<typeof createAdaptorServer>[],
  options: ServeOptions,
): Promise<void> {
  options.logger.info("stopping");
  await options.beforeDrain?.();
  const closed = Promise.all(
    servers.map((server) => new Promise((resolve) => server.close(resolve))),
  );
  const timer = setTimeout(() => {
    for (const server of servers) if ("closeAllConnections" in server) server.closeAllConnections();
  }, options.drainMs);
  await closed;
  clearTimeout(timer);
  await options.afterDrain?.();
}
