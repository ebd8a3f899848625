import { broadcastObject } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/extend';
import { z } from 'zod';

/** Rank 0's text on every rank; also the moment from which on all know that it is there. */
export async function shareText(group: ProcessGroup, text: string): Promise<string> {
  return z.string().parse(await broadcastObject(group, text, 0));
}
