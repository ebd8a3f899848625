import { shmAvailability } from '@shardwise/collectives/node';
import { hostsAvailability } from '@shardwise/testing/hosts';

const hosts = await hostsAvailability();
const shm = shmAvailability();

/** The reason why the tests in this folder cannot run on this machine. Undefined if they can. */
export const unavailable: string | undefined = hosts.available
  ? shm.available
    ? undefined
    : shm.reason
  : hosts.reason;

/** Returns the title of a group of tests. If they cannot run, it includes the reason. */
export function titled(title: string): string {
  return unavailable === undefined ? title : `${title} (not here: ${unavailable})`;
}

/** The processes of each test share the cores of one machine with other tests. */
export const slowly = { timeout: 120_000 } as const;
