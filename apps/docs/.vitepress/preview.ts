// Serves the built site like a host that isolates pages.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { built, serveSite } from './serve-site.ts';

if (!existsSync(join(built, 'index.html'))) {
  throw new Error(`No site is in ${built}. Run npm run docs:build first`);
}
const base = process.env['SHARDWISE_DOCS_BASE'] ?? '/';
const { url } = await serveSite({ base, port: 4173 });
console.log(`The built site is at ${url}${base}`);
