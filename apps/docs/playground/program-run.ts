import type { PageRun } from 'shardwise/browser';
import type { DeviceName } from '../live/device-choice.ts';
import { settingText } from '../live/live-run.ts';
import { isWorkerMessage, type ProgramMessage } from './messages.ts';
import { importsOf, translate } from './translate.ts';

/** A line that a program has printed. */
export interface Line {
  readonly level: 'log' | 'error' | 'notice';
  readonly text: string;
}

const MOST_MS = 120_000;

const startWorker = (): Worker =>
  new Worker(new URL('./program-worker.ts', import.meta.url), { type: 'module' });

/**
 * Runs a program in a worker, or in several workers that are ranks if it calls `init`. Code of users never runs in the
 * page's own thread.
 */
export class ProgramRun {
  readonly ended: Promise<void>;
  readonly #onLine: (line: Line) => void;
  readonly #end: () => void;
  readonly #workers: Worker[] = [];
  readonly #timer: ReturnType<typeof setTimeout>;
  /** The workers that have reported what went wrong. */
  readonly #failed = new Set<number>();
  #hasRanks = false;
  #run: PageRun | undefined;
  #isOver = false;

  constructor(onLine: (line: Line) => void) {
    this.#onLine = onLine;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    this.#end = resolve;
    this.#timer = setTimeout(() => this.stop('Ended: it ran for two minutes.'), MOST_MS);
  }

  /** Starts the program. Throws SyntaxError, and what startRanks throws. */
  async start(source: string, size: number, device: DeviceName): Promise<void> {
    const program = translate(source);
    const isRank = importsOf(program).includes('shardwise') && /\binit\b/.test(source);
    if (!isRank) {
      this.#startOne(program, '');
      return;
    }
    this.#hasRanks = true;
    const { startRanks } = await import('shardwise/browser');
    if (this.#isOver) return;
    const run = await startRanks({
      size,
      device,
      arenaBytes: 64 << 20,
      script: () => {
        const rank = this.#workers.length;
        return this.#startOne(program, size === 1 ? '' : `[rank ${rank}] `);
      },
      onEnd: ({ rank, status, error }) => {
        if (status === 'failed' && !this.#failed.has(rank)) {
          this.#onLine({ level: 'error', text: `rank ${rank} failed: ${error?.message ?? ''}` });
        }
      },
    });
    this.#run = run;
    if (this.#isOver) return run.terminate();
    this.#onLine({
      level: 'notice',
      text: settingText(run),
    });
    void run.ended.then(() => this.stop());
  }

  /** Ends everything at once, whatever the program is doing. */
  stop(notice?: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#run?.terminate();
    for (const worker of this.#workers) worker.terminate();
    if (notice !== undefined) this.#onLine({ level: 'notice', text: notice });
    this.#end();
  }

  #startOne(program: string, label: string): Worker {
    const worker = startWorker();
    const index = this.#workers.push(worker) - 1;
    worker.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      if (!isWorkerMessage(data) || this.#isOver) return;
      if (data.playground === 'end') {
        if (!this.#hasRanks) this.stop();
        return;
      }
      if (data.playground === 'failed') {
        this.#failed.add(index);
        this.#onLine({ level: 'error', text: label + data.text });
        return;
      }
      for (const { level, text } of data.lines) this.#onLine({ level, text: label + text });
    });
    worker.addEventListener('error', (event) => {
      event.preventDefault();
      // If the script has run, the worker has reported the error. If ranks run, their end reports it.
      if (this.#failed.has(index) || this.#hasRanks || this.#isOver) return;
      this.#onLine({
        level: 'error',
        text: `The worker of the program did not start: ${event.message || 'its script could not be loaded'}. Load the page again`,
      });
      this.stop();
    });
    worker.postMessage({ program } satisfies ProgramMessage);
    return worker;
  }
}
