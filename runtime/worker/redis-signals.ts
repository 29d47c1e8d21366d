import type { Logger } from "../common/logging.ts";
import type { RedisConnection } from "./redis-connection.ts";
import {
  type News,
  readSignal,
  type SignalListener,
  SignalOutbox,
  type Signals,
} from "./signals.ts";

/** Wake-ups between replicas by publish and subscribe. */
export class RedisSignals implements Signals {
  readonly #subscriber: RedisConnection;
  readonly #channel: string;
  readonly #logger: Logger;
  readonly #outbox: SignalOutbox;
  #listener: SignalListener | undefined;
  #subscribing: Promise<void> | undefined;

  /** @param subscriber Its own, as a connection that listens may do nothing else. */
  constructor(
    publisher: RedisConnection,
    subscriber: RedisConnection,
    channel: string,
    logger: Logger,
  ) {
    this.#subscriber = subscriber;
    this.#channel = channel;
    this.#logger = logger;
    this.#outbox = new SignalOutbox(async (message) => {
      // The outage itself has been logged; whoever waits asks the database meanwhile.
      if (publisher.isReady) await publisher.client.publish(channel, message);
    }, logger);
    subscriber.onReady(() => {
      this.#subscribing = this.#subscribe();
    });
    subscriber.client.on("message", (_channel, message) => {
      const received = readSignal(message);
      if (received !== undefined) this.#listener?.received(received);
      else this.#logger.warn("signal of unknown shape ignored");
    });
  }

  /** Goes on without Redis if it is away: listening starts when it comes. */
  async start(listener: SignalListener): Promise<void> {
    this.#listener = listener;
    this.#subscriber.connect();
    if (await this.#subscriber.whenReady()) await this.#subscribing;
  }

  send(news: News): void {
    this.#outbox.add(news);
  }

  async close(): Promise<void> {
    await this.#outbox.flush();
    this.#subscriber.close();
  }

  async #subscribe(): Promise<void> {
    try {
      await this.#subscriber.client.subscribe(this.#channel);
      this.#listener?.reconnected();
    } catch (error) {
      // Lost again at this very moment, which is tried anew; or not allowed, which needs a person.
      this.#logger.error(
        { error: (error as Error).message, channel: this.#channel },
        "can't listen to other replicas",
      );
    }
  }
}
