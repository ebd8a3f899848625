import { statistics } from '@shardwise/core';
import { subscribe, type TimelineEvent } from '@shardwise/core/extend';
import type { RankMessage } from '../run-state/run-message.ts';
import { MetricsCheck } from './check-metrics.ts';
import type { StepMetrics } from './step-metrics.ts';

export interface StepRecorderOptions {
  readonly rank: number;
  readonly send: (message: RankMessage) => void;
  /** Returns the bytes in use on the rank's device, if the device counts them. */
  readonly memoryBytes: () => number | undefined;
}

/** A timeline with more events than this would be unreadable. */
const MAX_EVENTS = 5000;

/**
 * Turns the metrics of a training loop into messages. Adds what the rank's time was spent on since the previous step.
 */
export class StepRecorder {
  readonly #options: StepRecorderOptions;
  readonly #unsubscribe: () => void;
  readonly #check = new MetricsCheck();
  #statistics = statistics();
  #startMs = now();
  #dataMs = 0;
  #reports = 0;
  #wasNotFinite = false;
  #events: TimelineEvent[] = [];

  constructor(options: StepRecorderOptions) {
    this.#options = options;
    this.#unsubscribe = subscribe((event) => this.#listen(event));
  }

  /** Reports a step. Throws ConfigError for a wrong report. */
  report(report: StepMetrics): void {
    this.#check.check(report);
    const { step, ...metrics } = report;
    this.#remark(step, metrics.loss);
    const { rank, send, memoryBytes } = this.#options;
    const before = this.#statistics;
    const after = statistics();
    const startMs = this.#startMs;
    const endMs = now();
    const bytes = memoryBytes();
    this.#reports += 1;
    send({
      kind: 'step',
      rank,
      step,
      ...metrics,
      endMs,
      stepMs: endMs - startMs,
      computeMs: after.computeMs - before.computeMs,
      communicationMs: after.communicationMs - before.communicationMs,
      dataMs: this.#dataMs,
      graphMs: after.graphMs + after.compileMs - before.graphMs - before.compileMs,
      ...(bytes === undefined ? {} : { memoryBytes: bytes }),
    });
    if (this.#capturing) {
      send({ kind: 'timeline', rank, step, startMs, endMs, events: this.#events });
    }
    this.#events = [];
    this.#statistics = after;
    this.#startMs = endMs;
    this.#dataMs = 0;
  }

  /**
   * Warns of a loss that is not finite. It warns once in a run, because the run goes on and may write many lines before
   * somebody looks.
   */
  #remark(step: number, loss: number | undefined): void {
    if (loss === undefined || Number.isFinite(loss) || this.#wasNotFinite) return;
    this.#wasNotFinite = true;
    console.warn(
      `shardwise: the loss is ${loss} from step ${step} on rank ${this.#options.rank}. Look at the data and the learning rate; clipGradNorm limits gradients`,
    );
  }

  close(): void {
    this.#unsubscribe();
  }

  /**
   * Whether a timeline of this report is sent. These are reports 1, 2, 4, 8, …, which are the same on every rank and
   * few in a long run.
   */
  get #capturing(): boolean {
    return Number.isInteger(Math.log2(this.#reports));
  }

  #listen(event: TimelineEvent): void {
    if (event.category === 'data') this.#dataMs += event.durationMs;
    const next = this.#reports + 1;
    if (Number.isInteger(Math.log2(next)) && this.#events.length < MAX_EVENTS) {
      this.#events.push(event);
    }
  }
}

function now(): number {
  return performance.timeOrigin + performance.now();
}
