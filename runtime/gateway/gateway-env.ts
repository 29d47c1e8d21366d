import type { HttpBindings } from "@hono/node-server";
import type { Span } from "@opentelemetry/api";
import type { Identity } from "../common/identity.ts";
import type { RequestLogFields } from "../common/logging.ts";

/** What every request of the gateway carries through Hono. */
export interface GatewayEnv {
  Bindings: HttpBindings;
  Variables: Partial<RequestLogFields> & {
    span?: Span;
    spanEndsLater?: boolean;
    /** Who calls, once `authenticate` has let the call pass. */
    identity?: Identity;
  };
}
