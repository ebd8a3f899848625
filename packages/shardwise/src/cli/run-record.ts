import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chromeTrace } from '../report/chrome-trace.ts';
import { ProfileFiles, type WrittenProfile } from '../profile/profile-files.ts';
import type { ComparedRun } from '../report/compared-card.ts';
import { htmlReport } from '../report/html-report.ts';
import { MetricsLog } from '../report/metrics-log.ts';
import type { GenerationEnd } from '../rendezvous/generation.ts';
import type { RunMessage } from '../run-state/run-message.ts';
import { initialRanks, type RankFigures, reduceRanks } from '../run-state/rank-figures.ts';
import {
  initialRunState,
  statesAfter,
  type RunHead,
  type RunState,
} from '../run-state/run-state.ts';
import type { MetricSink } from '../sinks/metric-sink.ts';
import { SinkQueue } from '../sinks/sink-queue.ts';
import type { RunOutput } from '../terminal/run-output.ts';
import { displayPath } from '../text/display-path.ts';

/** Collects the messages of a run, and keeps the terminal and the files of the run up to date. */
export class RunRecord {
  readonly #output: RunOutput;
  readonly #metrics: MetricsLog;
  readonly #sinks: SinkQueue;
  readonly #directory: string;
  readonly #profiles: ProfileFiles;
  #state: RunState;
  #ranks: readonly RankFigures[];

  constructor(
    head: RunHead & { readonly runDirectory: string },
    output: RunOutput,
    sinks: readonly MetricSink[] = [],
    onProfile: (written: WrittenProfile) => void = ({ path }) =>
      output.notice(`Profile: ${displayPath(path)}`),
  ) {
    this.#output = output;
    this.#directory = head.runDirectory;
    this.#state = initialRunState(head);
    this.#ranks = initialRanks(head.worldSize);
    this.#sinks = new SinkQueue(sinks, (text) => output.notice(text));
    this.#profiles = new ProfileFiles({
      directory: head.runDirectory,
      script: head.script,
      onWritten: onProfile,
      onFailed: (error) => output.notice(`The profile can't be written: ${String(error)}`),
    });
    this.#metrics = new MetricsLog(join(head.runDirectory, 'metrics.jsonl'));
  }

  get state(): RunState {
    return this.#state;
  }

  /** What is known of each rank of the present generation. */
  get ranks(): readonly RankFigures[] {
    return this.#ranks;
  }

  add(message: RunMessage): void {
    if (message.kind === 'profile') this.#profiles.add(message, this.#state.head.worldSize);
    this.#ranks = reduceRanks(this.#ranks, message);
    for (const state of statesAfter(this.#state, message)) {
      this.#state = state;
      this.#metrics.update(state);
      this.#sinks.update(state);
      this.#output.update(state);
    }
  }

  sampleMemory(): void {
    this.add({ kind: 'process-memory', bytes: process.memoryUsage.rss() });
  }

  /** Sets the exit codes that no host has reported, according to how the run ended. */
  settle(end: GenerationEnd): void {
    for (const [rank, code] of this.#state.exitCodes.entries()) {
      if (code !== undefined) continue;
      if (end.kind === 'finished') this.add({ kind: 'exit', rank, code: 0 });
      else if (end.kind === 'failed' && end.failure.rank === rank) {
        this.add({ kind: 'exit', rank, code: 1 });
      }
    }
  }

  /** Writes the files that can only be written at the end. A run without steps has no report. */
  async finish(
    report: boolean,
    compared?: ComparedRun,
  ): Promise<{ readonly report: string | undefined }> {
    this.sampleMemory();
    await this.#metrics.close();
    await this.#sinks.close();
    await this.#profiles.close();
    const { latest, timelines, profiles } = this.#state;
    if (!report || latest === undefined) return { report: undefined };
    const path = join(this.#directory, 'report.html');
    await writeFile(path, htmlReport(this.#state, { isOver: true, compared }));
    await writeFile(join(this.#directory, 'trace.json'), chromeTrace(timelines, profiles.values()));
    return { report: path };
  }
}
