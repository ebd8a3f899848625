import { createPageWorld, type PageWorld } from '@shardwise/collectives';
import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { StopFlag } from '../launcher/ranks/stop-flag.ts';
import type { CheckpointMessage, Fact, RunMessage, StepReport } from '../run-state/run-message.ts';
import { initialRunState, reduceRun, type RunState } from '../run-state/run-state.ts';
import type { CheckpointSource } from './checkpoint/checkpoint-source.ts';
import { chooseDevice, type PageDevice } from './choose-device.ts';
import { type PageAnswer, type RankEnd, unwrapAnswer, wrap } from './page-message.ts';
import type { PageReport } from './page-report.ts';

/** Options of `startRanks`. */
export interface StartRanksOptions {
  /** The number of ranks. Each is a worker. */
  readonly size: number;
  /**
   * The module that each rank runs. It calls `init()`. A function may make the worker itself, in the form that
   * bundlers recognise: `() => new Worker(new URL('./rank.ts', import.meta.url), { type: 'module' })`.
   */
  readonly script: string | URL | (() => Worker);
  /**
   * Where ranks compute. Default: 'auto', which uses the GPU for one rank if there is one, and otherwise
   * WebAssembly.
   */
  readonly device?: 'auto' | 'webgpu' | 'wasm';
  /** Bytes of memory for the tensors of each rank on WebAssembly. Default: the available memory, divided evenly. */
  readonly arenaBytes?: number;
  /**
   * Given to every rank as `context.data`. It may be anything that can be posted, such as texts, typed arrays,
   * and files that a visitor picked.
   */
  readonly data?: unknown;
  /**
   * The folder of this run in the browser's storage for the page. Checkpoints are stored in its folder
   * `checkpoints`. Default: 'shardwise'. Runs at the same time need different folders.
   */
  readonly runDirectory?: string;
  /**
   * The checkpoint to continue from, as `context.resumeDirectory`: a folder of the browser's storage, or files
   * that the visitor has picked (an archive that checkpointFile made, or those of a checkpoint's folder).
   */
  readonly resume?: CheckpointSource;
  /** Called with the report of a rank about an update. */
  readonly onStep?: (report: StepReport) => void;
  /** Called with facts of the model or the run that a rank describes. */
  readonly onFacts?: (facts: Readonly<Record<string, Fact>>, rank: number) => void;
  /** Called with a value that a rank's script sends. */
  readonly onValue?: (value: unknown, rank: number) => void;
  /** Called when a checkpoint is stored in the browser's storage. */
  readonly onCheckpoint?: (checkpoint: CheckpointMessage) => void;
  /** Called when a rank has ended. */
  readonly onEnd?: (end: RankEnd) => void;
}

const startRules: OptionRules<StartRanksOptions> = {
  size: option.required(option.integer(1)),
  script: option.required({
    fits: (value): value is StartRanksOptions['script'] =>
      typeof value === 'string' || value instanceof URL || typeof value === 'function',
    expected:
      "the address of a module, or a function that makes a worker: () => new Worker(new URL('./rank.ts', import.meta.url), { type: 'module' })",
  }),
  device: option.oneOf('auto', 'webgpu', 'wasm'),
  arenaBytes: option.integer(1),
  data: option.checkedLater(),
  runDirectory: option.text,
  resume: {
    fits: (value): value is CheckpointSource =>
      typeof value === 'string' || value instanceof Blob || isList(value),
    expected: "the name of a folder of the browser's storage, or files",
  },
  onStep: option.callback(),
  onFacts: option.callback(),
  onValue: option.callback(),
  onCheckpoint: option.callback(),
  onEnd: option.callback(),
};

/** Whether a source is a list of files, such as the one of an `<input>` element. */
function isList(source: unknown): source is Iterable<File> {
  return typeof source === 'object' && source !== null && Symbol.iterator in source;
}

