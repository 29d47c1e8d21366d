import { type Context, Hono } from "hono";
import { z } from "zod";
import type { GatewayEnv } from "../gateway-env.ts";
import { signInPage } from "./pages/sign-in.ts";
import type { Sessions } from "./session.ts";
import { createSignInLimit } from "./sign-in-limit.ts";

export interface SignInDeps {
  sessions: Sessions;
  /** The clock, in ms. */
  now: () => number;
}

const signInForm = z.object({
  email: z.string().max(320),
  password: z.string().max(1_024),
  next: z.string().max(1_000).catch("/traces"),
});

/** Sign-in and sign-out. */
export function signInRoutes({ sessions, now }: SignInDeps): Hono<GatewayEnv> {
  const limit = createSignInLimit(now);
  const app = new Hono<GatewayEnv>();
  app.get("/sign-in", async (c) => {
    const next = localPath(c.req.query("next"));
    if (await sessions.isOpen(c)) return c.redirect(next, 303);
    return c.html(signInPage({ next, email: "" }));
  });
  app.post("/sign-in", async (c) => {
    const form = signInForm.safeParse(await c.req.parseBody());
    if (!form.success) {
      const problem = "Give both email and password.";
      return c.html(signInPage({ next: localPath(undefined), email: "", problem }), 400);
    }
    const { email, password } = form.data;
    const next = localPath(form.data.next);
    const address = addressOf(c);
    const waitS = Math.ceil(limit.waitMs(address) / 1000);
    if (waitS > 0) {
      const problem = `Too many tries. Wait ${waitS} s and try again.`;
      return c.html(signInPage({ next, email, problem }), 429, { "retry-after": String(waitS) });
    }
    if (!sessions.accepts(email, password)) {
      limit.failed(address);
      const problem = "Email or password is wrong.";
      return c.html(signInPage({ next, email, problem }), 401);
    }
    limit.succeeded(address);
    await sessions.open(c);
    return c.redirect(next, 303);
  });
  app.post("/sign-out", (c) => {
    sessions.close(c);
    return c.redirect("/", 303);
  });
  return app;
}

/** The path to go to after a sign-in, never another site's: an address in `next` is a stranger's. */
export function localPath(next: string | undefined): string {
  const home = "http://console.invalid";
  if (next === undefined || !URL.canParse(next, home)) return "/traces";
  const { origin, pathname, search } = new URL(next, home);
  return origin === home && /^\/traces(?:\/|$)/.test(pathname) ? pathname + search : "/traces";
}

/** Whose tries are counted together. An app that is asked in-process has no connection. */
function addressOf(c: Context<GatewayEnv>): string {
  return c.env?.incoming?.socket.remoteAddress ?? "unknown";
}
