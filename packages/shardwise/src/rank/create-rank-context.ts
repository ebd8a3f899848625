import { join } from 'node:path';
import type { Backend, Mesh, ProcessGroup } from '@shardwise/core';
import { CheckpointSaver } from '../checkpoint/checkpoint-saver.ts';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';
import { checkFacts } from './check-metrics.ts';
import type { RankContext } from './rank-context.ts';
import type { RankSurroundings } from './rank-host.ts';
import { StepRecorder } from './step-recorder.ts';

export interface RankParts extends RankSurroundings {
  readonly rank: number;
  readonly localRank: number;
  readonly transport: TransportChoice;
  readonly device: Backend;
  readonly group: ProcessGroup;
  readonly mesh: Mesh;
  readonly memoryBytes: () => number | undefined;
}

export function createRankContext(parts: RankParts): RankContext {
  const { rank, localRank, transport, device, group, mesh } = parts;
  const { runDirectory, resumeDirectory, stop, send } = parts;
  const worldSize = group.size;
  const recorder = new StepRecorder({ rank, send, memoryBytes: parts.memoryBytes });
  const saver = new CheckpointSaver({
    directory: join(runDirectory, 'checkpoints'),
    group,
    onSaved: (saved) => send({ kind: 'checkpoint', rank, ...saved }),
  });
  return {
    rank,
    worldSize,
    localRank,
    transport,
    device,
    group,
    mesh,
    runDirectory,
    resumeDirectory,
    report: (metrics) => recorder.report(metrics),
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
      try {
        await saver.close();
      } finally {
        recorder.close();
        group.close();
        parts.onClose();
      }
    },
  };
}
