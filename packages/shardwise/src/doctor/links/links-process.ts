import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { describeTransport } from '../../launcher/transports/transport-choice.ts';
import { init } from '../../rank/init.ts';
import { LINKS_FILE } from './links-file.ts';
import { measureLinks } from './measure-links.ts';

// The script that each rank of `shardwise doctor --nproc` runs. Rank 0 writes what was measured.

/** A link that takes longer is broken. */
const TIMEOUT_MS = 60_000;

const { version } = z
  .object({ version: z.string() })
  .parse(createRequire(import.meta.url)('shardwise/package.json'));
const context = await init({ timeoutMs: TIMEOUT_MS });
const measured = await measureLinks(context.group, {
  host: hostname(),
  node: process.version,
  shardwise: version,
  platform: `${process.platform}-${process.arch}`,
  device: context.device.description ?? context.device.name,
});
if (context.rank === 0) {
  const report = { ...measured, transport: describeTransport(context.transport) };
  await writeFile(join(context.runDirectory, LINKS_FILE), JSON.stringify(report));
}
await context.close();
