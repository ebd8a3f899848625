import { workerData } from 'node:worker_threads';
import type { ServeOptions } from '../serve-options.ts';
import { followServing } from '../start-serving.ts';
import type { GroupPlace } from '../enter-group.ts';

// This is a thread of a replica that is divided over several ranks: one of those behind the first.

/** What the thread is given. */
export interface ReplicaThreadData {
  readonly options: ServeOptions;
  readonly place: GroupPlace;
}

const { options, place }: ReplicaThreadData = workerData;
await followServing(options, place);
