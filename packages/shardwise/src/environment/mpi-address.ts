import type { LaunchAddress } from './launch.ts';
import type { RankNumbers } from './rank-numbers.ts';
import { hostOf, portOf } from './variables.ts';

/**
 * MPI's launchers tell no rank where rank 0 is: mpirun's own host need not be rank 0's. Only where
 * all ranks are on one host is it known; elsewhere the user sets MASTER_ADDR and MASTER_PORT, or the
 * ranks use MPI itself.
 */
export function mpiAddress(env: NodeJS.ProcessEnv, numbers: RankNumbers): LaunchAddress {
  const isOneHost = numbers.localWorldSize === numbers.worldSize;
  return {
    address: hostOf(env, 'MASTER_ADDR') ?? (isOneHost ? '127.0.0.1' : undefined),
    port: portOf(env, 'MASTER_PORT'),
  };
}
