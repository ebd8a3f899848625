import { type Compute, currentSession, type Node, type ProcessGroup } from '@shardwise/core/extend';
import type { BuiltBatch } from '../microbatches/build-microbatches.ts';
import type { EarlyWork } from '../work/early-work.ts';
import { keepCollected, withFrees, type WorkDraft, type WorkItem } from '../work/rank-work.ts';
import { FirstFault } from './first-fault.ts';
import { runWork } from './run-work.ts';

/** A pass that has been built and not begun. */
export interface BuiltPass {
  readonly batch: BuiltBatch;
  /** The work of this rank. */
  readonly drafts: readonly WorkDraft[];
  /** The values that outlive the pass. */
  readonly kept: ReadonlySet<Node>;
  /** The values for which somebody may wait. If the pass fails, reading them throws its error. */
  readonly unfilled: readonly Node[];
  /** Called before the work. `collected`: the results of collectives that several items read. */
  readonly compare?: (items: readonly WorkItem[], collected: ReadonlySet<Node>) => Promise<void>;
  /** Returns the work that is done before deferred work. Absent: deferred work comes first. */
  readonly early?: (items: readonly WorkItem[]) => EarlyWork;
  /** Called after the work. */
  readonly finish?: (fault: FirstFault) => Promise<void>;
}

/** Begins the work of a pass, and returns without waiting. */
export function beginPass(pass: BuiltPass, group: ProcessGroup): void {
  const { batch, drafts, kept, unfilled, compare, early, finish } = pass;
  const session = currentSession();
  const collected = keepCollected(drafts);
  const items = withFrees(drafts, new Set([...kept, ...batch.updated.keys()]));
  // Nodes that the pass frees are marked as owned. Otherwise the garbage collector would be asked to look for them
  // after almost every item.
  for (const { frees } of items) for (const node of frees) node.hasOwner = true;
  const work = async (compute: Compute): Promise<void> => {
    try {
      await compare?.(items, collected);
      const fault = new FirstFault();
      const settle = early === undefined ? null : session.takeDeferred();
      const ahead = early === undefined || settle === null ? null : { work: early(items), settle };
      await runWork(items, group, compute, fault, ahead);
      await finish?.(fault);
    } catch (error) {
      for (const node of unfilled) {
        if (node.value === null || node.value.kind === 'failed')
          node.value = { kind: 'failed', error };
      }
      throw error;
    } finally {
      settleUpdates(batch);
    }
  };
  session.enqueue(work, { runsDeferred: early !== undefined });
}

/** Tells the updates that the passes have made, such as those of running statistics, whether they were computed. */
function settleUpdates({ microbatches }: BuiltBatch): void {
  for (const { updates } of microbatches) {
    for (const [node, { outcome }] of updates) {
      if (node.value === null) outcome.dropped?.();
      else outcome.settled?.();
    }
  }
}
