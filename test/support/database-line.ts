import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** A line to a database that can go dead: connections stand, new ones are taken, nothing comes. */
export class DatabaseLine {
  readonly #server: Server;
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  #isDead = false;

  private constructor(target: URL) {
    this.#target = target;
    this.#server = createServer((client) => this.#join(client));
  }

  /** @param url Of the database as the program under test would reach it. */
  static async to(url: string): Promise<DatabaseLine> {
    const line = new DatabaseLine(new URL(url));
    line.#server.listen(0, "127.0.0.1");
    await once(line.#server, "listening");
    return line;
  }

  /** The same database over this line. */
  get url(): string {
    const url = new URL(this.#target);
    url.host = `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return url.href;
  }

  /** Nothing goes either way any more, and nobody is told. */
  goDead(): void {
    this.#isDead = true;
    for (const socket of this.#sockets) socket.pause();
  }

  /** New connections work again; those of before are broken, as after a failover. */
  recover(): void {
    this.#isDead = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #join(client: Socket): void {
    this.#keep(client);
    if (this.#isDead) {
      client.pause();
      return;
    }
    const server = connect(Number(this.#target.port), this.#target.hostname);
    this.#keep(server);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.on("data", (chunk) => to.write(chunk));
      from.on("close", () => to.destroy());
    }
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {}); // The other side may be killed at any moment.
    socket.once("close", () => this.#sockets.delete(socket));
  }
}
