import { createHash, timingSafeEqual } from "node:crypto";
import type { Context } from "hono";
import { deleteCookie, getSignedCookie, setSignedCookie } from "hono/cookie";
import { isHttps } from "../https.ts";

/** The one account of the console. */
export interface ConsoleCredentials {
  email: string;
  password: string;
  /** What sessions are signed with, the same on every replica. */
  sessionSecret: string;
}

export interface Sessions {
  /** Compares in constant time; the email's case and outer spaces do not matter. */
  accepts(email: string, password: string): boolean;
  open(c: Context): Promise<void>;
  isOpen(c: Context): Promise<boolean>;
  close(c: Context): void;
}

const COOKIE = "platform_session";
const LIFETIME_MS = 12 * 3_600_000;

/**
 * Sessions without a store: a signed cookie that says until when it is good. The password is part
 * of the signing key, so that a new password ends all sessions.
 *
 * @param now The clock, in ms.
 */
export function createSessions(credentials: ConsoleCredentials, now: () => number): Sessions {
  const { email, password, sessionSecret } = credentials;
  const key = digest(`${sessionSecret}\0${password}`).toString("hex");
  const expected = digest(`${normalise(email)}\0${password}`);
  return {
    accepts: (givenEmail, givenPassword) =>
      timingSafeEqual(digest(`${normalise(givenEmail)}\0${givenPassword}`), expected),
    open: (c) =>
      setSignedCookie(c, COOKIE, String(now() + LIFETIME_MS), key, {
        httpOnly: true,
        sameSite: "Lax",
        secure: isHttps(c),
        path: "/",
        maxAge: LIFETIME_MS / 1000,
      }),
    async isOpen(c) {
      const until = await getSignedCookie(c, key, COOKIE);
      return typeof until === "string" && Number(until) > now();
    },
    close: (c) => {
      deleteCookie(c, COOKIE, { path: "/" });
    },
  };
}

function normalise(email: string): string {
  return email.trim().toLowerCase();
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
