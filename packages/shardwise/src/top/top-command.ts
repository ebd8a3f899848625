import { setTimeout as delay } from 'node:timers/promises';
import { resolve } from 'node:path';
import { ConfigError } from '@shardwise/core/extend';
import { readSecret } from '../rendezvous/read-secret.ts';
import { type Paint, paintOf } from '../terminal/paint.ts';
import { Screen } from '../terminal/screen.ts';
import { displayPath } from '../text/display-path.ts';
import { formatDuration } from '../text/format.ts';
import { topOfMembers } from './members/top-of-members.ts';
import { directorySource, latestRun, type RunSource, storeSource } from './run-source.ts';
import { isOver, type RunSnapshot, SNAPSHOT_MS } from './run-snapshot.ts';
import { snapshotText } from './snapshot-text.ts';
import { topLines, type TopView } from './top-lines.ts';
import { writeTopPage } from './top-page.ts';

/** Where a run is: its directory, or the address at which its hosts meet. */
export type RunPlace =
  | { readonly kind: 'latest' }
  | { readonly kind: 'directory'; readonly path: string }
  | { readonly kind: 'hosts'; readonly host: string; readonly port: number }
  /** Members that come and go, by the address of their coordinator. */
  | { readonly kind: 'members'; readonly url: URL };

export interface TopOptions {
  readonly place: RunPlace;
  /** The file with the job's secret, by which this command is let in where hosts meet. */
  readonly secretFile: string | undefined;
  /** Whether to show the run only once. */
  readonly once: boolean;
  readonly json: boolean;
  /** The file of the page. Undefined: there is none. */
  readonly page: string | undefined;
}

/** A launcher that writes nothing for this long is halted, or was killed. */
const SILENT_MS = 3000;
/** The columns of tables that go to a file or another program. */
const WIDE = 160;
const MAX_HISTORY = 600;

/** Runs `shardwise top`. Throws ConfigError and CollectiveError if there is no run that it can show. */
export async function topCommand({ place, ...options }: TopOptions): Promise<void> {
  if (place.kind === 'members') return topOfMembers({ ...options, url: place.url });
  const source = await sourceOf(place, options.secretFile);
  try {
    const viewer = new Viewer(source);
    const isLive =
      !options.once && !options.json && (process.stdout.isTTY || options.page !== undefined);
    if (isLive) await watch(viewer, options);
    else await showOnce(viewer, options);
  } finally {
    source.close();
  }
}

async function sourceOf(
  place: Exclude<RunPlace, { kind: 'members' }>,
  secretFile: string | undefined,
): Promise<RunSource> {
  switch (place.kind) {
    case 'latest':
      return directorySource(resolve(await latestRun()));
    case 'directory':
      return directorySource(resolve(place.path));
    case 'hosts': {
      const { host, port } = place;
      return storeSource({ host, port, secret: await readSecret(secretFile, process.env) });
    }
    default:
      return place satisfies never;
  }
}

/** Follows a run, and notices by its own clock whether the launcher still writes. */
class Viewer {
  readonly #source: RunSource;
  #history: readonly RunSnapshot[] = [];
  #run: RunSnapshot | undefined;
  #changedMs = 0;

  constructor(source: RunSource) {
    this.#source = source;
  }

  /** Resolves when the run is over, if its hosts say so. */
  get last(): Promise<RunSnapshot> {
    return this.#source.last;
  }

