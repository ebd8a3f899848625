import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Store } from '@shardwise/core/extend';
import { LoneRendezvous } from '../rendezvous/lone-rendezvous.ts';
import { openStore } from '../rendezvous/open-store.ts';
import type { FindResume, Rendezvous } from '../rendezvous/rendezvous.ts';
import { StoreRendezvous } from '../rendezvous/store-rendezvous.ts';
import { checkpointsAt, ResumePoints } from './resume-points.ts';
import type { HostSettings, LaunchSettings } from './launch-settings.ts';

export interface OpenRunOptions {
  readonly settings: LaunchSettings;
  readonly resumeDirectory: string | undefined;
  /** Where checkpoints go. Undefined: below the run directory. */
  readonly checkpointDirectory: string | undefined;
  /** The module that makes the transport of the ranks. */
  readonly transport: string | undefined;
  /** The least number of ranks that go on without those that are lost. */
  readonly minRanks: number | undefined;
  /** Called on the host that makes the directory: the only host, or the one that serves the store. */
  readonly makeRunDirectory: () => Promise<string>;
  readonly onNotice: (text: string) => void;
}

/** A run that this host is about to take part in. */
export interface OpenedRun {
  readonly rendezvous: Rendezvous;
  /** The store of the hosts. Undefined if this host is the only one. */
  readonly store: Store | undefined;
  /** The directory of the run. Undefined on hosts that learn it from another host. */
  readonly runDirectory: string | undefined;
}

/** Opens a run. If it throws ShardwiseError, it leaves nothing behind. */
export async function openRun(options: OpenRunOptions): Promise<OpenedRun> {
  const { settings } = options;
  if (settings.hosts !== undefined) return openHosts(options, settings.hosts);
  const runDirectory = await options.makeRunDirectory();
  const rendezvous = new LoneRendezvous({
    node: { id: randomUUID(), name: hostname(), address: '127.0.0.1', ranks: settings.nproc },
    maxRestarts: settings.maxRestarts,
    runDirectory,
    transport: options.transport,
    findResume: await findResumeIn(runDirectory, options),
  });
  return { rendezvous, store: undefined, runDirectory };
}

async function openHosts(options: OpenRunOptions, hosts: HostSettings): Promise<OpenedRun> {
  const { settings, makeRunDirectory, onNotice } = options;
  const { endpoint, secret, jobId, place, times, nodes } = hosts;
  const timeoutMs = times.joinTimeoutMs;
  const opened = await openStore({ ...endpoint, secret, jobId, place, timeoutMs });
  try {
    const runDirectory = opened.server === undefined ? undefined : await makeRunDirectory();
    const rendezvous = new StoreRendezvous({
      opened,
      secret,
      own: {
        id: randomUUID(),
        name: hostname(),
        address: opened.address,
        ranks: settings.nproc,
        place,
      },
      runDirectory: runDirectory ?? '',
      transport: options.transport,
      minNodes: nodes.min,
      maxNodes: nodes.max,
      minRanks: options.minRanks,
      maxRestarts: settings.maxRestarts,
      times,
      findResume: await findResumeIn(runDirectory ?? '', options),
      onNotice,
    });
    await rendezvous.open();
    return { rendezvous, store: opened.store, runDirectory };
  } catch (error) {
    opened.store.close();
    opened.server?.close();
    throw error;
  }
}

async function findResumeIn(
  runDirectory: string,
  { checkpointDirectory, resumeDirectory, onNotice }: OpenRunOptions,
): Promise<FindResume> {
  const directory = checkpointDirectory ?? runDirectory;
  const earlier = checkpointDirectory === undefined ? [] : await checkpointsAt(checkpointDirectory);
  const points = new ResumePoints({ directory, earlier, resumeDirectory, onNotice });
  return (failure) => points.next(failure);
}
