import type { Strategy } from '@shardwise/core';
import { ddp, fsdp, zero } from '@shardwise/strategies';

/** The strategies that shard the batch, for compositions with strategies that shard the model. */
export const beside: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};
