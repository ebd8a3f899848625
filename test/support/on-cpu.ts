import { cpu } from '@shardwise/backend-cpu';
import type { OnRanksOptions } from '@shardwise/testing/node';

/** Gives each rank of `onRanks` the CPU, for trainings that are long on the interpreter. */
export const onCpu = {
  createDevice: () => cpu({ byteLength: 64 * 1024 * 1024 }),
} as const satisfies OnRanksOptions;
