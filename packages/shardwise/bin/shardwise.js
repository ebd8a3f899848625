#!/usr/bin/env node
import { existsSync } from 'node:fs';

// Ranks that are threads share Node's pool, in which they compute while they communicate; 4 threads are
// too few. Its size is read when it is used first, by the import below at the earliest.
process.env.UV_THREADPOOL_SIZE ??= '128';

// Committed, so that npm can link the command before the first build.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 24 || (major === 24 && minor < 9)) {
  console.error(
    `Starting shardwise: this is Node ${process.versions.node}. Install Node 24.9 or later`,
  );
  process.exit(2);
}
const main = new URL('../dist/bundle/main.js', import.meta.url);
if (!existsSync(main)) {
  console.error('Starting shardwise: its sources are not built. Run `npm run build` first');
  process.exit(2);
}
// What has been compiled once is not compiled again by the next command, nor by ranks that are threads.
const { enableCompileCache } = await import('node:module');
enableCompileCache();
await import(main.href);
