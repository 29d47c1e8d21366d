import { expect } from "chai";
import { type Console, ORIGIN, openConsole, SIGN_IN } from "../support/console.ts";

const HOUR_MS = 3_600_000;

describe("the console's door", () => {
  let browser: Console;
  let clock: number;

  beforeEach(async () => {
    clock = Date.now();
    browser = await openConsole(undefined, () => clock);
  });

  describe("the welcome page", () => {
    it("shows strangers how to call, but no agent and no token", async () => {
      const answer = await browser.get("/");
      const text = await answer.text();
      expect(answer.status).to.equal(200);
      expect(text).to.contain(`curl -sS ${ORIGIN}/runs/wait`).and.contain("&lt;token&gt;");
      expect(text).not.to.contain("assistant</li>").and.not.to.contain("test-dev-token");
    });

    it("shows those who signed in what runs and a call that works when pasted", async () => {
      const text = await browser.page("/");
      expect(text).to.contain("assistant</li>").and.contain("Bearer test-dev-token");
    });

    it("names the doors' own hosts on its own host", async () => {
      const answer = await browser.get("http://console.localhost:8088/");
      expect(await answer.text()).to.contain("http://agents.localhost:8088/runs/wait");
      const traces = await browser.get("http://traces.localhost/");
      expect(traces.headers.get("location")).to.equal("/traces");
    });
  });

  describe("signing in", () => {
    it("is asked for before any trace, and leads back to where one wanted to go", async () => {
      const path = `/traces/${"a".repeat(32)}?x=1`;
      const sent = await browser.get(path);
      expect(sent.status).to.equal(303);
      const place = String(sent.headers.get("location"));
      expect(place).to.equal(`/sign-in?next=${encodeURIComponent(path)}`);
      expect((await browser.get("/traces/")).status).to.equal(303);
      const answer = await browser.post("/sign-in", { ...SIGN_IN, next: path });
      expect(answer.status).to.equal(303);
      expect(answer.headers.get("location")).to.equal(path);
    });

    it("gives a signed, HttpOnly, SameSite=Lax cookie for 12 hours", async () => {
      const answer = await browser.post("/sign-in", SIGN_IN);
      const cookie = String(answer.headers.get("set-cookie"));
      expect(cookie)
        .to.contain("HttpOnly")
        .and.contain("SameSite=Lax")
        .and.contain("Max-Age=43200");
      expect(cookie).not.to.contain("Secure");
      const secure = await browser.post("/sign-in", SIGN_IN, { "x-forwarded-proto": "https" });
      expect(String(secure.headers.get("set-cookie"))).to.contain("Secure");
    });

    it("with a wrong email or password is a 401, and the sixth try must wait", async () => {
      expect(
        (await browser.post("/sign-in", { ...SIGN_IN, email: "x@localhost" })).status,
      ).to.equal(401);
      for (let failure = 0; failure < 4; failure++) {
        const answer = await browser.post("/sign-in", { ...SIGN_IN, password: "wrong" });
        expect(answer.status).to.equal(401);
        expect(await answer.text()).to.contain("Email or password is wrong");
      }
      const slowed = await browser.post("/sign-in", SIGN_IN);
      expect(slowed.status).to.equal(429);
      expect(slowed.headers.get("retry-after")).to.equal("1");
      clock += 1_000;
      expect((await browser.post("/sign-in", SIGN_IN)).status).to.equal(303);
    });

    it("half a form is a 400, a huge one a 413", async () => {
      expect((await browser.post("/sign-in", { email: "a" })).status).to.equal(400);
      const huge = await browser.post("/sign-in", { ...SIGN_IN, next: "x".repeat(20_000) });
      expect(huge.status).to.equal(413);
    });

    it("ends after 12 hours, by signing out, and with another cookie", async () => {
      const session = await browser.signIn();
      expect((await browser.get("/traces", session)).status).to.equal(200);
      const forged = session.cookie.replace("=", "=9");
      expect((await browser.get("/traces", { cookie: forged })).status).to.equal(303);
      const out = await browser.post("/sign-out", {}, session);
      expect(String(out.headers.get("set-cookie"))).to.contain("Max-Age=0");
      clock += 12 * HOUR_MS;
      expect((await browser.get("/traces", session)).status).to.equal(303);
    });

    it("from another site's form is a 403", async () => {
      for (const headers of [{ origin: "https://evil.example" }, { origin: "null" }]) {
        expect((await browser.post("/sign-in", SIGN_IN, headers)).status).to.equal(403);
        expect((await browser.post("/sign-out", {}, headers)).status).to.equal(403);
      }
    });
  });

  it("every page forbids scripts and frames, and is kept by no cache", async () => {
    const session = await browser.signIn();
    for (const path of ["/", "/sign-in", "/traces", "/traces/no", "/assets/nothing"]) {
      const { headers } = await browser.get(path, session);
      const policy = String(headers.get("content-security-policy"));
      expect(policy, path).to.contain("default-src 'none'").and.contain("frame-ancestors 'none'");
      expect(policy).not.to.contain("unsafe").and.not.to.contain("script-src");
      expect(headers.get("cache-control")).to.equal("no-store");
      expect(headers.get("x-request-id")).to.be.a("string");
    }
  });
});