  async look(): Promise<TopView> {
    return this.take(await this.#source.read());
  }

  take(run: RunSnapshot): TopView {
    if (run.sequence !== this.#run?.sequence) {
      this.#changedMs = performance.now();
      this.#history = [...this.#history, run];
      // Of a long watch, every second snapshot is enough.
      if (this.#history.length > MAX_HISTORY) {
        this.#history = this.#history.filter((_, index) => index % 2 === 1);
      }
    }
    this.#run = run;
    const unchangedMs = performance.now() - this.#changedMs;
    const silentMs = unchangedMs > SILENT_MS && !isOver(run) ? unchangedMs : undefined;
    return { run, history: this.#history, silentMs };
  }
}

async function showOnce(viewer: Viewer, { json, page }: Omit<TopOptions, 'place'>): Promise<void> {
  const view = await currentView(viewer);
  if (page !== undefined) await writePage(page, view);
  if (json) {
    process.stdout.write(`${snapshotText(view.run, 2)}\n`);
    if (view.silentMs !== undefined) process.stderr.write(`${silentNotice(view)}\n`);
    return;
  }
  process.stdout.write(`${finalLines(view, paintOf(process.stdout)).join('\n')}\n`);
}

/**
 * Looks at a run once. If its snapshot looks old, waits for the next one: the clocks of two hosts may differ, so only a
 * launcher that goes on writing is surely there.
 */
async function currentView(viewer: Viewer): Promise<TopView> {
  const first = await viewer.look();
  const isOld = Math.abs(Date.now() - first.run.writtenMs) > SILENT_MS;
  if (isOver(first.run) || !isOld) return first;
  for (;;) {
    await delay(SNAPSHOT_MS / 4);
    const view = await viewer.look();
    if (view.silentMs !== undefined || view.run.sequence !== first.run.sequence) return view;
  }
}

/** The lines of a run that are not drawn again: all ranks, and what the reader should know. */
function finalLines(view: TopView, paint: Paint): readonly string[] {
  const columns = process.stdout.isTTY ? process.stdout.columns : WIDE;
  const lines = topLines(view, { columns, rows: Infinity }, paint);
  return view.silentMs === undefined ? lines : [...lines, '', silentNotice(view)];
}

function silentNotice({ silentMs = 0, run }: TopView): string {
  const atLeast = Math.max(silentMs, Date.now() - run.writtenMs);
  return `The launcher has written nothing for ${formatDuration(atLeast)}: it is halted, or was killed. What is above is its last word.`;
}

/** Shows a run until it is over, or until Ctrl-C. */
async function watch(viewer: Viewer, { page }: Omit<TopOptions, 'place'>): Promise<void> {
  const { stdout } = process;
  const screen = new Screen(stdout);
  const paint = paintOf(stdout);
  const left = new AbortController();
  const leave = (): void => left.abort();
  process.once('SIGINT', leave).once('SIGTERM', leave);
  let view = await viewer.look();
  try {
    if (page !== undefined) {
      await writePage(page, view);
      stdout.write(`Page: ${displayPath(resolve(page))}\n`);
    }
    for (;;) {
      if (isOver(view.run)) break;
      if (stdout.isTTY) {
        screen.draw(topLines(view, { columns: screen.columns, rows: stdout.rows }, paint));
      }
      await pause(left.signal, viewer.last);
      if (left.signal.aborted) break;
      view = await viewer.look();
      if (page !== undefined) await writePage(page, view);
    }
  } finally {
    process.off('SIGINT', leave).off('SIGTERM', leave);
    screen.draw([]);
  }
  stdout.write(`${finalLines(view, paint).join('\n')}\n`);
}

/** Waits for the next snapshot, the last one, or the signal. */
async function pause(signal: AbortSignal, last: Promise<RunSnapshot>): Promise<void> {
  const over = new AbortController();
  const { signal: ended } = over;
  const waiting = delay(SNAPSHOT_MS, undefined, { signal: AbortSignal.any([signal, ended]) });
  try {
    await Promise.race([waiting, last]);
  } catch {
    // The signal is looked at by the caller, and the next reading reports a store that is lost.
  }
  over.abort();
  waiting.catch(() => undefined);
}

async function writePage(path: string, view: TopView): Promise<void> {
  try {
    await writeTopPage(path, view);
  } catch (cause) {
    throw new ConfigError(
      { asked: `Writing the page ${path}`, found: String(cause), todo: 'Give another --page' },
      { path },
      { cause },
    );
  }
}
