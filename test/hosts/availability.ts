import { shmAvailability } from '@shardwise/collectives/node';
import { hostsAvailability } from '@shardwise/testing/hosts';

const hosts = await hostsAvailability();
const shm = shmAvailability();

/** Why the tests of this folder cannot run on this machine; undefined where they can. */
export const unavailable: string | undefined = hosts.available
  ? shm.available
    ? undefined
    : shm.reason
  : hosts.reason;

/** The title of a group of tests; where they cannot run, with the reason. */
export function titled(title: string): string {
  return unavailable === undefined ? title : `${title} (not here: ${unavailable})`;
}

/** Several processes of each test share the cores of one machine with those of other tests. */
export const slowly = { timeout: 120_000 } as const;
