import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { urnTable } from "./urn-table.ts";

/*
 * Writes test/components/urns.txt anew, after a change of names that is meant:
 *
 *   npx node test/components/write-urns.ts
 */

writeFileSync(join(import.meta.dirname, "urns.txt"), await urnTable());
