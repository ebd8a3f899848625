import { checkpoints } from 'shardwise/browser';
import { type Progress, progressOf } from './progress.ts';

/** The folder of this page's runs in the browser's storage. */
const runsFolder = 'runs';

/** A checkpoint from which the page can continue. */
export interface Origin {
  /** The source, as the option `resume` of startRanks takes it. */
  readonly source: string | readonly File[];
  readonly checkpoint: checkpoints.Checkpoint;
  readonly progress: Progress;
}

/** A run in the browser's storage. `found` is its latest checkpoint that can be opened, or why there is none. */
export interface StoredRun {
  readonly directory: string;
  readonly found: Origin | string;
}

/** Returns a folder for a run that begins now. */
export function newRunDirectory(): string {
  return `${runsFolder}/${new Date().toISOString().replaceAll(':', '-')}`;
}

/** Returns when a run began, as text for the visitor. */
export function runName(directory: string): string {
  const [date = '', time = ''] = (directory.split('/').at(-1) ?? '').split('T');
  const begun = new Date(`${date}T${time.replaceAll('-', ':')}`);
  return Number.isNaN(begun.getTime())
    ? directory
    : begun.toLocaleString('en', { dateStyle: 'medium', timeStyle: 'medium' });
}

/** Returns the runs, the newest first. Throws if the browser has no storage for this page. */
export async function storedRuns(): Promise<readonly StoredRun[]> {
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle(runsFolder, { create: true });
  const names: string[] = [];
  for await (const name of folder.keys()) names.push(name);
  const directories = names.toSorted().toReversed();
  return Promise.all(
    directories.map(async (name) => {
      const directory = `${runsFolder}/${name}`;
      return { directory, found: await latestOf(directory) };
    }),
  );
}

async function latestOf(directory: string): Promise<StoredRun['found']> {
  let problem = 'it has saved no checkpoint';
  for (const folder of await checkpoints.list(directory)) {
    try {
      return await openOrigin(folder);
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
  }
  return problem;
}

/** Opens a checkpoint. Throws CheckpointError for anything but a checkpoint of this page. */
export async function openOrigin(source: string | readonly File[]): Promise<Origin> {
  const checkpoint = await checkpoints.load(source);
  return { source, checkpoint, progress: progressOf(checkpoint) };
}
