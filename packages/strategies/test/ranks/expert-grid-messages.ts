import { createMesh } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { expertParallel } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import type { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { messages, tokens, type traffic } from './expert-messages.ts';

/** Shards experts over two axes. The ranks of one axis have the same tokens. */
export async function main(context: RankContext): Promise<z.infer<typeof traffic>> {
  const { group } = await join(context);
  const axes = [
    { name: 'dp', size: 2 },
    { name: 'tp', size: 2 },
  ];
  const mesh = await createMesh(group, axes);
  setRank({ device: currentSession().backend, mesh });
  const own = 2 * tokens;
  const strategy = expertParallel({ axis: ['tp', 'dp'], sameTokens: ['tp'], tokens: own });
  return messages(strategy, mesh.coordinate('dp') * own, own);
}