/** Ranks that are workers of this page. */
export interface PageRun {
  readonly size: number;
  /** How the ranks reach each other, and why. */
  readonly transport: { readonly kind: 'threads' | 'ports'; readonly reason: string };
  readonly device: PageDevice;
  /** Resolves when all ranks have ended, with the end of each rank, by rank. It never rejects. */
  readonly ended: Promise<readonly RankEnd[]>;
  /**
   * The state of the run so far: every step, facts, timelines, checkpoints and how ranks ended. It is a value
   * that does not change.
   */
  readonly report: PageReport;
  /** The report as an HTML page with charts. It needs no network and no other file. */
  reportHtml(): Promise<string>;
  /** Asks for an end: `shouldStop` tells all ranks after the same update. */
  stop(): void;
  /** Ends all ranks at once, whatever they do. */
  terminate(): void;
  /**
   * Ends one rank at once, as if its worker had crashed. The calls of the other ranks that wait for it reject
   * and name it.
   */
  kill(rank: number): void;
}

/**
 * After one rank has failed, how long the other ranks have to report their own errors. A rank reports when it comes to a
 * collective, which is after its present computation, and on a busy machine after several seconds.
 */
const FAILURE_GRACE_MS = 10_000;

/**
 * Starts ranks as workers of this page. If the page is isolated, the ranks share memory; otherwise they post
 * messages. Throws ConfigError for options that do not fit, and BackendError for a device that does not exist.
 *
 *     const run = await startRanks({ size: 2, script: () => new Worker(new URL('./rank.ts', import.meta.url), { type: 'module' }) });
 */
export async function startRanks(options: StartRanksOptions): Promise<PageRun> {
  checkOptions('startRanks', options, startRules);
  const { size, device: asked = 'auto', arenaBytes } = options;
  const device = await chooseDevice(asked, size);
  const world = createPageWorld(arenaBytes === undefined ? { size } : { size, arenaBytes });
  return new StartedRun(options, device, world);
}

interface StartedRank {
  readonly worker: Worker;
  readonly ended: PromiseWithResolvers<RankEnd>;
  isOver: boolean;
}

class StartedRun implements PageRun {
  readonly size: number;
  readonly transport: PageRun['transport'];
  readonly device: PageDevice;
  readonly ended: Promise<readonly RankEnd[]>;
  readonly #options: StartRanksOptions;
  readonly #world: PageWorld;
  readonly #stop: StopFlag | undefined;
  readonly #ranks: readonly StartedRank[];
  #isAborted = false;
  #state: RunState;

