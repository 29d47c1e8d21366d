import { expect } from "chai";
import {
  CliBench,
  openStream,
  type StandInFrontDoor,
  sendEvent,
  sendJson,
  sendText,
  startFrontDoor,
} from "../support/cli.ts";
import { eventually } from "../support/eventually.ts";

const THREAD = "0b54c2b4-4d4a-4f5e-9a35-6d3b6a3f9a10";
const SAY_HELLO = ["run", "--graph-id", "assistant", "--input", "Say hello."];
const answer = (content: unknown) => ({
  messages: [
    { type: "human", content: "Say hello." },
    { type: "ai", content },
  ],
});

describe("agentctl run", () => {
  let bench: CliBench;
  let door: StandInFrontDoor;

  beforeEach(async () => {
    bench = await CliBench.make();
    door = await startFrontDoor();
    await bench.addEnvironment("local", "--agents-host", door.url);
  });

  afterEach(async () => {
    await door.close();
    await bench.remove();
  });

  it("calls the agent by its graph id and prints what it says", async () => {
    door.answer = (response) => sendJson(response, 200, answer("Hello."));
    expect(await bench.run(...SAY_HELLO)).to.deep.equal({
      code: 0,
      output: "Hello.\n",
      errors: "",
    });
    const [call] = door.calls;
    expect(call).to.include({ method: "POST", path: "/runs/wait" });
    expect(call?.headers).to.include({
      authorization: "Bearer local-dev-token",
      "x-graph-id": "assistant",
    });
    expect(call?.body).to.deep.equal({
      assistant_id: "assistant",
      graph_id: "assistant",
      input: { messages: [{ role: "human", content: "Say hello." }] },
      on_disconnect: "cancel",
    });
  });

  it("prints the text of an answer in blocks", async () => {
    const blocks = [
      { type: "text", text: "Hel" },
      { type: "tool_use" },
      { type: "text", text: "lo" },
    ];
    door.answer = (response) => sendJson(response, 200, answer(blocks));
    expect((await bench.run(...SAY_HELLO)).output).to.equal("Hello\n");
  });

  it("prints the state of an agent that has no messages", async () => {
    door.answer = (response) => sendJson(response, 200, { total: 3 });
    expect(JSON.parse((await bench.run(...SAY_HELLO)).output)).to.deep.equal({ total: 3 });
  });

  it("goes on with a thread", async () => {
    door.answer = (response) => sendJson(response, 200, answer("Again."));
    await bench.run(...SAY_HELLO, "--thread", THREAD);
    expect(door.calls[0]?.path).to.equal(`/threads/${THREAD}/runs/wait`);
    expect(door.calls[0]?.body).to.include({ if_not_exists: "create" });
  });

  it("prints a streamed answer piece by piece, before it is complete", async () => {
    let goOn = () => {};
    door.answer = (response) => {
      openStream(response);
      sendText(response, "Hel");
      goOn = () => {
        sendText(response, "lo");
        sendEvent(response, "values", answer("Hello"));
        response.end();
      };
    };
    const outcome = bench.run(...SAY_HELLO, "--stream");
    await eventually("the first piece is printed", () => bench.output === "Hel");
    goOn();
    expect(await outcome).to.deep.equal({ code: 0, output: "Hello\n", errors: "" });
    expect(door.calls[0]).to.include({ path: "/runs/stream" });
  });

  it("keeps the messages of a stream apart and leaves out what tools say", async () => {
    door.answer = (response) => {
      openStream(response);
      sendText(response, "Let me look.", "m1");
      sendEvent(response, "messages", [{ type: "tool", id: "t", content: "42" }, {}]);
      sendText(response, "It is 42.", "m2");
      response.end();
    };
    expect((await bench.run(...SAY_HELLO, "--stream")).output).to.equal(
      "Let me look.\nIt is 42.\n",
    );
  });

  it("prints the answer of an agent that does not stream, at its end", async () => {
    door.answer = (response) => {
      openStream(response);
      sendEvent(response, "values", answer("All at once."));
      response.end();
    };
    expect((await bench.run(...SAY_HELLO, "--stream")).output).to.equal("All at once.\n");
  });

  it("says what the platform said of a refused call", async () => {
    door.answer = (response) =>
      sendJson(response, 404, { error: "not_found", message: "No agent x.", details: null });
    const { code, output, errors } = await bench.run(...SAY_HELLO, "--stream");
    expect({ code, output }).to.deep.equal({ code: 1, output: "" });
    expect(errors).to.match(/^Error: No agent x\.\nIs the agent deployed there\?/);
  });

  it("says what went wrong in a run that failed, waited for or streamed", async () => {
    const error = { error: "Error", message: "out of budget" };
    door.answer = (response) => sendJson(response, 200, { __error__: error });
    const waited = await bench.run(...SAY_HELLO);
    expect(waited).to.include({ code: 1, output: "" });
    expect(waited.errors).to.include("The run failed: Error: out of budget");
    door.answer = (response) => {
      openStream(response);
      sendText(response, "Half an");
      sendEvent(response, "error", error);
      response.end();
    };
    const streamed = await bench.run(...SAY_HELLO, "--stream");
    expect(streamed).to.include({ code: 1, output: "Half an" });
    expect(streamed.errors).to.include("The run failed: Error: out of budget");
  });

  it("tells a run that waits for a person from one that failed", async () => {
    const state = { messages: [], __interrupt__: [{ value: "Delete all?" }] };
    door.answer = (response) => sendJson(response, 200, state);
    const { code, errors } = await bench.run(...SAY_HELLO);
    expect(code).to.equal(3);
    expect(errors).to.include("The run waits for a person: Delete all?");
  });

  it("says so when a stream breaks off", async () => {
    door.answer = (response) => {
      openStream(response);
      sendText(response, "Half an");
      response.write("", () => response.destroy());
    };
    const { code, errors } = await bench.run(...SAY_HELLO, "--stream");
    expect(code).to.equal(1);
    expect(errors).to.include(`The connection to ${door.url} broke off.`);
  });

  it("says so when a stream ends without an answer", async () => {
    door.answer = (response) => {
      openStream(response);
      response.end();
    };
    const { code, errors } = await bench.run(...SAY_HELLO, "--stream");
    expect(code).to.equal(1);
    expect(errors).to.include("The stream ended without an answer.");
  });

  it("says so when nothing answers, or something else does", async () => {
    door.answer = (response) => response.end("<html>");
    expect((await bench.run(...SAY_HELLO)).errors).to.include("is no agent front door");
    await door.close();
    const { code, errors } = await bench.run(...SAY_HELLO);
    expect(code).to.equal(1);
    expect(errors).to.include(`No platform answers at ${door.url} (ECONNREFUSED).`);
    expect(errors).to.include("./install.sh starts it");
    door = await startFrontDoor();
  });

  it("follows no redirect with a token", async () => {
    door.answer = (response) => {
      response.writeHead(302, { location: "https://elsewhere.example.com/" }).end();
    };
    const { code, errors } = await bench.run(...SAY_HELLO);
    expect(code).to.equal(1);
    expect(errors).to.include("sends calls on to https://elsewhere.example.com/");
  });

  it("ends the call at Ctrl-C with the shell's code for it", async () => {
    let isClosed = false;
    door.answer = (response) => {
      response.once("close", () => {
        isClosed = true;
      });
      openStream(response);
      sendText(response, "Hel");
    };
    const outcome = bench.run(...SAY_HELLO, "--stream");
    await eventually("the first piece is printed", () => bench.output === "Hel");
    bench.ctrlC();
    expect(await outcome).to.include({ code: 130, errors: "" });
    await eventually("the call is closed", () => isClosed);
  });

  it("reaches names under localhost, whatever the resolver knows", async () => {
    door.answer = (response) => sendJson(response, 200, answer("Hello."));
    const url = door.url.replace("127.0.0.1", "agents.localhost");
    expect((await bench.run(...SAY_HELLO, "--agents-host", url)).output).to.equal("Hello.\n");
    expect(door.calls[0]?.headers.host).to.match(/^agents\.localhost:/);
  });

  it("refuses a thread that is no UUID before it calls anyone", async () => {
    const { code, errors } = await bench.run(...SAY_HELLO, "--thread", "../../x");
    expect(code).to.equal(2);
    expect(errors).to.include("--thread must be a UUID.");
    expect(door.calls).to.deep.equal([]);
  });
});
