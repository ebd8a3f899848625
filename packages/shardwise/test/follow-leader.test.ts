import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MemoryStore } from '@shardwise/collectives/node';
import { describe, expect, it } from 'vitest';
import type { LaunchEnd } from '../src/launcher/launch.ts';
import { followLeader, type FollowedResult } from '../src/launcher/members/follow-leader.ts';
import { parseFromHost, type ToHost } from '../src/launcher/members/host-message.ts';
import { fromHostRoute, type HostLink, toHostRoute } from '../src/launcher/members/remote-host.ts';
import type { RankEnd } from '../src/launcher/ranks/rank-handle.ts';
import { BatchSender, receiveBatches } from '../src/relay/batches.ts';
import { generationOf, launchOptions, node } from './led-hosts.ts';

interface Followed {
  readonly result: FollowedResult;
  readonly link: HostLink;
}

/** Has a launcher start a rank that another one leads, and ends the generation for it. */
async function follow(end: LaunchEnd): Promise<Followed> {
  const generation = await generationOf([node(0, 1)]);
  const script = join(generation.runDirectory, 'waits.mjs');
  await writeFile(script, "console.log('waits'); setInterval(() => undefined, 1000);");
  const link = { store: new MemoryStore(), admission: 0 };
  const started = Promise.withResolvers<void>();
  const over = Promise.withResolvers<LaunchEnd>();
  const options = launchOptions(generation, {
    script,
    graceMs: 1,
    onLine: () => started.resolve(),
  });
  const following = followLeader(options, link, over.promise);
  const leader = new BatchSender(toHostRoute(link), 0);
  leader.send({ kind: 'start', rank: 0, restarts: 0 } satisfies ToHost);
  await started.promise;
  over.resolve(end);
  const result = await following;
  await leader.close();
  return { result, link };
}

/** What the launcher that leads hears of the ends of ranks. */
async function endsOf(link: HostLink): Promise<readonly RankEnd[]> {
  const ends: RankEnd[] = [];
  await receiveBatches(fromHostRoute(link), new AbortController().signal, (value) => {
    const told = parseFromHost(value)?.told;
    if (told?.kind === 'end') ends.push(told.end);
  });
  return ends;
}

describe('a launcher that another one leads', () => {
  it('says how its ranks end when the generation is over', async () => {
    const { result, link } = await follow({ rank: 1, reason: 'rank 1 failed' });
    expect(result.outcomes).toMatchObject([{ terminated: true }]);
    expect(await endsOf(link)).toMatchObject([{ terminated: true }]);
  });

  it('says nothing of ranks that it ends because it was cut off, who are lost with their host, and leaves nothing', async () => {
    const { result, link } = await follow({ reason: 'no answer', isCutOff: true });
    expect(result.outcomes).toMatchObject([{ terminated: true }]);
    // Nobody receives what it would say.
    const { prefix } = fromHostRoute(link);
    const left = [0, 1, 2, 3].map((sequence) => link.store.delete(`${prefix}/${sequence}`));
    expect(await Promise.all(left)).not.toContain(true);
  });
});
