import { join } from 'node:path';
import type { Backend, Mesh, ProcessGroup } from '@shardwise/core';
import { saveCheckpoint } from '../checkpoint/save-checkpoint.ts';
import type { RankContext } from './rank-context.ts';
import type { RankHost } from './rank-host.ts';
import { StepRecorder } from './step-recorder.ts';

export interface RankParts extends RankHost {
  readonly device: Backend;
  readonly group: ProcessGroup;
  readonly mesh: Mesh;
  readonly memoryBytes: () => number | undefined;
}

export function createRankContext(parts: RankParts): RankContext {
  const { rank, device, group, mesh, runDirectory, resumeDirectory, stop, send } = parts;
  const worldSize = group.size;
  const recorder = new StepRecorder({ rank, send, memoryBytes: parts.memoryBytes });
  return {
    rank,
    worldSize,
    localRank: rank,
    device,
    group,
    mesh,
    runDirectory,
    resumeDirectory,
    report: (metrics) => recorder.report(metrics),
    describe: (facts) => send({ kind: 'facts', rank, facts: { ...facts } }),
    shouldStop: (step) => Promise.resolve(stop.stopsAfter(step)),
    get stopRequested() {
      return stop.requested;
    },
    async saveCheckpoint(contents) {
      const directory = join(runDirectory, 'checkpoints');
      let folder = '';
      if (rank === 0) {
        folder = await saveCheckpoint(directory, { worldSize, ...contents });
        send({ kind: 'checkpoint', rank, step: contents.step, directory: folder });
      }
      return shareText(group, folder);
    },
    close() {
      recorder.close();
      group.close();
      parts.onClose();
    },
  };
}

/** Rank 0's text on every rank; also the moment from which on all know that it is there. */
async function shareText(group: ProcessGroup, text: string): Promise<string> {
  const encoded = new TextEncoder().encode(text);
  const length = Int32Array.of(encoded.byteLength);
  await group.broadcast({ bytes: new Uint8Array(length.buffer), dtype: 'i32' }, 0);
  const bytes = group.rank === 0 ? encoded : new Uint8Array(length[0] ?? 0);
  await group.broadcast({ bytes, dtype: 'u8' }, 0);
  return new TextDecoder().decode(bytes);
}