  constructor(options: StartRanksOptions, device: PageDevice, world: PageWorld) {
    const { transport, reason, size } = world;
    const shares = transport === 'shared memory';
    this.size = size;
    this.device = device;
    this.transport = { kind: shares ? 'threads' : 'ports', reason };
    this.#options = options;
    this.#world = world;
    this.#state = initialRunState({
      script: globalThis.document?.title || 'Ranks of a page',
      worldSize: size,
      startMs: Date.now(),
      engine: globalThis.navigator.userAgent,
      transport: `${this.transport.kind}: ${reason}`,
    });
    this.#add({ kind: 'facts', rank: 0, facts: { device: `${device.kind}: ${device.reason}` } });
    this.#stop = shares ? new StopFlag() : undefined;
    this.#ranks = world.ranks.map(({ rank }) => this.#start(rank));
    this.ended = Promise.all(this.#ranks.map(({ ended }) => ended.promise));
  }

  get report(): PageReport {
    const { pending: _, processBytes: __, ...report } = this.#state;
    return report;
  }

  async reportHtml(): Promise<string> {
    const { htmlReport } = await import('../report/html-report.ts');
    const isOver = this.#ranks.every((rank) => rank.isOver);
    return htmlReport(this.#state, { isOver });
  }

  #add(message: RunMessage): void {
    this.#state = reduceRun(this.#state, message);
  }

  stop(): void {
    this.#add({ kind: 'stopping' });
    if (this.#stop !== undefined) this.#stop.request();
    else for (const { worker } of this.#ranks) worker.postMessage(wrap({ kind: 'stop' }));
  }

  terminate(): void {
    for (const rank of this.#ranks.keys())
      this.#end({ rank, status: 'terminated', error: undefined });
  }

  kill(rank: number): void {
    if (this.#ranks[rank] === undefined) {
      throw new ConfigError(
        {
          asked: `to end rank ${rank}`,
          found: `ranks 0 to ${this.size - 1}`,
          todo: 'Name one of them',
        },
        { rank, size: this.size },
      );
    }
    this.#end({ rank, status: 'killed', error: undefined });
    this.#abort(rank, 'its worker was ended');
  }

  #start(rank: number): StartedRank {
    const { script } = this.#options;
    const worker =
      typeof script === 'function'
        ? script()
        : new Worker(script, { type: 'module', name: `rank ${rank}` });
    const fail = (name: string, message: string): void =>
      this.#fail(rank, { name, message, stack: undefined, fields: {} });
    worker.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      const answer = unwrapAnswer(data);
      if (answer !== undefined) this.#hear(rank, answer);
    });
    // The worker reports its own errors only after init(). For a script that does not load, the event has no message.
    worker.addEventListener('error', (event) => {
      // `fail` reports the error. Without this, the browser would also report it as an error of the page's script.
      event.preventDefault();
      fail('Error', event.message || 'the script of the rank could not be loaded');
    });
    worker.addEventListener('messageerror', () => fail('DataCloneError', 'a message was lost'));
    return { worker, ended: Promise.withResolvers(), isOver: false };
  }

  #hear(rank: number, answer: PageAnswer): void {
    const { onStep, onFacts, onValue, onCheckpoint } = this.#options;
    if (this.#ranks[rank]?.isOver !== false) return;
    switch (answer.kind) {
      case 'ready':
        this.#join(rank);
        break;
      case 'run': {
        const { message } = answer;
        this.#add(message);
        if (message.kind === 'step') onStep?.(message);
        else if (message.kind === 'checkpoint') onCheckpoint?.(message);
        else if (message.kind === 'facts') onFacts?.(message.facts, rank);
        break;
      }
      case 'value':
        onValue?.(answer.value, rank);
        break;
      case 'failed':
        this.#fail(rank, answer.error);
        break;
      case 'closed':
        this.#end({ rank, status: 'closed', error: undefined });
        break;
      default:
        answer satisfies never;
    }
  }

  #join(rank: number): void {
    const pageRank = this.#world.ranks[rank];
    if (pageRank === undefined) return;
    const { arenaBytes, data, runDirectory = 'shardwise', resume } = this.#options;
    const order = wrap({
      kind: 'join',
      pageRank,
      transport: this.transport,
      device: this.device,
      arenaBytes,
      stop: this.#stop?.memory,
      data,
      runDirectory,
      // The FileList of an input can't be posted. An array of its files can.
      resume: isList(resume) ? [...resume] : resume,
    });
    this.#ranks[rank]?.worker.postMessage(order, pageRank.ports);
  }

  #fail(rank: number, error: NonNullable<RankEnd['error']>): void {
    if (this.#ranks[rank]?.isOver !== false) return;
    console.error(`shardwise: rank ${rank} failed: ${error.stack ?? error.message}`);
    this.#end({ rank, status: 'failed', error });
    this.#abort(rank, `${error.name}: ${error.message}`);
  }

  /** Rejects the calls that wait for the rank, and ends ranks that have not ended by themselves after `failureGraceMs`. */
  #abort(rank: number, reason: string): void {
    if (this.#isAborted) return;
    this.#isAborted = true;
    this.#world.abort({ rank, reason });
    setTimeout(() => this.terminate(), FAILURE_GRACE_MS);
  }

  #end(end: RankEnd): void {
    const rank = this.#ranks[end.rank];
    if (rank === undefined || rank.isOver) return;
    rank.isOver = true;
    if (end.status === 'terminated') this.#add({ kind: 'stopping' });
    const hasFailed = end.status === 'failed' || end.status === 'killed';
    this.#add({ kind: 'exit', rank: end.rank, code: hasFailed ? 1 : 0 });
    rank.worker.terminate();
    this.#options.onEnd?.(end);
    rank.ended.resolve(end);
  }
}
