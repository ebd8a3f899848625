import type { PageRun, RankEnd } from 'shardwise/browser';
import type { Allowance, LiveSnapshot, LiveTask } from './live-task.ts';

/** What the page knows of one rank. */
export interface LiveRank {
  readonly snapshot: LiveSnapshot | undefined;
  readonly end: RankEnd | undefined;
}

/** Everything that is drawn of a run. */
export interface LiveState {
  readonly status: 'starting' | 'running' | 'paused' | 'over';
  /** How the ranks talk and what they compute on, with the reasons. */
  readonly setting: string;
  /** Mean of the ranks' losses, by step from 1. */
  readonly losses: readonly number[];
  readonly values: readonly number[];
  readonly ranks: readonly LiveRank[];
  readonly stepMs: number;
}

export type LiveOptions = Omit<LiveTask, 'channel'> & { readonly size: number };

/** No run goes on for longer. */
const MOST_MS = 120_000;

/** A training of ranks in workers, which can pause between steps. */
export class LiveRun {
  readonly #options: LiveOptions;
  readonly #onChange: (state: LiveState) => void;
  readonly #channel: BroadcastChannel;
  readonly #channelName: string = `live-${crypto.randomUUID()}`;
  #run: PageRun | undefined;
  #state: LiveState;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ready = 0;
  #allowed: number = Infinity;
  #sums: { loss: number; count: number }[] = [];
  #isDisposed = false;

  constructor(options: LiveOptions, onChange: (state: LiveState) => void) {
    this.#options = options;
    this.#onChange = onChange;
    this.#channel = new BroadcastChannel(this.#channelName);
    this.#state = {
      status: 'starting',
      setting: '',
      losses: [],
      values: [],
      ranks: Array.from({ length: options.size }, () => ({ snapshot: undefined, end: undefined })),
      stepMs: 0,
    };
    onChange(this.#state);
  }

  /** Throws what startRanks throws. */
  async start(): Promise<void> {
    const { startRanks } = await import('shardwise/browser');
    const { size, ...task } = this.#options;
    const data: LiveTask = { ...task, channel: this.#channelName };
    const run = await startRanks({
      size,
      data,
      device: 'wasm',
      arenaBytes: 32 << 20,
      script: () => new Worker(new URL('./live-rank.ts', import.meta.url), { type: 'module' }),
      onStep: ({ step, loss = NaN, stepMs }) => this.#hearStep(step, loss, stepMs),
      onValue: (value, rank) => this.#hearValue(value, rank),
      onEnd: (end) => this.#hearEnd(end),
    });
    this.#run = run;
    if (this.#isDisposed) return run.terminate();
    const way = run.transport.kind === 'threads' ? 'shared memory' : 'message ports';
    this.#change({
      setting: `${size} ${size === 1 ? 'rank' : 'ranks'} on WebAssembly (${run.device.reason}), by ${way} (${run.transport.reason})`,
    });
    this.#timer = setTimeout(() => run.terminate(), MOST_MS);
  }

  get state(): LiveState {
    return this.#state;
  }

  pause(): void {
    if (this.#state.status === 'running') this.#allow(this.#state.losses.length, 'paused');
  }

  resume(): void {
    if (this.#state.status === 'paused') this.#allow(Infinity, 'running');
  }

  /** One step more; before the run begins, the first one alone. */
  step(): void {
    if (this.#state.status === 'starting') this.#allowed = 1;
    else this.#allow(this.#state.losses.length + 1, 'paused');
  }

  kill(rank: number): void {
    // A rank that waits for the page does not wait for another rank: let them meet.
    this.#run?.kill(rank);
    this.#allow(Infinity, 'running');
  }

  /** Ends everything at once. */
  dispose(): void {
    this.#isDisposed = true;
    clearTimeout(this.#timer);
    this.#run?.terminate();
    this.#channel.close();
  }

  #allow(steps: number, status: 'running' | 'paused'): void {
    this.#allowed = steps;
    this.#channel.postMessage({ steps } satisfies Allowance);
    this.#change({ status });
  }

  #hearValue(value: unknown, rank: number): void {
    if (value === 'ready') {
      this.#ready += 1;
      if (this.#ready < this.#options.size) return;
      this.#allow(this.#allowed, this.#allowed === Infinity ? 'running' : 'paused');
      return;
    }
    const snapshot = value as LiveSnapshot;
    const ranks = this.#state.ranks.map((each, index) =>
      index === rank ? { ...each, snapshot } : each,
    );
    this.#change(snapshot.values.length > 0 ? { ranks, values: snapshot.values } : { ranks });
  }

  #hearStep(step: number, loss: number, stepMs: number): void {
    const sum = (this.#sums[step - 1] ??= { loss: 0, count: 0 });
    sum.loss += loss;
    sum.count += 1;
    if (sum.count < this.#options.size) return;
    this.#change({ losses: [...this.#state.losses, sum.loss / sum.count], stepMs });
  }

  #hearEnd(end: RankEnd): void {
    const ranks = this.#state.ranks.map((each, index) =>
      index === end.rank ? { ...each, end } : each,
    );
    const isOver = ranks.every((each) => each.end !== undefined);
    if (isOver) clearTimeout(this.#timer);
    this.#change(isOver ? { ranks, status: 'over' } : { ranks });
  }

  #change(part: Partial<LiveState>): void {
    this.#state = { ...this.#state, ...part };
    if (!this.#isDisposed) this.#onChange(this.#state);
  }
}
