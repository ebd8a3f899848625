import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { init } from '../rank/init.ts';
import { measureDevice } from './measure-device.ts';
import { MEASURED_FILE } from './measured-ranks.ts';

// The script that each rank of `shardwise measure` runs. Rank 0 writes what was measured.

/** A collective that takes longer is broken. */
const TIMEOUT_MS = 60_000;

const context = await init({ timeoutMs: TIMEOUT_MS });
const rates = await measureDevice(context.group);
if (context.rank === 0) {
  await writeFile(join(context.runDirectory, MEASURED_FILE), JSON.stringify(rates));
}
await context.close();
