import {
  type RunState,
  samplesPerSecond,
  timeLeft,
  tokensPerSecond,
} from '../run-state/run-state.ts';
import type { StepSummary } from '../run-state/summary.ts';
import { namedLine, type OutputStream, type RunOutput, stoppingNotice } from './run-output.ts';
import type { TerminalStream } from './screen.ts';
import { formatCount, formatLoss, formatMetric, formatMilliseconds } from '../text/format.ts';

/** The least time between two lines of steps. The first and the last step always have a line. */
const INTERVAL_MS = 1000;

/** Prints at most one line of steps a second, without escape codes, for files and logs. */
export class PlainOutput implements RunOutput {
  readonly #streams: Readonly<Record<OutputStream, TerminalStream>>;
  #printed: number | undefined;
  #printedMs = -Infinity;
  #last: RunState | undefined;
  #before: StepSummary | undefined;
  #stopping = false;
  #transport: string | undefined;

  constructor(streams: Readonly<Record<OutputStream, TerminalStream>>) {
    this.#streams = streams;
  }

  update(state: RunState): void {
    this.#last = state;
    if (state.stopping && !this.#stopping) {
      this.#stopping = true;
      this.notice(stoppingNotice);
    }
    const { latest, totalSteps, head } = state;
    if (head.transport !== undefined && head.transport !== this.#transport) {
      this.#transport = head.transport;
      this.#streams.stdout.write(`transport: ${head.transport}\n`);
    }
    if (latest === undefined || latest.step === this.#printed) return;
    const due = latest.endMs - this.#printedMs >= INTERVAL_MS;
    if (due || latest.step === totalSteps || this.#isMeasured(latest)) this.#print(state);
    this.#before = latest;
  }

  rankLine(rank: number, line: string, stream: OutputStream): void {
    this.#streams[stream].write(`${namedLine(rank, line)}\n`);
  }

  notice(text: string): void {
    this.#streams.stderr.write(`${text}\n`);
  }

  end(): void {
    if (this.#last !== undefined && this.#last.latest?.step !== this.#printed) {
      this.#print(this.#last);
    }
  }

  /** Whether a step has a figure that is measured only now and then. Such a step gets a line at once. */
  #isMeasured({ validationLoss, metrics }: StepSummary): boolean {
    const before = this.#before;
    if (validationLoss !== undefined) return true;
    return (
      before !== undefined &&
      Object.keys(metrics).some((name) => !Object.hasOwn(before.metrics, name))
    );
  }

  #print(state: RunState): void {
    const line = plainLine(state);
    if (line === undefined || state.latest === undefined) return;
    this.#streams.stdout.write(`${line}\n`);
    this.#printed = state.latest.step;
    this.#printedMs = state.latest.endMs;
  }
}

/** Returns the last step as one line without escape codes. Returns undefined before the first step. */
export function plainLine(state: RunState): string | undefined {
  const { latest, totalSteps } = state;
  if (latest === undefined) return undefined;
  const rate = tokensPerSecond(state);
  const samples = samplesPerSecond(state);
  const { loss, validationLoss, stepMs, computeMs, communicationMs, dataMs } = latest;
  const split = `compute ${formatMilliseconds(computeMs)}, communication ${formatMilliseconds(communicationMs)}, data ${formatMilliseconds(dataMs)}`;
  const parts = [
    `step ${latest.step}${totalSteps === undefined ? '' : `/${totalSteps}`}`,
    loss === undefined ? '' : `loss ${formatLoss(loss)}`,
    validationLoss === undefined ? '' : `validation ${formatLoss(validationLoss)}`,
    ...Object.entries(latest.metrics).map(([name, value]) => `${name} ${formatMetric(value)}`),
    rate === undefined ? '' : `${formatCount(rate)} tokens/s`,
    samples === undefined ? '' : `${formatCount(samples)} samples/s`,
    `${formatMilliseconds(stepMs)} (${split})`,
    timeLeft(state) ?? '',
  ];
  return parts.filter((part) => part !== '').join('  ');
}
