import type { LaunchAddress } from './launch.ts';
import type { RankNumbers } from './rank-numbers.ts';
import { hostOf, portOf } from './variables.ts';

/**
 * Returns the address of rank 0. MPI's launchers do not tell it, and mpirun may run on another host than rank 0. It is
 * known only if all ranks are on one host. Otherwise the user sets MASTER_ADDR and MASTER_PORT, or the ranks use MPI
 * itself.
 */
export function mpiAddress(env: NodeJS.ProcessEnv, numbers: RankNumbers): LaunchAddress {
  const isOneHost = numbers.localWorldSize === numbers.worldSize;
  return {
    address: hostOf(env, 'MASTER_ADDR') ?? (isOneHost ? '127.0.0.1' : undefined),
    port: portOf(env, 'MASTER_PORT'),
  };
}
