import type { Shape } from '@shardwise/core/extend';
import type { Sharding } from '../layout/axis-layout.ts';

/**
 * How parameters are sharded into parts of the same size, padded with zeros at the end. `rows`: along dim 0, ceil(rows
 * / ranks) for each rank (PyTorch's fully_shard). `flat`: element by element in row-major order (DeepSpeed's ZeRO).
 */
export type ShardingRule = 'rows' | 'flat';

/** Returns the sharding of a shape. A parameter without dims has no rows, so it is sharded flat. */
export function shardingOfRule(rule: ShardingRule, shape: Shape): Sharding {
  return rule === 'flat' || shape.length === 0 ? 'flat' : { shard: 0 };
}
