import OpenAI from "openai";
import { CONSUMER_TOKEN, startModelGateway, type TestModelGateway } from "./model-gateway.ts";
import { chunk, frame, type StandInProvider, startProvider } from "./provider.ts";

export const MODEL = "openai/gpt-4o-mini";
export const PROVIDER_KEY = "sk-provider-key-0123456789";
export const MESSAGES = [{ role: "user" as const, content: "Hello" }];
/** The beginning of a streamed answer: twelve bytes of text. */
export const WORDS = [
  frame(chunk({ role: "assistant", content: "Twelve " })),
  frame(chunk({ content: "bytes" })),
];

/** A model gateway before a stand-in provider, and a client that tries once. */
export interface ModelStage {
  readonly provider: StandInProvider;
  readonly gateway: TestModelGateway;
  readonly client: OpenAI;
  /** Starts the gateway; to be called once a test. */
  start(options?: Parameters<typeof startModelGateway>[1]): Promise<void>;
  ask(): Promise<OpenAI.ChatCompletion>;
  askForStream(): Promise<
    AsyncIterable<OpenAI.ChatCompletionChunk> & { controller: AbortController }
  >;
  /** Posts to the gateway, without the SDK. */
  post(path: string, body: object, headers?: Record<string, string>): Promise<Response>;
}

/** Sets the stage anew for each test of the suite that calls this. */
export function setModelStage(): ModelStage {
  let provider: StandInProvider;
  let gateway: TestModelGateway;
  let client: OpenAI;

  beforeEach(async () => {
    provider = await startProvider();
  });

  afterEach(async () => {
    await gateway.stop();
    await provider.stop();
  });

  return {
    get provider() {
      return provider;
    },
    get gateway() {
      return gateway;
    },
    get client() {
      return client;
    },
    async start(options = {}) {
      gateway = await startModelGateway(
        { OPENAI_API_KEY: PROVIDER_KEY, OPENAI_BASE_URL: provider.url },
        options,
      );
      client = new OpenAI({ baseURL: gateway.url, apiKey: CONSUMER_TOKEN, maxRetries: 0 });
    },
    ask: () => client.chat.completions.create({ model: MODEL, messages: MESSAGES }),
    askForStream: () =>
      client.chat.completions.create({ model: MODEL, messages: MESSAGES, stream: true }),
    post: (path, body, headers = {}) =>
      fetch(`${gateway.url}/${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${CONSUMER_TOKEN}`, ...headers },
        body: JSON.stringify(body),
      }),
  };
}
