import { resolve } from 'node:path';
import { broadcastObject } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/extend';
import { z } from 'zod';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';
import { runDirectoryName } from '../run-state/run-directory.ts';
import { AgreedStop } from './agreed-stop.ts';
import { printedMetrics } from './printed-metrics.ts';
import type { RankSurroundings } from './rank-host.ts';

/** Returns the surroundings of a rank in a group that our launcher has not made. Rank 0 prints its metrics. */
export async function withoutLauncher(
  group: ProcessGroup,
  transport: TransportChoice,
): Promise<RankSurroundings> {
  // Rank 0 chooses the directory, because its name depends on the clock.
  const own = resolve(runDirectoryName(process.argv[1] ?? 'script', new Date()));
  const runDirectory = await shareText(group, own);
  const stop = new AgreedStop(group);
  const metrics = printedMetrics({
    runDirectory,
    rank: group.rank,
    transport,
    onStop: () => stop.request(),
  });
  return { runDirectory, resumeDirectory: undefined, stop, ...metrics };
}

/** Returns rank 0's text on every rank. */
async function shareText(group: ProcessGroup, text: string): Promise<string> {
  return z.string().parse(await broadcastObject(group, text, 0));
}
