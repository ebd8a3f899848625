import type { PageRun } from 'shardwise/browser';
import { settingText } from '../live/live-run.ts';
import type { BenchmarkMessage, Figure } from './benchmark-messages.ts';

const RANKS = 2;
/** The memory of each rank. It has room for the states and activations of the GPT, or for a buffer of 64 MiB. */
const ARENA_BYTES = 256 << 20;

export interface Listener {
  readonly onFigure: (figure: Figure) => void;
  /** Called with what could not be measured, and why. */
  readonly onSkipped: (reason: string) => void;
  /** Called when ranks have started, with their device and how they communicate. */
  readonly onRanks: (setting: string) => void;
}

/** Measures first a single worker, and then two ranks. `signal` ends it at once. Rejects with what went wrong. */
export async function measurePage(listener: Listener, signal: AbortSignal): Promise<void> {
  await measureAlone(listener, signal);
  if (!signal.aborted) await measureRanks(listener, signal);
}

async function measureAlone(listener: Listener, signal: AbortSignal): Promise<void> {
  const worker = new Worker(new URL('./benchmark-worker.ts', import.meta.url), { type: 'module' });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  worker.addEventListener('message', ({ data }: MessageEvent<BenchmarkMessage>) => {
    if (data.kind === 'failed') reject(new Error(data.message));
    else if (data.kind === 'done') resolve();
    else tell(listener, data);
  });
  worker.addEventListener('error', ({ message }) => reject(new Error(message)));
  signal.addEventListener('abort', () => resolve());
  try {
    await promise;
  } finally {
    worker.terminate();
  }
}

async function measureRanks(listener: Listener, signal: AbortSignal): Promise<void> {
  const { startRanks } = await import('shardwise/browser');
  if (signal.aborted) return;
  const run: PageRun = await startRanks({
    size: RANKS,
    device: 'wasm',
    arenaBytes: ARENA_BYTES,
    script: () => new Worker(new URL('./benchmark-rank.ts', import.meta.url), { type: 'module' }),
    // The ranks of this page send no other messages.
    onValue: (value) => tell(listener, value as BenchmarkMessage),
  });
  if (signal.aborted) run.terminate();
  signal.addEventListener('abort', () => run.terminate());
  listener.onRanks(settingText(run));
  const failed = (await run.ended).find(({ error }) => error !== undefined);
  if (failed?.error !== undefined && !signal.aborted) throw new Error(failed.error.message);
}

function tell(listener: Listener, message: BenchmarkMessage): void {
  if (message.kind === 'figure') listener.onFigure(message.figure);
  else if (message.kind === 'skipped') listener.onSkipped(message.reason);
}
