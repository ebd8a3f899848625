import type { PageDevice, PageRun, RankEnd } from 'shardwise/browser';
import type { DeviceName } from './device-choice.ts';
import type { Allowance, Checkpoint, LiveJob, LiveMessage, Snapshot } from './live-job.ts';

export interface LiveOptions {
  readonly size: number;
  readonly steps: number;
  readonly seed: number;
  readonly device: DeviceName;
  /** What the ranks' script trains. */
  readonly task: unknown;
  /** The number of tokens of a step, for all ranks. 0 if rows are not tokens. */
  readonly stepTokens?: number;
  /** Makes the worker of a rank. */
  readonly script: () => Worker;
  /** Called at the end, to release what the ranks used besides each other. */
  readonly onDispose?: () => void;
}

/** What the page knows about one rank. */
export interface LiveRankState<Look> {
  /** The number of steps that the rank has done. */
  readonly step: number;
  readonly snapshot: Snapshot<Look> | undefined;
  readonly end: RankEnd | undefined;
}

/** The loss of a step of a rank, and when the page received it. */
export interface Report {
  readonly rank: number;
  readonly step: number;
  readonly loss: number;
  readonly atMs: number;
}

/** The end of one rank by the reader, and its consequences. */
interface Incident {
  readonly rank: number;
  /** The different messages of the other ranks. */
  readonly named: readonly string[];
  /** The step from which all ranks continued. 0 is the beginning. */
  readonly resumedFrom: number;
}

/** Everything that is drawn of a run. */
export interface LiveState<Look> {
  readonly status: 'starting' | 'running' | 'paused' | 'over';
  /** How the ranks communicate and on which device they compute, with the reasons. */
  readonly setting: string;
  /** Undefined before the ranks start. */
  readonly device: PageDevice | undefined;
  /** The mean of the ranks' losses, by step from 1. */
  readonly losses: readonly number[];
  readonly reports: readonly Report[];
  readonly ranks: readonly LiveRankState<Look>[];
  readonly incidents: readonly Incident[];
  /** The mean time of the latest steps. */
  readonly stepMs: number;
  /** Why the page ended the run. Empty if it did not. */
  readonly notice: string;
}

/** The longest duration of a run. */
const MOST_MS = 180_000;
const AVERAGED_STEPS = 20;

/**
 * A training of ranks in workers, which can pause between steps. If the reader ends a rank, all ranks continue from the
 * last checkpoint.
 */
export class LiveRun<Look> {
  readonly #options: LiveOptions;
  readonly #onChange: (state: LiveState<Look>) => void;
  #workers: Worker[] = [];
  #run: PageRun | undefined;
  #state: LiveState<Look>;
  #checkpoint: Checkpoint | undefined;
  #ready = 0;
  #allowed: number = Infinity;
  #sums: { loss: number; count: number; stepMs: number }[] = [];
  #startMs = 0;
  #drawing: number | undefined;
  #isDisposed = false;
  readonly #timer: ReturnType<typeof setTimeout>;

