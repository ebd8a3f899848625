import { parentPort } from 'node:worker_threads';
import { joinPageWorld, type PageRank } from '@shardwise/collectives';
import { ShardwiseError } from '@shardwise/core/spec';
import {
  runProcessGroupScenario,
  type ErrorReport,
  type ProcessGroupScenario,
} from '@shardwise/testing/ranks';

/** The task of a worker that is a rank. */
export interface PageTask {
  readonly pageRank: PageRank;
  /** If undefined, the rank makes no call and waits for rank 0, which joins only. */
  readonly scenario: ProcessGroupScenario | undefined;
}

export type PageAnswer =
  | { readonly status: 'joined' }
  | { readonly status: 'fulfilled'; readonly value: unknown }
  | { readonly status: 'rejected'; readonly report: ErrorReport };

parentPort?.on('message', (task: PageTask) => void perform(task));

async function perform({ pageRank, scenario }: PageTask): Promise<void> {
  const group = await joinPageWorld(pageRank);
  answer({ status: 'joined' });
  if (scenario === undefined && group.rank === 0) return;
  try {
    const value = await (scenario === undefined
      ? group.barrier()
      : runProcessGroupScenario(group, scenario));
    answer({ status: 'fulfilled', value });
  } catch (error) {
    const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
    const known = ShardwiseError.isInstance(error) ? error : undefined;
    const report = { name, message, stack, code: known?.code, fields: known?.fields ?? {} };
    answer({ status: 'rejected', report });
  } finally {
    group.close();
  }
}

function answer(message: PageAnswer): void {
  parentPort?.postMessage(message);
}
