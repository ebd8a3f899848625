import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type Backend,
  currentSession,
  type Mesh,
  type ProcessGroup,
  TensorStateError,
} from '@shardwise/core/extend';
import { rankServers } from './server-metrics.ts';
import { writableAt } from '../checkpoint/places/checkpoint-place.ts';
import { CheckpointSaver } from '../checkpoint/save/checkpoint-saver.ts';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';
import type { Traffic } from './join/count-traffic.ts';
import { checkFacts } from './check-metrics.ts';
import { hostLoad } from '../profile/measure-host.ts';
import { StepProfiler, type StepProfilerOptions } from '../profile/step-profiler.ts';
import type { RankContext } from './rank-context.ts';
import type { RankSurroundings } from './rank-host.ts';
import { StepRecorder } from './step-recorder.ts';
import type { Utilization } from './utilization.ts';

export interface RankParts extends RankSurroundings {
  readonly rank: number;
  readonly localRank: number;
  readonly transport: TransportChoice;
  readonly device: Backend;
  readonly group: ProcessGroup;
  readonly mesh: Mesh;
  readonly memoryBytes: () => number | undefined;
  readonly utilization: Utilization | null;
  /** What is profiled, and what the device can do at most. Null: nothing is. */
  readonly profile: Pick<StepProfilerOptions, 'plan' | 'roofline'> | null;
}

/** A rank that has started, and how it leaves a world that others have left. */
export interface StartedRank {
  readonly context: RankContext;
  /** Ends what is under way and leaves the world, whose other ranks are gone for this reason. The launcher stays. */
  leave(reason: Error): Promise<void>;
}

export function createRankContext(parts: RankParts): StartedRank {
  const { rank, localRank, transport, device, group, mesh } = parts;
  const { runDirectory, resumeDirectory, stop, send, utilization, serversData } = parts;
  const traffic = parts.traffic ?? { sentBytes: 0, receivedBytes: 0 };
  const isCounted = parts.traffic !== undefined || serversData !== undefined;
  const { servers, metrics: serverMetrics } = rankServers(serversData, traffic);
  const worldSize = group.size;
  const recorder = new StepRecorder({
    rank,
    send: isCounted ? withTraffic(send, traffic) : send,
    memoryBytes: parts.memoryBytes,
  });
  const profiler =
    parts.profile && new StepProfiler({ ...parts.profile, rank, loadOf: hostLoad, send });
  const saver = new CheckpointSaver({
    ...writableAt(parts.checkpointDirectory ?? join(runDirectory, 'checkpoints')),
    group,
    onSaved: (saved) => send({ kind: 'checkpoint', rank, ...saved }),
  });
  if (rank === 0 && device.description !== undefined) {
    send({ kind: 'facts', rank, facts: { device: device.description } });
  }
  if (rank === 0 && utilization !== null) send({ kind: 'facts', rank, facts: utilization.facts });
  const leave = async (reason: Error): Promise<void> => {
    group.close(reason);
    recorder.close();
    utilization?.close();
    // Calls of the group reject, so what is under way fails soon. It must not go on beside the work of the next world.
    await settlesSoon(
      currentSession()
        .finish()
        .catch(() => undefined),
    );
    await saver.close().catch(() => undefined);
  };
  const context: RankContext = {
    rank,
    worldSize,
    localRank,
    transport,
    device,
    group,
    mesh,
    servers,
    runDirectory,
    resumeDirectory,
    report: (metrics) =>
      recorder.report({
        ...metrics,
        metrics: {
          ...serverMetrics(rank),
          ...utilization?.take(metrics.tokens),
          ...profiler?.step(metrics.step),
          ...metrics.metrics,
        },
      }),
    describe: (facts) => {
      checkFacts(facts);
      send({ kind: 'facts', rank, facts: { ...facts } });
    },
    shouldStop: async (step) => stop.stopsAfter(step),
    get stopRequested() {
      return stop.requested;
    },
    saveCheckpoint: (contents, options) => saver.save(contents, options),
    async close() {
      let reason: Error | undefined;
      try {
        await servers.close();
        if (!(await settlesSoon(currentSession().finish()))) reason = closedEarly(rank);
        await saver.close();
        await profiler?.close();
      } finally {
        recorder.close();
        utilization?.close();
        group.close(reason);
        parts.onClose();
      }
    },
  };
  return { context, leave };
}

/** Adds to each report of a step what was sent and received since the previous one. */
function withTraffic(send: RankSurroundings['send'], traffic: Traffic): RankSurroundings['send'] {
  let before = { sentBytes: 0, receivedBytes: 0 };
  return (message) => {
    if (message.kind !== 'step') {
      send(message);
      return;
    }
    const now = { ...traffic };
    send({
      ...message,
      sentBytes: now.sentBytes - before.sentBytes,
      receivedBytes: now.receivedBytes - before.receivedBytes,
    });
    before = now;
  };
}

/** How long a step that nobody has awaited may take to end. */
const UNDER_WAY_MS = 5000;

/**
 * Whether the pending work ends soon. It does not if other ranks do not take part in it, as after an error that closes
 * this rank.
 */
async function settlesSoon(done: Promise<void>): Promise<boolean> {
  const timer = new AbortController();
  const late = delay(UNDER_WAY_MS, false, { signal: timer.signal, ref: false }).catch(() => false);
  try {
    return await Promise.race([done.then(() => true), late]);
  } finally {
    timer.abort();
  }
}

function closedEarly(rank: number): TensorStateError {
  return new TensorStateError(
    {
      asked: `close() on rank ${rank}`,
      found: 'a step or a reading of a tensor that was still under way there',
      todo: 'Await optimizer.step() and what reads tensors before close()',
    },
    { rank },
  );
}
