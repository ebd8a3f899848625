import { createWriteStream, type WriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import type { RunState } from '../run-state/run-state.ts';
import type { StepSummary } from '../run-state/summary.ts';

/** Writes `metrics.jsonl`, which has one line for each step of the run, with every figure of the step. */
export class MetricsLog {
  readonly #stream: WriteStream;
  readonly #done: Promise<void>;
  #written: StepSummary | undefined;

  constructor(path: string) {
    this.#stream = createWriteStream(path);
    this.#done = finished(this.#stream);
    // close() reports the error.
    this.#done.catch(() => undefined);
  }

  update({ latest }: RunState): void {
    if (latest === undefined || latest === this.#written) return;
    this.#written = latest;
    const { steps: _, ...figures } = latest;
    this.#stream.write(`${JSON.stringify(figures)}\n`);
  }

  async close(): Promise<void> {
    this.#stream.end();
    await this.#done;
  }
}
