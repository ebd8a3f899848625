import type { Shape } from '@shardwise/core/extend';
import type { Sharding } from '../layout/axis-layout.ts';

/**
 * How parameters are sharded, into parts of one size, the last ones padded with zeros. `rows`: along dim 0,
 * ceil(rows / ranks) to each (PyTorch's fully_shard). `flat`: element by element, row by row (DeepSpeed's ZeRO).
 */
export type ShardingRule = 'rows' | 'flat';

/** A parameter without dims has no rows. */
export function shardingOfRule(rule: ShardingRule, shape: Shape): Sharding {
  return rule === 'flat' || shape.length === 0 ? 'flat' : { shard: 0 };
}
