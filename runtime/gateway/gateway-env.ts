import type { HttpBindings } from "@hono/node-server";
import type { Span } from "@opentelemetry/api";
import type { RequestLogFields } from "../common/logging.ts";
import type { TokenIdentity } from "./authentication/token-verifier.ts";

/** What every request of the gateway carries through Hono. */
export interface GatewayEnv {
  Bindings: HttpBindings;
  Variables: Partial<RequestLogFields> & {
    span?: Span;
    spanEndsLater?: boolean;
    /** Who calls, once `authenticate` has let the call pass. */
    identity?: TokenIdentity;
    /** What the answer needs so that a page of another origin may read it; by lower-case name. */
    crossOriginHeaders?: Record<string, string>;
  };
}
