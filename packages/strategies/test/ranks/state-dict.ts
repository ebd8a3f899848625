import { createHash } from 'node:crypto';
import { createMesh } from '@shardwise/collectives';
import { manualSeed, type nn, setRank } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { Gpt } from './grid-table.ts';
import { type LayoutName, layouts, ranksOf } from './reshard-layouts.ts';

const layoutSchema = z.custom<LayoutName>(
  (value) => typeof value === 'string' && Object.hasOwn(layouts, value),
);

/** Returns the hash of this rank's stateDict for each layout. */
export async function main(context: RankContext): Promise<Record<string, string>> {
  const { group } = await join(context);
  const device = currentSession().backend;
  const found: Record<string, string> = {};
  for (const layout of z.array(layoutSchema).parse(context.data)) {
    if (ranksOf(layout) !== context.size) continue;
    setRank({ device, mesh: await createMesh(group, layouts[layout].axes) });
    manualSeed(0);
    const { model } = await layouts[layout].prepare(new Gpt());
    found[layout] = await hashOf(model);
  }
  return found;
}

/** Returns the SHA-256 of names, shapes and contents. */
export async function hashOf(model: nn.Module): Promise<string> {
  const hash = createHash('sha256');
  for (const [name, { shape, bytes }] of Object.entries(await model.stateDict())) {
    hash.update(`${name} ${shape.join()}`).update(bytes);
  }
  return hash.digest('hex');
}
