import { joinPageWorld, singleGroup } from '@shardwise/collectives';
import { LineMesh, setRank } from '@shardwise/core';
import {
  type Backend,
  ConfigError,
  currentSession,
  type ProcessGroup,
} from '@shardwise/core/extend';
import type { CheckpointSaver } from '../checkpoint/save/checkpoint-saver.ts';
import { StopFlag } from '../launcher/ranks/stop-flag.ts';
import { AgreedStop } from '../rank/agreed-stop.ts';
import { checkFacts } from '../rank/check-metrics.ts';
import { StepRecorder } from '../rank/step-recorder.ts';
import type { RankMessage } from '../run-state/run-message.ts';
import { errorText, type PageAnswer, type PageOrder, unwrapOrder, wrap } from './page-message.ts';
import type { PageRankContext } from './page-rank-context.ts';

type JoinOrder = Extract<PageOrder, { kind: 'join' }>;

const post = (answer: PageAnswer): void => globalThis.postMessage(wrap(answer));

/**
 * Makes this worker a rank of the page that has started it by startRanks. From now on, tensors are computed on
 * the rank's device. It takes no options: those of a rank are given to startRanks. Throws ConfigError outside of a worker.
 */
export async function init(...options: readonly never[]): Promise<PageRankContext> {
  if (options.length > 0) {
    throw new ConfigError({
      asked: 'init(options) of a rank of a page',
      found: 'it takes none',
      todo: 'Call init(), and setRank({ device, mesh }) for another mesh',
    });
  }
  if (typeof document !== 'undefined' || typeof globalThis.postMessage !== 'function') {
    throw new ConfigError({
      asked: 'init() of a rank of a page',
      found: 'this is no worker',
      todo: 'Call it in the script of startRanks; a page computes in its ranks',
    });
  }
  reportFailures();
  const { order, onStop } = await joinOrder();
  const { pageRank, transport, device: deviceChoice, data, runDirectory, resume } = order;
  const { rank, size } = pageRank;
  const group = await join(order);
  const device = await createDevice(order);
  const mesh = new LineMesh('dp', group);
  setRank({ device, mesh });
  const stop = order.stop === undefined ? new AgreedStop(group) : new StopFlag(order.stop);
  onStop(() => stop.request());
  const send = (message: RankMessage): void => post({ kind: 'run', message });
  const memoryBytes = (): number | undefined => device.usage?.().bytesInUse;
  /** The saver is made for the first checkpoint, so that a rank that saves none does not load its code. */
  let saver: Promise<CheckpointSaver> | undefined;
  const makeSaver = async (): Promise<CheckpointSaver> => {
    const { pageSaver } = await import('./checkpoint/page-saver.ts');
    return pageSaver({
      directory: `${runDirectory}/checkpoints`,
      group,
      onSaved: (saved) => send({ kind: 'checkpoint', rank, ...saved }),
    });
  };
  const recorder = new StepRecorder({ rank, send, memoryBytes });
  return {
    rank,
    worldSize: size,
    localRank: rank,
    transport,
    device,
    deviceChoice,
    group,
    mesh,
    data,
    runDirectory,
    resumeDirectory: resume,
    report: (metrics) => recorder.report(metrics),
    describe: (facts) => {
      checkFacts(facts);
      send({ kind: 'facts', rank, facts: { ...facts } });
    },
    send: (value) => post({ kind: 'value', value }),
    shouldStop: async (step) => stop.stopsAfter(step),
    get stopRequested() {
      return stop.requested;
    },
    async saveCheckpoint(contents, options) {
      return (await (saver ??= makeSaver())).save(contents, options);
    },
    async close() {
      await currentSession().finish();
      await (await saver)?.close();
      recorder.close();
      group.close();
      post({ kind: 'closed' });
    },
  };
}

/** Reports errors that the script does not catch. Each of them ends the run. */
function reportFailures(): void {
  const fail = (error: unknown): void => post({ kind: 'failed', error: errorText(error) });
  globalThis.addEventListener('error', ({ error, message }) => fail(error ?? message));
  globalThis.addEventListener('unhandledrejection', ({ reason }) => fail(reason));
}

/** Tells the page that this worker is ready, and waits for the page's order to join. */
function joinOrder(): Promise<{
  readonly order: JoinOrder;
  readonly onStop: (listener: () => void) => void;
}> {
  const stopped = Promise.withResolvers<void>();
  const joined = Promise.withResolvers<JoinOrder>();
  globalThis.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
    const order = unwrapOrder(data);
    if (order?.kind === 'join') joined.resolve(order);
    else if (order?.kind === 'stop') stopped.resolve();
  });
  post({ kind: 'ready' });
  const onStop = (listener: () => void): void => void stopped.promise.then(listener);
  return joined.promise.then((order) => ({ order, onStop }));
}

/** Joins the world. A rank that is alone does not load the code that reaches other ranks. */
async function join({ pageRank }: JoinOrder): Promise<ProcessGroup> {
  if (pageRank.size === 1) return singleGroup();
  return joinPageWorld(pageRank);
}

/** Creates the rank's device. It imports only the backend that is used, so that a page does not load the other one. */
async function createDevice({ device, pageRank, arenaBytes }: JoinOrder): Promise<Backend> {
  const { world, rank } = pageRank;
  const region = world?.regions[rank];
  const arena =
    world === undefined || region === undefined ? undefined : { memory: world.memory, ...region };
  if (device.kind === 'webgpu') {
    const { webgpu } = await import('@shardwise/backend-webgpu');
    return webgpu(arena);
  }
  const { wasm } = await import('@shardwise/backend-cpu/wasm');
  if (arena !== undefined) return wasm(arena);
  return wasm(arenaBytes === undefined ? {} : { byteLength: arenaBytes });
}
