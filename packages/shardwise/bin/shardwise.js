#!/usr/bin/env node
// Committed, so that npm can link the command before the first build.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 24 || (major === 24 && minor < 9)) {
  console.error(
    `Starting shardwise: this is Node ${process.versions.node}. Install Node 24.9 or later`,
  );
  process.exit(2);
}
await import('../dist/cli/main.js');
