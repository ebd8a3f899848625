import type { ProcessGroup, Transport } from '@shardwise/core/spec';
import { SimdReducer } from '../reduce/simd-reducer.ts';
import { TransportGroup } from './transport-group.ts';

export interface CreateGroupOptions {
  /**
   * Whether ranks compare each call before its data moves: one short message between every two
   * ranks, for a CollectiveMismatchError instead of wrong results. Default: true.
   */
  readonly verify?: boolean;
}

/**
 * The group of all ranks of a transport. Its tags are integers from 0 to 2^52. Closing it closes
 * the transport.
 */
export function createGroup(transport: Transport, options: CreateGroupOptions = {}): ProcessGroup {
  const members = Array.from({ length: transport.size }, (_, rank) => rank);
  return new TransportGroup(
    { transport, members, id: 0 },
    options.verify ?? true,
    new SimdReducer(),
  );
}
