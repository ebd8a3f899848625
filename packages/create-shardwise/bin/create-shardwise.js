#!/usr/bin/env node
import { existsSync } from 'node:fs';

// Committed, so that npm can link the command before the first build.
const main = new URL('../dist/main.js', import.meta.url);
if (!existsSync(main)) {
  console.error('Starting create-shardwise: its sources are not built. Run `npm run build` first');
  process.exit(2);
}
await import(main.href);