  constructor(options: LiveOptions, onChange: (state: LiveState<Look>) => void) {
    this.#options = options;
    this.#onChange = onChange;
    this.#state = {
      status: 'starting',
      setting: '',
      device: undefined,
      losses: [],
      reports: [],
      ranks: freshRanks(options.size),
      incidents: [],
      stepMs: 0,
      notice: '',
    };
    this.#timer = setTimeout(() => {
      this.#change({ notice: `It has run for ${MOST_MS / 60_000} minutes and was ended.` });
      this.#run?.terminate();
    }, MOST_MS);
    onChange(this.#state);
  }

  /** Starts ranks, from the checkpoint if there is one. Throws what startRanks throws. */
  async start(): Promise<void> {
    const { startRanks } = await import('shardwise/browser');
    if (this.#isDisposed) return;
    const { size, script, task, seed, steps, device } = this.#options;
    this.#workers = [];
    this.#ready = 0;
    this.#sums.length = this.#checkpoint?.step ?? 0;
    const run = await startRanks({
      size,
      data: { task, seed, steps, checkpoint: this.#checkpoint } satisfies LiveJob,
      device,
      arenaBytes: 48 << 20,
      script: () => {
        const worker = script();
        this.#workers.push(worker);
        return worker;
      },
      // Ranks send no messages other than those of LiveMessage.
      onValue: (value, from) => this.#hear(value as LiveMessage<Look>, from),
      onEnd: (end) => this.#hearEnd(end),
    });
    this.#run = run;
    if (this.#isDisposed) return run.terminate();
    this.#change({
      device: run.device,
      setting: settingText(run),
    });
  }

  get state(): LiveState<Look> {
    return this.#state;
  }

  /** Pauses the ranks. Ranks that have not begun yet wait before their first step. */
  pause(): void {
    if (this.#state.status === 'running') this.#allow(this.#furthest, 'paused');
    else if (this.#state.status === 'starting') this.#allowed = 0;
  }

  resume(): void {
    if (this.#state.status === 'paused') this.#allow(Infinity, 'running');
  }

  /** Allows one more step. Before the run begins, it allows only the first one. */
  step(): void {
    if (this.#state.status === 'starting') this.#allowed = 1;
    else this.#allow(this.#furthest + 1, 'paused');
  }

  kill(rank: number): void {
    // A rank that waits for the page does not notice the loss of another rank, so all ranks may go on until they meet.
    this.#run?.kill(rank);
    this.#allow(Infinity, 'running');
  }

  /** Ends everything at once. */
  dispose(): void {
    this.#isDisposed = true;
    clearTimeout(this.#timer);
    if (this.#drawing !== undefined) cancelAnimationFrame(this.#drawing);
    this.#run?.terminate();
    this.#options.onDispose?.();
  }

  /** The number of steps that the rank furthest ahead has done, including those before the checkpoint. */
  get #furthest(): number {
    return Math.max(this.#checkpoint?.step ?? 0, ...this.#state.ranks.map(({ step }) => step));
  }

  #allow(steps: number, status: 'running' | 'paused'): void {
    this.#allowed = steps;
    for (const worker of this.#workers) {
      worker.postMessage({ allowedSteps: steps } satisfies Allowance);
    }
    this.#change({ status });
  }

  #hear(message: LiveMessage<Look>, rank: number): void {
    switch (message.kind) {
      case 'ready':
        this.#ready += 1;
        if (this.#ready < this.#options.size) return;
        if (this.#startMs === 0) this.#startMs = performance.now();
        this.#allow(this.#allowed, this.#allowed === Infinity ? 'running' : 'paused');
        break;
      case 'step':
        this.#hearStep(rank, message);
        break;
      case 'snapshot':
        this.#changeRank(rank, { snapshot: message.snapshot });
        break;
      case 'checkpoint':
        this.#checkpoint = message.checkpoint;
        break;
      default:
        message satisfies never;
    }
  }

  #hearStep(rank: number, { step, loss, stepMs }: LiveMessage<Look> & { kind: 'step' }): void {
    const sum = (this.#sums[step - 1] ??= { loss: 0, count: 0, stepMs: 0 });
    sum.loss += loss;
    sum.count += 1;
    sum.stepMs = Math.max(sum.stepMs, stepMs);
    const report = { rank, step, loss, atMs: performance.now() - this.#startMs };
    this.#state = { ...this.#state, reports: [...this.#state.reports, report] };
    this.#changeRank(rank, { step });
    if (sum.count < this.#options.size) return;
    const latest = this.#sums.slice(0, step).slice(-AVERAGED_STEPS);
    this.#change({
      losses: [...this.#state.losses, sum.loss / sum.count],
      stepMs: latest.reduce((total, each) => total + each.stepMs, 0) / latest.length,
    });
  }

  #hearEnd(end: RankEnd): void {
    this.#changeRank(end.rank, { end });
    const { ranks } = this.#state;
    if (this.#isDisposed || ranks.some((rank) => rank.end === undefined)) return;
    const killed = ranks.findIndex((rank) => rank.end?.status === 'killed');
    if (killed === -1) {
      clearTimeout(this.#timer);
      this.#change({ status: 'over' });
      return;
    }
    this.#restart(killed);
  }

  #restart(killed: number): void {
    const { ranks, incidents, losses, reports } = this.#state;
    const resumedFrom = this.#checkpoint?.step ?? 0;
    const said = ranks.flatMap(({ end }, rank) =>
      end?.error === undefined ? [] : [`rank ${rank}: ${end.error.message}`],
    );
    this.#change({
      status: 'starting',
      ranks: freshRanks(ranks.length),
      losses: losses.slice(0, resumedFrom),
      reports: reports.filter(({ step }) => step <= resumedFrom),
      incidents: [...incidents, { rank: killed, named: said, resumedFrom }],
    });
    this.start().catch((error: unknown) => {
      this.#change({
        status: 'over',
        notice: error instanceof Error ? error.message : String(error),
      });
    });
  }

  #changeRank(rank: number, part: Partial<LiveRankState<Look>>): void {
    const ranks = this.#state.ranks.map((each, index) =>
      index === rank ? { ...each, ...part } : each,
    );
    this.#change({ ranks });
  }

  /** Changes the state. The page draws at most once a frame, however many messages come. */
  #change(part: Partial<LiveState<Look>>): void {
    this.#state = { ...this.#state, ...part };
    if (this.#isDisposed || this.#drawing !== undefined) return;
    this.#drawing = requestAnimationFrame(() => {
      this.#drawing = undefined;
      this.#onChange(this.#state);
    });
  }
}

function freshRanks<Look>(size: number): readonly LiveRankState<Look>[] {
  return Array.from({ length: size }, () => ({ step: 0, snapshot: undefined, end: undefined }));
}

export function deviceTitle({ kind }: PageDevice): string {
  return kind === 'webgpu' ? 'WebGPU' : 'WebAssembly';
}

/** Describes the device of the ranks and how they communicate, with the reasons. */
export function settingText({ size, device, transport }: PageRun): string {
  const on = `on ${deviceTitle(device)} (${device.reason})`;
  if (size === 1) return `1 rank ${on}`;
  const way = transport.kind === 'threads' ? 'shared memory' : 'message ports';
  return `${size} ranks ${on}, by ${way} (${transport.reason})`;
}
