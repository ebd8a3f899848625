import type { RunState } from '../run-state/run-state.ts';
import type { StepSummary } from '../run-state/summary.ts';
import { figuresIn, type MetricSink } from './metric-sink.ts';

/** Gives each step of a run to each sink, one after the other. A sink that fails is told once, and gets no more. */
export class SinkQueue {
  readonly #onFailure: (text: string) => void;
  #sinks: readonly MetricSink[];
  #given: StepSummary | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(sinks: readonly MetricSink[], onFailure: (text: string) => void) {
    this.#sinks = sinks;
    this.#onFailure = onFailure;
  }

  update({ latest }: RunState): void {
    if (latest === undefined || latest === this.#given || this.#sinks.length === 0) return;
    this.#given = latest;
    this.#last = this.#last.then(() => this.#give(latest));
  }

  /** Settles when the sinks have all steps and are closed. */
  async close(): Promise<void> {
    await this.#last;
    for (const sink of this.#sinks) {
      try {
        await sink.close?.();
      } catch (error) {
        this.#onFailure(`The last metrics were not written to one place: ${String(error)}`);
      }
    }
  }

  async #give(summary: StepSummary): Promise<void> {
    const step = figuresIn(summary);
    for (const sink of this.#sinks) {
      try {
        await sink(step);
      } catch (error) {
        this.#sinks = this.#sinks.filter((each) => each !== sink);
        this.#onFailure(`Metrics are no longer written to one place: ${String(error)}`);
      }
    }
  }
}
